"""An app that runs inside the user's own process: on its event loop, or on a thread of its own."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import asyncpg
import msgspec
import pytest

from duetime import (
    App,
    Conflict,
    InvalidInput,
    Run,
    RunState,
    SchemaMismatch,
    Settings,
    StoreLocked,
    StoreUnavailable,
    current_context,
)
from duetime.embedded import supervisor
from duetime.model.access import Role
from duetime.node import assembly
from tests.support.databases import sqlite_file
from tests.support.served import Served
from tests.support.waiting import eventually
from tests.support.working import TIMEOUT, quick_settings


def handlers() -> list[object]:
    return [signal.getsignal(kind) for kind in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)]


@pytest.fixture
def embedded(database_url: str) -> App:
    """Not open yet, unlike the fixture `app`."""
    return _app(database_url)


@pytest.fixture
def on_file(tmp_path: Path) -> App:
    """The same, on a file only."""
    return _app(f"sqlite:///{sqlite_file(tmp_path / 'jobs.db')}")


def _app(database_url: str) -> App:
    app = App(settings=quick_settings(database_url))

    @app.task(name="where")
    async def where() -> str:
        return threading.current_thread().name

    @app.task(name="slow")
    def slow(seconds: float) -> str:
        time.sleep(seconds)
        return current_context().run_id

    return app


async def test_it_runs_on_the_callers_event_loop(embedded: App) -> None:
    before = handlers()
    ticks: list[str] = []

    @embedded.task(name="tick")
    async def tick() -> None:
        ticks.append(threading.current_thread().name)

    @embedded.on_start
    async def schedule() -> None:
        await tick.schedule(every="1s", key="tick")

    async with embedded.running():
        assert embedded.is_running
        assert handlers() == before
        assert await (await embedded.submit("where")).result(TIMEOUT) == threading.current_thread().name
        await eventually(lambda: len(ticks) > 0, what="the schedule fires")
        with pytest.raises(Conflict, match="already running in this process"):
            await asyncio.to_thread(embedded.start)
        with pytest.raises(Conflict, match=r"leave that block"):
            embedded.stop()
        with pytest.raises(Conflict, match="already running in this process"):
            async with embedded.running():
                pass
    assert not embedded.is_running
    embedded.stop()  # has no effect
    async with embedded.running():
        assert await (await embedded.submit("where")).result(TIMEOUT) == threading.current_thread().name
    await embedded.close()


def test_it_runs_on_a_thread_of_its_own(embedded: App) -> None:
    before = handlers()
    embedded.start()
    try:
        assert embedded.sync.submit("where").result(TIMEOUT) == "duetime"
        assert handlers() == before
        with pytest.raises(Conflict, match="already running in this process"):
            embedded.start()
        last = embedded.sync.submit("slow", {"seconds": 0.3})
        _wait_for(embedded, last.run_id, RunState.RUNNING)
    finally:
        embedded.stop()
    assert embedded.sync.run(last.run_id).state is RunState.SUCCEEDED, "what was running could finish"
    assert not embedded.is_running
    embedded.start()
    assert embedded.sync.submit("where").result(TIMEOUT) == "duetime"
    embedded.stop()
    embedded.sync.close()


def test_what_does_not_finish_in_time_is_handed_back(on_file: App) -> None:
    on_file.configure(msgspec.structs.replace(on_file.settings, grace=timedelta(milliseconds=50)))

    @on_file.task(name="endless")
    async def endless() -> None:
        await asyncio.sleep(60)

    on_file.start()
    receipt = on_file.sync.submit("endless")
    _wait_for(on_file, receipt.run_id, RunState.RUNNING)
    on_file.stop()
    run = on_file.sync.run(receipt.run_id)
    assert (run.state, run.attempt) == (RunState.PENDING, 0), "unspent"
    on_file.sync.close()


async def test_a_cancelled_caller_stops_it_too(on_file: App) -> None:
    inside = asyncio.Event()

    async def host() -> None:
        async with on_file.running():
            inside.set()
            await asyncio.sleep(60)

    hosting = asyncio.create_task(host())
    await asyncio.wait_for(inside.wait(), 20)
    hosting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hosting
    assert not on_file.is_running
    assert await (await on_file.store()).leases.workers() == []
    await on_file.close()


async def test_a_start_that_fails_raises_and_leaves_nothing_running(on_file: App, database: str) -> None:
    with pytest.raises(SchemaMismatch, match="duetime migrate"):
        App(settings=quick_settings(database)).start()
    with pytest.raises(StoreUnavailable):
        App(settings=quick_settings("postgresql://127.0.0.1:1/none")).start()

    @on_file.on_start
    async def hook() -> None:
        if not ready:
            raise ValueError("not yet")

    ready = False
    for _ in range(2):
        with pytest.raises(ValueError, match="not yet"):
            await asyncio.to_thread(on_file.start)
        with pytest.raises(ValueError, match="not yet"):
            async with on_file.running():
                raise AssertionError("the block must not begin")
    ready = True
    async with on_file.running():
        pass
    assert "duetime" not in {thread.name for thread in threading.enumerate()}


def test_a_node_that_fails_is_started_again(
    migrated: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "_FIRST_PAUSE", 0.2)
    app = App(settings=quick_settings(migrated))

    app.task(name="echo")(_echo)
    app.start()
    asyncio.run(_execute(migrated, "alter schema duetime rename to away"))
    deadline = time.monotonic() + 20
    while "starting it again" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "duetime has stopped working in this process" in caplog.text
    asyncio.run(_execute(migrated, "alter schema away rename to duetime"))
    assert app.sync.submit("echo", {"text": "again"}).result(TIMEOUT) == "again"
    app.stop()
    app.sync.close()


def test_several_processes_share_a_database(migrated: str) -> None:
    apps = [App(settings=quick_settings(migrated)) for _ in range(2)]
    for app in apps:
        app.task(name="slow")(_slow)
        app.start()
    receipts = apps[0].sync.submit_many([apps[0].tasks["slow"].bind()] * 20)
    runs: list[Run] = [apps[0].sync.wait(receipt, TIMEOUT) for receipt in receipts]
    assert {(run.state, run.attempt) for run in runs} == {(RunState.SUCCEEDED, 1)}
    for app in apps:
        app.stop()
        app.sync.close()


def test_an_embedded_file_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "_FILE_TIMEOUT", 0.1)
    first, second = (App(database_url=f"sqlite:///{tmp_path}/jobs.db") for _ in range(2))
    first.start()
    with pytest.raises(StoreLocked, match=r"another App of this process has opened the file .*jobs\.db"):
        second.start()
    first.stop()
    second.start()
    second.stop()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_it_works_for_a_server(app: App, served: Served) -> None:
    with pytest.raises(InvalidInput, match=r"^key: a remote worker needs a key"):
        App(settings=Settings(url=served.url)).start()
    remote = App(settings=Settings(url=served.url, key=await served.key(Role.WORKER)))

    for each in (app, remote):
        each.task(name="echo")(_echo)
    async with remote.running():
        assert await (await app.submit("echo", {"text": "x"})).result(TIMEOUT) == "x"


UNCONFIGURED = """
import asyncio
from duetime import App

