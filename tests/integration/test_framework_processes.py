"""Tasks with `process=True` of web frameworks: their child processes have the framework, too."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.django_project import ENVIRON, write_project
from tests.support.flask_project import FLASK

RUN_FLASK = """
import shop

if __name__ == "__main__":
    shop.{factory}()
    shop.jobs.start()
    for task in (shop.in_process, shop.async_in_process):
        try:
            print(task.sync.submit().result("60s"))
        except Exception as error:
            print(error)
    shop.jobs.stop()
"""


def run_flask(folder: Path, factory: str, flask_app: str = "") -> str:
    (folder / "shop.py").write_text(FLASK.format(factory=factory, flask_app=flask_app))
    return run(folder, RUN_FLASK.format(factory=factory))


def run(folder: Path, script: str, environ: Mapping[str, str] | None = None) -> str:
    (folder / "main.py").write_text(script)
    known = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
    environ = known | {"DUETIME_PROCESSES": "1"} | dict(environ or {})
    command = [sys.executable, "main.py"]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_process_of_a_task_makes_a_flask_application(tmp_path: Path) -> None:
    assert run_flask(tmp_path, "create_app").splitlines() == ["by default"] * 2


def test_the_flask_application_of_processes_can_be_named(tmp_path: Path) -> None:
    told = run_flask(tmp_path, "build", ", flask_app=\"shop:build('named')\"")
    assert told.splitlines() == ["named"] * 2


def test_a_process_says_which_flask_application_it_cannot_make(tmp_path: Path) -> None:
    told = run_flask(tmp_path, "build")
    assert "flask_app: this process cannot make the Flask application 'shop'" in told
    assert "Duetime(jobs, flask_app='shop:create_app()')" in told


RUN_DJANGO = """
import os
import signal

os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"

if __name__ == "__main__":
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from duetime.integrations.django import app
    from orders.models import Order
    from orders.tasks import count

    Order.objects.create()
    print([each.__qualname__ for each in app.middlewares])
    app.start()
    for _ in range(2):
        print(count.sync.submit().result("60s"))
    app.stop()
"""
SENTRY = """
from duetime.integrations.django import app


def around(ctx):
    from .models import Order

    Order.objects.count()
    yield


app.middleware(around)
"""


def test_the_process_of_a_task_sets_django_up(tmp_path: Path) -> None:
    """With a middleware of the project, which uses models, and is added before Django is ready."""
    write_project(tmp_path, {"orders/__init__.py": SENTRY})
    told = run(tmp_path, RUN_DJANGO, ENVIRON)
    assert told.splitlines() == ["['_Connections.around', 'around']", "1", "1"]
