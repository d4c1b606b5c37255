"""The PostgreSQL that the other tests stand on: it starts, it comes back, and it leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.support import postgres as support
from tests.support.postgres import Server


@pytest.fixture
def name(each_postgres: Server) -> Iterator[str]:
    name = f"support_{uuid.uuid4().hex}"
    each_postgres.create_database(name)
    yield name
    each_postgres.drop_database(name)


async def test_a_created_database_accepts_connections(each_postgres: Server, name: str) -> None:
    connection = await asyncpg.connect(each_postgres.dsn(name))
    try:
        assert await connection.fetchval("select current_database()") == name
        assert (await connection.fetchval("show server_version")).startswith(each_postgres.version)
        assert await connection.fetchval("show server_encoding") == "UTF8"
    finally:
        await connection.close()


async def test_committed_data_survive_an_immediate_stop(each_postgres: Server, name: str) -> None:
    connection = await asyncpg.connect(each_postgres.dsn(name))
    await connection.execute("create table kept (value int)")
    await connection.execute("insert into kept values (42)")

    each_postgres.stop_immediately()
    try:
        with pytest.raises((ConnectionError, asyncpg.PostgresError)):
            await connection.fetchval("select value from kept")
        with pytest.raises(OSError):
            await asyncpg.connect(each_postgres.dsn(name))
    finally:
        each_postgres.start()

    again = await asyncpg.connect(each_postgres.dsn(name))
    try:
        assert await again.fetchval("select value from kept") == 42
    finally:
        await again.close()


async def test_a_database_can_be_copied_from_a_template(each_postgres: Server, name: str) -> None:
    connection = await asyncpg.connect(each_postgres.dsn(name))
    await connection.execute("create table copied ()")
    await connection.close()

    copy = await asyncpg.connect(each_postgres.create_database(f"{name}_copy", template=name))
    try:
        assert await copy.fetchval("select to_regclass('copied') is not null")
    finally:
        each_postgres.drop_database(f"{name}_copy")  # cuts the session too
        copy.terminate()


async def test_each_server_is_another_installation(postgres_servers: list[Server], postgres: Server) -> None:
    assert postgres in postgres_servers
    assert len({server.origin for server in postgres_servers}) == len(postgres_servers)


async def test_the_database_of_a_test_is_empty(database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        assert await connection.fetchval("select count(*) from pg_tables where schemaname = 'public'") == 0
    finally:
        await connection.close()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_server_ends_with_its_process_and_leaves_no_files(end: signal.Signals) -> None:
    script = """if True:
        import signal
        import time
        from tests.support.postgres import Server, installed
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
        server = Server(installed()[-1])
        server.start()
        print(server.folder, server._process.pid, flush=True)
        time.sleep(60)
    """
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as owner:
        assert owner.stdout
        folder, pid = owner.stdout.readline().split()
        assert Path(folder).exists()
        owner.send_signal(end)
        owner.wait(30)

    _wait_for(lambda: not Path(folder).exists())
    _wait_for(lambda: not _runs(int(pid)))


def test_programs_that_are_closed_to_their_user_run_from_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "_may_run", lambda self, program: False)
    packaged = support.installed()[-1]
    with Server(packaged) as server:
        is_root = os.geteuid() == 0
        assert server._bin.is_relative_to(server.folder if is_root else packaged.folder)
    assert not server.folder.exists()


def test_no_installation_is_an_error_that_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(support.BIN_VARIABLE, raising=False)
    monkeypatch.setattr(support, "DEBIAN", tmp_path)
    monkeypatch.setattr(support, "_packaged", lambda: None)
    with pytest.raises(RuntimeError, match="set DUETIME_TEST_PG_BIN"):
        support.installed()


def test_a_named_folder_without_programs_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(support.BIN_VARIABLE, str(tmp_path))
    with pytest.raises(RuntimeError, match="has no initdb"):
        support.installed()


def test_a_failed_start_shows_the_log_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(support._OPTIONS, "shared_buffers", "plenty")
    with (
        pytest.raises(RuntimeError, match='invalid value for parameter "shared_buffers"'),
        Server(support.installed()[0]),
    ):
        pass


def _runs(pid: int) -> bool:
    """Whether a process runs; one that is dead but not yet collected by its parent does not."""
    status = Path(f"/proc/{pid}/stat")
    if status.exists():
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not Path("/proc").exists()


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited for 20 s"
        time.sleep(0.05)