app = App(database_url="sqlite:///jobs.db")

@app.task(name="in_a_process", process=True, retries=0)
def in_a_process() -> None:
    in_the_loop.submit()
    raise LookupError("broken there")

@app.task(name="in_the_loop", retries=0)
async def in_the_loop() -> None:
    raise ValueError("broken here")

async def main() -> None:
    async with app.running():
        in_the_loop.submit()
        await app.wait(await in_the_loop.submit(), "20s")
        await app.wait(await in_a_process.submit(), "20s")

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_host_that_configures_no_logging_sees_what_went_wrong(tmp_path: Path) -> None:
    ended = _program(tmp_path, UNCONFIGURED)
    assert ended.returncode == 0, ended.stderr
    assert "in_the_loop failed, not retried: ValueError: broken here" in ended.stderr
    assert "in_a_process failed, not retried: LookupError: broken there" in ended.stderr
    assert ended.stderr.count("`in_the_loop.submit` was never awaited") == 2, "once here, once in the child"


def test_what_people_look_for_first() -> None:
    app = App()
    with pytest.raises(InvalidInput, match=r"^run: app.run\(run\) reads a stored run.*app\.start\(\)"):
        app.run()  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match=r"'shutdown': use app\.stop\(\)"):
        app.shutdown()  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match=r"^App: takes no positional arguments \(App\(database_url=…\)"):
        App("postgresql://localhost/jobs")  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match=r"an app has no attribute 'foo'$"):
        app.foo  # type: ignore[attr-defined]  # noqa: B018


