"""The example applications of web frameworks: real servers on a real PostgreSQL."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import psycopg
import pytest

from duetime import App, SettingsError
from duetime.integrations.hosting import configure

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT = 60.0


class Process:
    """A command in the folder of an example; `log` is all that it has printed."""

    def __init__(self, folder: str, log: Path, *command: str, **environ: str) -> None:
        self._log = log
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                cwd=EXAMPLES / folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environ},
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    def until(self, pattern: str) -> re.Match[str]:
        def look() -> re.Match[str] | None:
            assert self._process.poll() is None, self.log
            return re.search(pattern, self.log)

        return wait_for(look, self._log)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(TIMEOUT)
        finally:
            self._process.kill()
            self._process.wait()


def wait_for(look: Callable[[], Any], what: object = "") -> Any:
    deadline = time.monotonic() + TIMEOUT
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return found


@contextmanager
def started(*given: Any, **environ: str) -> Iterator[Process]:
    process = Process(*given, **environ)
    try:
        yield process
    finally:
        process.stop()


def ask(method: str, url: str) -> tuple[int, Any]:
    try:
        with urlopen(Request(url, method=method), timeout=TIMEOUT) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, None


def rows(dsn: str, query: str) -> Any:
    with psycopg.connect(dsn) as connection:
        return connection.execute(query).fetchall()


WAITING = "select count(*) from (select 1 from duetime.jobs union all select 1 from duetime.runs) found"


def test_fastapi(migrated: str, tmp_path: Path) -> None:
    serve = ("-m", "uvicorn", "main:api", "--port", "0")
    with started("fastapi_orders", tmp_path / "log", *serve, DUETIME_DATABASE_URL=migrated) as server:
        url = server.until(r"running on (http://127\.0\.0\.1:\d+)")[1]
        assert ask("POST", f"{url}/orders?email=ada@example.com") == (201, {"id": 1})
        assert ask("POST", f"{url}/orders?email=wrong")[0] == 422
        done = {"id": 1, "email": "ada@example.com", "confirmations": 1}
        wait_for(lambda: ask("GET", f"{url}/orders/1") == (200, done), tmp_path / "log")
        assert rows(migrated, "select count(*) from duetime.workers") == [(1,)]
    assert rows(migrated, "select count(*) from duetime.history") == [(1,)], "the refused order has no job"
    assert rows(migrated, WAITING) == rows(migrated, "select count(*) from duetime.workers") == [(0,)]
    assert "Application shutdown complete" in server.log
    assert "Traceback" not in server.log


def test_flask(migrated: str, tmp_path: Path) -> None:
    """A process of gunicorn, which loads the application before it forks."""
    serve = ("-m", "gunicorn", "--preload", "--workers", "1", "--bind", "127.0.0.1:0", "shop:create_app()")
    with started("flask_orders", tmp_path / "log", *serve, DUETIME_DATABASE_URL=migrated) as server:
        url = server.until(r"Listening at: (http://127\.0\.0\.1:\d+)")[1]
        assert ask("POST", f"{url}/orders/ada@example.com") == (201, {"id": 1})
        assert ask("POST", f"{url}/orders/wrong")[0] == 422
        done = {"id": 1, "email": "ada@example.com", "confirmed_by": "the shop"}
        wait_for(lambda: ask("GET", f"{url}/orders/1") == (200, done), tmp_path / "log")
        wait_for(lambda: rows(migrated, "select count(*) from duetime.workers") == [(1,)])
    assert rows(migrated, "select count(*) from duetime.history") == [(1,)], "the refused order has no job"
    assert rows(migrated, "select count(*) from duetime.workers") == [(0,)], "it stopped gracefully"
    assert "Traceback" not in server.log


def test_the_flask_command(tmp_path: Path) -> None:
    from flask import Flask

    from duetime.integrations.flask import Duetime

    flask = Flask("shop")
    flask.config["DUETIME_DATA_DIR"] = str(tmp_path / "data")
    app = App()

    @app.task(name="greet")
    def greet() -> None: ...

    Duetime(app, flask)
    assert flask.extensions["duetime"] is app
    assert app.settings.data_dir == tmp_path / "data"
    answer = flask.test_cli_runner().invoke(args=["duetime", "doctor"])
    assert answer.exit_code == 0, answer.output
    assert "greet" in answer.output
    os.environ.pop("DUETIME_DATA_DIR")
    with pytest.raises(SettingsError, match=r"DUETIME_SLOT is not a setting \(did you mean SLOTS\?\)"):
        configure(app, {"SLOT": 3}, "DUETIME_{}")


SHOPPING = """
import sys, time
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

call_command("migrate", verbosity=0)
call_command("makemigrations", check=True, dry_run=True, verbosity=0)
print("migrated", flush=True)
client = Client()
made = client.post("/orders/ada@example.com")
assert (made.status_code, made.json()) == (201, {"id": 1}), made
assert client.post("/orders/wrong").status_code == 422
deadline = time.monotonic() + 60
while client.get("/orders/1/").json() != {"id": 1, "confirmed": True, "thanked": True}:
    assert time.monotonic() < deadline
    time.sleep(0.05)
client.force_login(User.objects.create_superuser("ada"))
assert "/admin/duetime/dashboard/" in client.get("/admin/").content.decode()
page = client.get("/admin/duetime/dashboard/").content.decode()
assert 'href="http://127.0.0.1:8420"' in page and "orders.tasks.confirm" in page, page
client.force_login(User.objects.create_user("eve", is_staff=True))
assert client.get("/admin/duetime/dashboard/").status_code == 403
assert "/admin/duetime/dashboard/" not in client.get("/admin/").content.decode()
print("done", flush=True)
"""


def test_django(migrated: str, tmp_path: Path) -> None:
    parts = urlsplit(migrated)
    environ = {
        "PGHOST": parts.hostname or "",
        "PGPORT": str(parts.port),
        "PGUSER": parts.username or "",
        "PGDATABASE": parts.path[1:],
        "DJANGO_SETTINGS_MODULE": "shop.settings",
        "DUETIME_DATA_DIR": str(tmp_path / "data"),
    }
    with (
        started("django_orders", tmp_path / "up", "manage.py", "duetime", "up", "--port", "0", **environ) as up,
        started("django_orders", tmp_path / "shopping", "-c", SHOPPING, **environ) as shopping,
    ):
        up.until(r"duetime is up on [^,]*, with\s+2\s+tasks:\s+orders\.tasks\.confirm,\s+orders\.tasks\.thank")
        wait_for(lambda: "done" in shopping.log or "Error" in shopping.log)
        assert shopping.log.splitlines()[-1] == "done", shopping.log
    assert rows(migrated, "select count(*) from duetime.history") == [(2,)], "the refused order has no job"
    assert "stopped" in up.log
