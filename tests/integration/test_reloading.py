"""`--reload`: the process starts again when its code changes, waits where it cannot, and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from duetime.cli.reloading import watched
from tests.support.command import Command, run
from tests.support.django_project import ENVIRON, write_project
from tests.support.flask_project import FLASK

APP = """\
import duetime

app = duetime.App()


@app.task(name="{task}")
async def task() -> None: ...


@app.on_start
async def plan() -> None:
    await task.submit()
"""


def test_it_starts_again_when_a_file_changes(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP.format(task="first"))
    with Command(tmp_path, "up", "shop:app", "--port", "0", "--json", "--reload") as up:
        up.until(lambda up: '"first"' in up.stdout and "SUCCEEDED" in up.stdout)
        (tmp_path / "shop.py").write_text("import duetime\n\napp = = duetime.App()\n")
        up.until(lambda up: '"waiting"' in up.stdout)
        assert "app = = duetime.App()" in up.stderr, "the error is shown"
        assert up.lines.count({"event": "stopped"}) == 1, "it was stopped gracefully"
        (tmp_path / "notes.txt").write_text("no code")
        (tmp_path / "shop.py").write_text(APP.format(task="second"))
        up.until(lambda up: '"second"' in up.stdout and up.stdout.count("SUCCEEDED") == 2)
        assert {"event": "reload", "files": ["shop.py"]} in up.lines
        pids = children_of(up.pid)
        assert up.stop(signal.SIGINT) == 0
        assert up.lines[-1]["event"] == "stopped"
        assert not any(map(alive, pids))


def test_a_killed_parent_takes_its_child_along(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP.format(task="first"))
    environ = {"DUETIME_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing"}
    with Command(tmp_path, "worker", "shop:app", "--reload", environ=environ) as worker:
        worker.until(lambda worker: "retrying until it is available" in worker.stderr)
        [child] = children_of(worker.pid)
        assert worker.stop(signal.SIGKILL) == -signal.SIGKILL
        deadline = time.monotonic() + 30
        while alive(child) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not alive(child)


@pytest.mark.parametrize("command", ["up", "worker"])
def test_there_must_be_an_app(tmp_path: Path, command: str) -> None:
    extra = ["--embedded"] if command == "worker" else []
    code, failed = run(tmp_path, command, *extra, "--reload")
    assert (code, "app: there is no app to reload (give module:app with --reload)" in failed.stderr) == (2, True)


def test_what_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere / "package"):
        folder.mkdir(parents=True)
    (here / "local.py").write_text("raise AssertionError('it is not imported')")
    (elsewhere / "package" / "__init__.py").write_text("raise AssertionError('it is not imported')")
    (elsewhere / "single.py").touch()
    monkeypatch.chdir(here)
    monkeypatch.syspath_prepend(str(elsewhere))
    assert watched("local:app") == watched("not_there:app") == [here]
    assert watched("package.jobs:app") == [here, elsewhere / "package"]
    assert watched("single:app") == [here, elsewhere / "single.py"]


@pytest.mark.parametrize("framework", ["django", "flask"])
def test_reload_starts_the_command_of_the_framework_again(tmp_path: Path, framework: str) -> None:
    """Django's as a script, Flask's as a module."""
    program, file = (
        (["manage.py"], "orders/tasks.py") if framework == "django" else (["-m", "flask", "--app", "shop"], "shop.py")
    )
    changed = tmp_path / file
    if framework == "django":
        write_project(tmp_path)
    else:
        changed.write_text(FLASK.format(factory="create_app", flask_app=""))
    known = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
    environ = known | {"DUETIME_PORT": "0", "DUETIME_DATA_DIR": str(tmp_path / "data"), "PYTHONPATH": str(tmp_path)}
    with (tmp_path / "log").open("w") as log:
        up = subprocess.Popen(
            [sys.executable, *program, "duetime", "up", "--reload", "--json"],
            cwd=tmp_path, env=environ | ENVIRON, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        wait_for(tmp_path / "log", '"event":"up"', up)
        old = "def confirm(" if framework == "django" else "def async_in_process("
        changed.write_text(changed.read_text().replace(old, "def renamed("))
        wait_for(tmp_path / "log", "renamed", up)
        up.send_signal(signal.SIGTERM)
        assert up.wait(30) == 0
    finally:
        up.kill()
        up.wait()
    told = (tmp_path / "log").read_text()
    assert told.count('"event":"up"') == told.count('"event":"stopped"') == 2, told


def wait_for(log: Path, text: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 60
    while text not in log.read_text():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
