"""A database that goes away while everything is running: retries with backoff, resumes by itself, loses nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import INSTALLED
from tests.support.command import tracebacks
from tests.support.fleet import fleet_on
from tests.support.postgres import Server
from tests.support.waiting import eventually


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that this test may stop."""
    with Server(INSTALLED[0]) as server:
        yield server


async def test_the_database_is_stopped_and_comes_back(own_server: Server, tmp_path: Path) -> None:
    dsn = own_server.create_database("outage")
    async with fleet_on(dsn, tmp_path) as fleet:
        server = fleet.server()
        worker = fleet.worker(slots=20)
        await fleet.submit("hold", [{"seconds": 0.2}] * 300)
        await eventually(lambda: fleet.effects("begin"), what=fleet.tails)
        own_server.stop_immediately()
        words = "retrying until it is available"
        for process in (server, worker):
            await eventually(lambda process=process: words in process.output(), what=fleet.tails)
        own_server.start()
        await fleet.store.close()
        await fleet.store.open()
        await fleet.submit("hold", [{"seconds": 0.2}] * 50)
        await fleet.ended(350)
        assert server.running
        assert worker.running
        rows = await fleet.fetch("select end_state, count(distinct run_id) from duetime.history group by 1")
        assert {row[0]: row[1] for row in rows if row[0] is not None} == {4: 350}
        assert (await fleet.store.reads.counts()).runs == 0
        assert tracebacks(server.output() + worker.output()) == []
