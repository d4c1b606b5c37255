"""Commands that run until they are stopped: `up`, `server` and `worker`, as real processes."""

import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import psycopg

from tests.support.command import Command, only_line, run, tracebacks
from tests.support.ticking import ODD
from tests.support.working import ENCRYPTION

HELLO = "examples.hello:app"
TICKING = "tests.support.ticking:app"
STUBBORN = "tests.support.stubborn:app"


def wait_for_all(up: Command, folder: Path) -> int:
    """Wait until all tasks have begun; returns the id of the child process."""
    up.until(lambda _: all((folder / name).exists() for name in ("thread", "loop", "child")))
    return int((folder / "child").read_text())


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_up_runs_jobs_and_stops_in_good_order(tmp_path: Path) -> None:
    with Command(tmp_path, "up", HELLO) as up:
        up.until(lambda up: "✓ examples.hello.flaky" in up.stdout)
        assert up.stop() == 0
    assert up.stdout.startswith("duetime is up on duetime-data/duetime.db, with 2 tasks: examples.hello.flaky, ")
    assert "✗ examples.hello.flaky" in up.stdout, "the first attempt of that task fails"
    assert up.stdout.splitlines()[-1].startswith("stopped")
    assert tracebacks(up.stderr) == []
    assert "examples.hello.flaky failed, retrying in" in up.stderr


def ticks(up: Command) -> list[str]:
    """The ids of the runs of `tick` that have ended."""
    return [line["run_id"] for line in up.lines if line["event"] == "attempt" and line["task"].endswith("tick")]


def test_up_keeps_jobs_over_a_restart(tmp_path: Path) -> None:
    run_ids: list[str] = []
    for _ in range(2):
        with Command(tmp_path, "up", TICKING, "--json") as up:
            up.until(lambda up: len(ticks(up)) >= 2)
            assert up.stop(signal.SIGTERM) == 0
        [ready] = [line for line in up.lines if line["event"] == "up"]  # a due run may end before the start hooks have
        assert (len(ready["tasks"]), up.lines[-1]) == (2, {"event": "stopped"})
        run_ids += ticks(up)
    assert len(run_ids) == len(set(run_ids)), "no occurrence ran twice"
    with closing(sqlite3.connect(tmp_path / "duetime-data" / "duetime.db")) as file:
        assert file.execute("select count(*) from jobs").fetchone() == (1,), "any number of starts leave one job"


def test_a_file_belongs_to_one_process(tmp_path: Path) -> None:
    with Command(tmp_path, "up") as up:
        up.until(lambda up: "duetime is up" in up.stdout)
        for arguments in (("up",), ("worker", HELLO, "--embedded")):
            code, second = run(tmp_path, *arguments)
            assert (code, only_line(second).startswith("error")) == (5, True)
            assert f"belongs to process {up.pid} " in second.stderr
        code, second = run(tmp_path, "up", "--json")
        assert (code, second.lines[0]["error"]) == (5, "StoreLocked")
        code, checked = run(tmp_path, "doctor")
        assert (code, f"; process {up.pid} uses it" in checked.stdout) == (0, True), checked
        assert "✓ server       http://127.0.0.1:" in checked.stdout and "✓ tasks " in checked.stdout, checked
        assert up.stop() == 0
    with Command(tmp_path, "up") as up:
        up.until(lambda up: "duetime is up" in up.stdout)


def test_a_killed_process_gives_the_file_back(tmp_path: Path) -> None:
    with Command(tmp_path, "up", HELLO) as up:
        up.until(lambda up: "✗ examples.hello.flaky" in up.stdout)
        assert up.stop(signal.SIGKILL) == -signal.SIGKILL
    with Command(tmp_path, "up", HELLO) as up:
        up.until(lambda up: "✓ examples.hello.flaky" in up.stdout)
        assert up.stop() == 0


