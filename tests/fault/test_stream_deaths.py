"""Workers of a stream queue that die: their messages come back, land, and end once."""

import asyncio
import signal
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest

from duetime.crypto.sealer import Sealer
from duetime.ids import show
from duetime.model.access import Role
from duetime.model.carried import CarriedRun, StreamSettings
from duetime.model.job import DEFAULT_TENANT
from duetime.model.run import RunState
from duetime.settings import Settings
from duetime.store.wrappers.sealed import sealed
from tests.support.brokers import running
from tests.support.fleet import Fleet
from tests.support.postgres import free_port
from tests.support.redis_server import RedisServer
from tests.support.streaming import QUEUE, Streamed, streamed
from tests.support.waiting import eventually
from tests.support.working import ENCRYPTION

SHORT = {"lease": "1500ms", "heartbeat": "300ms"}


@pytest.fixture
async def mail(fleet: Fleet) -> AsyncIterator[Streamed]:
    store = sealed(fleet.store, Sealer(Settings(encryption_keys=(ENCRYPTION,)).sealing_keys))
    async with streamed(store, f"{running(RedisServer).address}?prefix=t{uuid4().hex[:12]}") as mail:
        yield mail


async def all_ended(fleet: Fleet, runs: list[CarriedRun], state: RunState = RunState.SUCCEEDED) -> None:
    ids = [run.run_id for run in runs]
    query = "select count(*) from duetime.history where run_id = any($1::uuid[]) and end_state = $2"

    async def ended() -> bool:
        return bool(await fleet.value(query, ids, state) == len(ids))

    await eventually(ended, within=90, what=lambda: f"{len(ids)} runs {state.name}; {fleet.tails()}")


async def effects_of(fleet: Fleet, run_id: UUID, what: str) -> int:
    query = "select count(*) from effects where run_id = $1 and what = $2"
    return int(await fleet.value(query, show("run", run_id), what))


async def test_a_worker_is_killed_in_the_middle(fleet: Fleet, mail: Streamed) -> None:
    first = fleet.worker(**SHORT)
    held = await mail.carry("hold", *({"seconds": 0.9} for _ in range(20)))

    async def begun() -> bool:
        return await fleet.effects("begin") == len(held)

    await eventually(begun, what=fleet.tails)
    first.kill()
    assert await fleet.effects("end") < len(held)
    fleet.worker(**SHORT)
    await all_ended(fleet, held)
    await eventually(mail.is_empty)
    rows = await fleet.fetch("select run_id, count(*) from duetime.history where end_state is not null group by run_id")
    assert {row[1] for row in rows} == {1}
    # What had not ended was lost with its worker once: it landed as a suspect, and was claimed from there.
    lost = await fleet.value("select count(*) from duetime.history where end_state is not null and lost = 1")
    assert lost > 0


async def test_a_run_that_kills_its_workers_ends_as_a_dead_letter(fleet: Fleet, mail: Streamed) -> None:
    fleet.server(**SHORT)
    (poison,) = await mail.carry("poison", {})
    others = await mail.carry("nothing", *({} for _ in range(50)))
    worker = fleet.worker(**SHORT)

    async def dead() -> bool:
        nonlocal worker
        if not worker.running:
            worker = fleet.worker(**SHORT)
        query = "select 1 from duetime.history where run_id = $1 and end_state = $2"
        return bool(await fleet.fetch(query, poison.run_id, RunState.FAILED))

    await eventually(dead, within=100, what=fleet.tails)
    await all_ended(fleet, others)
    await eventually(mail.is_empty)
    assert await effects_of(fleet, poison.run_id, "begin") == 4
    found = await fleet.store.reads.run(DEFAULT_TENANT, poison.run_id)
    assert (found.state, found.lost) == (RunState.FAILED, 4)


async def test_workers_are_killed_and_stopped_under_load(fleet: Fleet, mail: Streamed) -> None:
    """With messages that come twice, stored runs of the same queue, and a change of the stream in the middle."""
    fleet.server(**SHORT)
    workers = [fleet.worker(slots=20, **SHORT) for _ in range(2)]
    carried: list[CarriedRun] = []
    stored = 0
    for number in range(12):
        fresh = await mail.carry("append", *({"number": number} for _ in range(40)))
        fresh += await mail.carry("hold", *({"seconds": 0.3} for _ in range(5)))
        await mail.publish(fresh[::4])
        carried += fresh
        stored += len(await fleet.submit("append", [{"number": number}] * 5, queue=QUEUE))
        await asyncio.sleep(0.4)
        if number % 3 == 1:
            worker = workers.pop(0)
            worker.kill() if number % 2 else worker.send(signal.SIGTERM)
            workers.append(fleet.worker(slots=20, **SHORT))
        if number == 6:
            address = mail.queue.settings.address + "b"  # another prefix
            queue = await mail.store.streams.set_stream(DEFAULT_TENANT, QUEUE, StreamSettings(address))
            assert queue is not None
            mail.queue = queue
    await all_ended(fleet, carried)
    await fleet.ended(len(carried) + stored, within=90)
    await eventually(mail.is_empty)
    ends = await fleet.fetch("select run_id from duetime.history where end_state is not null")
    assert len(ends) == len({row[0] for row in ends}) == len(carried) + stored


async def test_servers_and_remote_workers_are_killed_under_load(fleet: Fleet, mail: Streamed) -> None:
    """The server consumes for remote workers. What it held comes back as a suspect, what it had assigned goes on."""
    port, key, count = free_port(), await fleet.key(Role.WORKER), 300
    url = f"http://127.0.0.1:{port}"
    server = fleet.server(port=port, **SHORT)
    workers = [fleet.remote_worker(url, key, slots=10, **SHORT) for _ in range(2)]
    await eventually(lambda: all("working for" in worker.output() for worker in workers), what=fleet.tails)
    runs = await mail.carry("append", *({"number": number} for number in range(count)))

    async def appended(least: int) -> None:
        async def enough() -> bool:
            return await fleet.effects("append") >= least

        await eventually(enough, what=fleet.tails)

    await appended(count // 6)
    server.kill()
    server = fleet.server(port=port, **SHORT)
    await appended(count // 3)
    workers[0].kill()
    fleet.remote_worker(url, key, slots=10, **SHORT)
    await all_ended(fleet, runs)
    await eventually(mail.is_empty)
    rows = await fleet.fetch("select run_id, count(*) from duetime.history where end_state is not null group by run_id")
    assert {row[1] for row in rows} == {1}
    assert {row[0] for row in rows} >= {run.run_id for run in runs}
