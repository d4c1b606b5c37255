"""Several processes and one embedded file, in any order of starts: none keeps what it does not use, nothing is lost."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

import pytest

from duetime import App, StoreLocked
from duetime.sdk.embedded_file import IDLE
from duetime.store.sqlite.ownership import Ownership, is_wanted, owner_of
from tests.support.command import ROOT, Command
from tests.support.waiting import eventually

MODES = ("async", "sync", "runs")


class Web:
    """A process that only submits."""

    def __init__(self, data: Path, mode: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.web_shop", str(data), mode],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"

    def ask(self, order: str) -> int:
        """How many it has submitted by then."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()
        answer = self._line()
        assert answer.isdigit(), answer
        return int(answer)

    def end(self) -> tuple[int, str]:
        """Let the program come to its end: its exit code, and what it has complained about."""
        _, complaints = self._process.communicate(timeout=30)
        return self._process.returncode, complaints

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def webs(data: Path) -> Iterator[list[Web]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Web(data, mode)) for mode in MODES]


def up(tmp_path: Path, data: Path) -> Command:
    arguments = ("up", "tests.support.web_tasks:app", "--data-dir", str(data), "--port", "0", "--json")
    return Command(tmp_path, *arguments, environ={"SHOP_DATA": str(data)})


def is_up(command: Command) -> bool:
    return '"event":"up"' in command.stdout


NOTES = "(select l.id from lanes l where l.task = 'note')"


def stored(data: Path) -> int:
    """How many runs there are, ended or not."""
    waiting = f"select count(*) from runs where home_lane in {NOTES}"
    return _count(data, waiting) + _count(data, f"select count(*) from history where lane_id in {NOTES}")


def ended(data: Path) -> int:
    return _count(data, f"select count(*) from history where lane_id in {NOTES} and end_state = 4")


def _count(data: Path, query: str) -> int:
    with closing(sqlite3.connect(data / "duetime.db")) as file:
        return int(file.execute(query).fetchone()[0])


@pytest.mark.parametrize("mode", MODES)
async def test_one_that_submitted_first_lets_up_start(tmp_path: Path, data: Path, mode: str) -> None:
    with Web(data, mode) as web:
        assert web.ask("submit 3") == 3
        await eventually(lambda: owner_of(data / "duetime.db") is None, within=IDLE + 10)
        with up(tmp_path, data) as server:
            server.until(is_up)
            assert web.ask("submit 3") == 6, "through the server now"
            await eventually(lambda: ended(data) == 6)
            assert server.stop() == 0
        assert web.ask("submit 2") == 8, "and in the file again"
        with up(tmp_path, data) as server:
            server.until(is_up)
            await eventually(lambda: ended(data) == 8)


@pytest.mark.parametrize("mode", ("sync", "runs"))
async def test_a_program_that_never_closes_its_app_ends_in_silence(tmp_path: Path, data: Path, mode: str) -> None:
    with Web(data, mode) as in_file:
        assert in_file.ask("submit 1") == 1
        assert in_file.end() == (0, "")
    with up(tmp_path, data) as server, Web(data, mode) as through_server:
        server.until(is_up)
        assert through_server.ask("submit 2") == 2
        assert through_server.end() == (0, "")


async def test_up_starts_while_others_submit_without_a_pause(tmp_path: Path, data: Path, webs: list[Web]) -> None:
    for web in webs:
        web.ask("flood")
    with up(tmp_path, data) as server:
        server.until(is_up)
        counts = [web.ask("stop") for web in webs]
        assert all(counts), "each had its turn"
        await eventually(lambda: ended(data) == sum(counts), within=60)
        assert stored(data) == sum(counts), "nothing is lost, nothing is stored twice"
        assert server.stop() == 0


async def test_those_that_only_submit_take_turns(data: Path, webs: list[Web]) -> None:
    counts = await asyncio.gather(*(asyncio.to_thread(web.ask, "submit 30") for web in webs))
    assert counts == [30, 30, 30]
    assert stored(data) == 90


async def test_what_a_killed_server_left_behind_misleads_no_app(tmp_path: Path, data: Path) -> None:
    with Web(data, "sync") as web, up(tmp_path, data) as server:
        server.until(is_up)
        assert web.ask("submit 1") == 1
        server.stop(signal.SIGKILL)
        assert (data / "server-url").exists()
        assert web.ask("submit 2") == 3, "in the file"
        with up(tmp_path, data) as another:
            another.until(is_up)
            assert web.ask("submit 1") == 4, "through the new one"
            await eventually(lambda: ended(data) == 4)


async def test_a_second_up_does_not_wait(tmp_path: Path, data: Path) -> None:
    with up(tmp_path, data) as server:
        server.until(is_up)
        with up(tmp_path, data) as second:
            assert second.ended(within=10) == 5
        assert (data / "server-url").exists(), "the first one's address stays"


# In one process.


async def test_the_file_is_let_go_after_the_last_call_and_kept_by_who_asks_for_the_store(tmp_path: Path) -> None:
    file = tmp_path / "duetime.db"
    app = App(database_url=f"sqlite:///{file}")

    @app.task(name="note")
    async def note() -> None: ...

    await note.submit()
    assert owner_of(file) is not None
    await eventually(lambda: owner_of(file) is None)
    await note.submit()
    store = await app.store()
    await asyncio.sleep(2 * IDLE)
    assert owner_of(file) is not None
    assert (await store.reads.counts()).runs == 2
    await app.close()
    assert owner_of(file) is None


async def test_who_waits_in_vain_is_told_who_has_it(tmp_path: Path) -> None:
    file = tmp_path / "duetime.db"
    first = Ownership(file)
    first.take()
    try:
        with pytest.raises(StoreLocked, match="another App of this process"):
            Ownership(file, lock_timeout=0.1).take()
    finally:
        first.release()
    assert not is_wanted(file), "none waits any more"


async def test_what_is_submitted_while_up_stops_waits_for_the_file(tmp_path: Path, data: Path) -> None:
    with Web(data, "async") as web:
        for number in range(2):
            with up(tmp_path, data) as server:
                server.until(is_up)
                os.kill(server.pid, signal.SIGINT)
                await eventually(lambda: not (data / "server-url").exists())
                assert web.ask("submit 2") == 2 * number + 2
                assert server.ended() == 0
        assert stored(data) == 4