def test_a_server_and_a_worker_on_postgres(tmp_path: Path, migrated: str) -> None:
    environ = {"DUETIME_DATABASE_URL": migrated, "DUETIME_POLL": "50ms", "DUETIME_ENCRYPTION_KEYS": ENCRYPTION}
    with (
        Command(tmp_path / "server", "server", "--json", environ=environ) as server,
        Command(tmp_path / "worker", "worker", HELLO, "--json", environ=environ) as worker,
    ):
        server.until(lambda server: server.lines)
        worker.until(lambda worker: worker.lines)
        assert worker.lines[0]["tasks"] == ["examples.hello.flaky", "examples.hello.greet"]
        with psycopg.connect(migrated, autocommit=True) as database:
            ended = "select count(*) from duetime.history where end_state = 4"
            worker.until(lambda _: database.execute(ended).fetchone()[0])
            # The server has one of its own, which makes the calls of targets.
            assert "✓ workers      2 alive" in run(tmp_path, "doctor", environ=environ)[1].stdout
            assert worker.stop(signal.SIGTERM) == 0
            assert server.stop(signal.SIGTERM) == 0
            for table, rows in {"workers": 0, "claims": 0, "jobs": 1}.items():
                assert database.execute(f"select count(*) from duetime.{table}").fetchone() == (rows,)
    assert server.lines[-1] == worker.lines[-1] == {"event": "stopped"}
    assert tracebacks(server.stderr + worker.stderr) == []


def test_an_odd_error_text_does_not_stop_the_process(tmp_path: Path) -> None:
    """What a task raises goes to a terminal that understands markup."""
    with Command(tmp_path, "up", TICKING) as up:
        up.until(lambda up: up.stdout.count("✗") == len(ODD))
        up.until(lambda up: "✓" in up.stdout)
        assert up.stop() == 0
    assert "ValueError: [/red]" in up.stdout


def test_tasks_that_do_not_stop_cannot_keep_the_process(tmp_path: Path) -> None:
    with Command(tmp_path, "up", STUBBORN) as up:
        child = wait_for_all(up, tmp_path)
        os.kill(up.pid, signal.SIGTERM)
        up.until(lambda up: "3 runs have 0:00:30 to finish" in up.stderr)
        assert up.stop() == 0, "the second signal stops at once"
    assert "stopped" in up.stdout
    assert not alive(child)
    with closing(sqlite3.connect(tmp_path / "duetime-data" / "duetime.db")) as file:
        waiting = file.execute("select count(*) from runs where worker_id is null and attempt = 0").fetchone()
    assert waiting == (3,), "all were handed back, nothing spent"


def test_the_children_of_a_killed_process_end(tmp_path: Path) -> None:
    with Command(tmp_path, "up", STUBBORN) as up:
        child = wait_for_all(up, tmp_path)
        assert up.stop(signal.SIGKILL) == -signal.SIGKILL
        deadline = time.monotonic() + 20
        while alive(child):
            assert time.monotonic() < deadline, "its child lives on without it"
            time.sleep(0.02)


def test_a_start_hook_that_fails_says_so(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "import duetime\n\napp = duetime.App()\n\n\n"
        "@app.on_start\nasync def plan():\n    await app.submit('nothing')\n    1 / 0\n\n\n"
    )
    code, failed = run(tmp_path, "up", "broken:app")
    assert (code, "task: there is no task 'nothing' in this app (it has: none)" in failed.stderr) == (1, True)
    (tmp_path / "broken.py").write_text((tmp_path / "broken.py").read_text().replace("await app.submit('nothing')", ""))
    code, failed = run(tmp_path, "up", "broken:app")
    *_, raised, line = failed.stderr.splitlines()
    assert (code, raised) == (1, "ZeroDivisionError: division by zero")
    assert line.endswith("line 9) failed: ZeroDivisionError: division by zero")
    assert "Group" not in failed.stderr


def test_a_start_hook_that_hangs_can_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "hanging.py").write_text(
        "import asyncio\nimport duetime\n\napp = duetime.App()\n\n\n"
        "@app.on_start\nasync def plan():\n    await asyncio.Event().wait()\n"
    )
    with Command(tmp_path, "up", "hanging:app") as up:
        up.until(lambda up: "registered" in up.stderr)
        assert up.stop() == 0
    assert up.stdout == "stopped; all jobs are stored\n"