HOST = """
import os, signal, sys, time
from duetime import App, Conflict

app = App(database_url=sys.argv[1])

@app.task(name="slow")
def slow() -> str:
    time.sleep(0.5)
    return "finished"

app.start()
receipt = slow.sync.submit()
while app.sync.run(receipt.run_id).state.name == "PENDING":
    time.sleep(0.01)
if os.fork() == 0:
    signal.alarm(20)
    for call in (app.start, app.stop):
        try:
            call()
        except Conflict as error:
            print(error, flush=True)
    os._exit(0)
os.wait()
print(receipt.run_id, flush=True)
"""


def test_a_forked_child_does_not_run_it_and_the_end_of_the_program_stops_it(tmp_path: Path) -> None:
    """As with `gunicorn --preload`, if the app is started at import."""
    url = f"sqlite:///{tmp_path}/jobs.db"
    # From 3.12 on, Python warns of every fork of a process with threads.
    program = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", HOST, url]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    start, stop, run_id = ended.stdout.splitlines()
    assert "ran this app when it forked this process (start it after the fork only" in start
    assert "does not run in this process, but in its parent" in stop
    assert ended.stderr == ""
    app = App(database_url=url)
    run = app.sync.run(run_id)
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, 1), "it could finish, although stop() was never called"
    app.sync.close()


def _program(folder: Path, text: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run a script, which a child process can import."""
    (folder / "program.py").write_text(text)
    return subprocess.run(
        [sys.executable, "program.py"],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


UNSTOPPED = """
import time
from pathlib import Path
from duetime import App

app = App(database_url="sqlite:///jobs.db")

@app.task(name="slow", process=True, retries=0)
def slow(seconds: float) -> str:
    Path("begun").touch()
    time.sleep(seconds)
    return "finished"

if __name__ == "__main__":
    app.start()
    print(slow.sync.submit(seconds=SECONDS).run_id, flush=True)
    while not Path("begun").exists():
        time.sleep(0.01)
    END
"""


@pytest.mark.parametrize("end", ["pass", "raise KeyboardInterrupt"])
@pytest.mark.parametrize(("seconds", "left"), [("1", (RunState.SUCCEEDED, 1)), ("600", (RunState.PENDING, 0))])
def test_a_process_may_finish_when_the_program_ends_without_stop(
    tmp_path: Path, end: str, seconds: str, left: tuple[RunState, int]
) -> None:
    program = UNSTOPPED.replace("SECONDS", seconds).replace("END", end)
    ended = _program(tmp_path, program, DUETIME_GRACE="20s" if seconds == "1" else "100ms")
    assert ended.stderr.count("Traceback") == (end != "pass"), ended.stderr
    app = App(database_url=f"sqlite:///{tmp_path}/jobs.db")
    run = app.sync.run(ended.stdout.strip())
    app.sync.close()
    assert (run.state, run.attempt) == left


async def _echo(text: str) -> str:
    return text


def _slow() -> str:
    time.sleep(0.02)
    return str(os.getpid())


def _wait_for(app: App, run_id: str | None, state: RunState) -> None:
    assert run_id is not None
    deadline = time.monotonic() + 20
    while app.sync.run(run_id).state is not state:
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def _execute(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(statement)
    await connection.close()
