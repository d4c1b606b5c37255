"""Workers on stream queues, with a real Redis: what runs, what lands, what is acknowledged when."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from duetime import App, BaseContext, Context
from duetime.engine.intake import prepare
from duetime.engine.relay import Relay
from duetime.engine.stream_lander import StreamLander, WaitingWorkers
from duetime.errors import LeaseLost, NotFound, StoreUnavailable
from duetime.ids import new_id, show
from duetime.model.access import Role
from duetime.model.attempt import AttemptState
from duetime.model.carried import CarriedEnd, CarriedRun, StreamSettings, UnderClaim
from duetime.model.job import DEFAULT_TENANT, Options
from duetime.model.lane import LaneKey, Tier
from duetime.model.retry import RetryPolicy
from duetime.model.run import RunState
from duetime.model.schedule import Once
from duetime.model.worker import WorkerInfo
from duetime.store.protocol.ready import Announcement
from duetime.store.protocol.store import Store
from duetime.streams import fetch_plan
from duetime.streams.brokers import Brokers
from duetime.streams.names import streams_of
from duetime.telemetry.meters import Meters
from duetime.worker import executor, prefetch
from duetime.worker.session import Session
from tests.support.brokers import running
from tests.support.redis_server import RedisServer
from tests.support.served import Served
from tests.support.streaming import QUEUE, Streamed, streamed
from tests.support.waiting import eventually
from tests.support.working import remote_worker, working

SHORT = {"lease": timedelta(seconds=1.5), "heartbeat": timedelta(seconds=0.3)}
"""A lease that a test can wait for."""


@pytest.fixture
def redis() -> RedisServer:
    server = running(RedisServer)
    assert isinstance(server, RedisServer)
    return server


@pytest.fixture
async def mail(app: App, redis: RedisServer) -> AsyncIterator[Streamed]:
    async with streamed(await app.store(), f"{redis.address}?prefix=t{uuid4().hex[:12]}") as mail:
        yield mail


async def state_of(store: Store, run: CarriedRun) -> RunState | None:
    """None: it has no row."""
    try:
        return (await store.reads.run(DEFAULT_TENANT, run.run_id)).state
    except NotFound:
        return None


async def all_are(store: Store, runs: Sequence[CarriedRun], state: RunState) -> None:
    async def are_they() -> bool:
        return all([await state_of(store, run) is state for run in runs])

    await eventually(are_they, what=f"{len(runs)} runs {state.name}")


async def attempts_of(store: Store, run: CarriedRun) -> list[AttemptState]:
    found = await store.reads.run(DEFAULT_TENANT, run.run_id)
    return [attempt.state for attempt in sorted(found.attempts, key=lambda each: each.fence)]


async def test_a_plain_run_goes_from_its_stream_to_history(app: App, mail: Streamed) -> None:
    @app.task(name="add")
    async def add(ctx: Context, a: int, b: int) -> int:
        ctx.logger.info("adding")
        return a + b

    runs = await mail.carry("add", *({"a": number, "b": 1} for number in range(20)))
    landed: list[UUID] = []
    land = mail.store.streams.land

    async def counted(runs: Sequence[CarriedRun], *how: Any) -> frozenset[UUID]:
        landed.extend(run.run_id for run in runs)
        return await land(runs, *how)

    mail.store.streams.land = counted  # type: ignore[method-assign]
    async with working(app):
        await all_are(mail.store, runs, RunState.SUCCEEDED)
        await eventually(mail.is_empty)
    assert landed == []
    found = await mail.store.reads.run(DEFAULT_TENANT, runs[3].run_id)
    assert (found.result, found.attempt, found.fence, found.lost) == (b"4", 1, 1, 0)
    assert "adding" in found.attempts[0].log_lines[0]
    assert (await mail.store.reads.counts()).history == len(runs)


async def test_hooks_and_middleware_do_not_know_where_a_run_comes_from(app: App, mail: Streamed) -> None:
    around: list[str] = []
    after: list[tuple[str, str]] = []
    app.on_success(lambda attempt: after.append(("succeeded", attempt.run_id)))
    app.on_retry(lambda attempt: after.append(("retried", attempt.run_id)))
    app.on_failure(lambda attempt: after.append(("failed", attempt.run_id)))

    @app.middleware
    def note(ctx: BaseContext) -> Iterator[None]:
        around.append(ctx.run_id)
        yield

    @app.task(name="half")
    async def half(number: int) -> None:
        if number % 2:
            raise LookupError("an odd number")

    options = Options(retry=RetryPolicy(retries=1, base=0.001))
    even, odd = await mail.carry("half", {"number": 0}, {"number": 1}, options=options)
    async with working(app):
        await all_are(mail.store, [even], RunState.SUCCEEDED)
        await all_are(mail.store, [odd], RunState.FAILED)
    good, bad = show("run", even.run_id), show("run", odd.run_id)
    assert sorted(after) == sorted([("succeeded", good), ("retried", bad), ("failed", bad)])
    assert sorted(around) == sorted([good, bad, bad])


async def test_a_run_that_fails_is_retried_and_becomes_a_dead_letter(app: App, mail: Streamed) -> None:
    tried: list[int] = []

    @app.task(name="fail")
    async def fail(ctx: Context) -> None:
        tried.append(ctx.attempt)
        raise ValueError("no")

    options = Options(retry=RetryPolicy(retries=2, base=0.01))
    (run,) = await mail.carry("fail", {}, options=options)
    async with working(app):
        await all_are(mail.store, [run], RunState.FAILED)
        await eventually(mail.is_empty)
    assert tried == [1, 2, 3]
    assert await attempts_of(mail.store, run) == [AttemptState.FAILED] * 3
    assert (await mail.store.reads.counts()).dead_letters == 1


async def test_a_message_that_is_published_twice_completes_once(app: App, mail: Streamed) -> None:
    ran: Counter[int] = Counter()

    @app.task(name="count")
    async def count(number: int) -> None:
        ran[number] += 1
        await asyncio.sleep(0.01)

    runs = await mail.carry("count", *({"number": number} for number in range(30)))
    await mail.publish(runs)
    async with working(app):
        await all_are(mail.store, runs, RunState.SUCCEEDED)
        await eventually(mail.is_empty)
        await mail.publish(runs)
        await eventually(mail.is_empty)
    assert (await mail.store.reads.counts()).history == len(runs)
    assert all(ran[number] >= 1 for number in range(30))


async def test_a_second_message_of_a_run_in_progress_waits_for_it(app: App, mail: Streamed) -> None:
    ran: list[int] = []
    may_end = asyncio.Event()

    @app.task(name="wait")
    async def wait(ctx: Context) -> None:
        ran.append(ctx.attempt)
        await may_end.wait()

    (run,) = await mail.carry("wait", {})
    await mail.publish([run])
    (last,) = await mail.carry("wait", {})
    async with working(app):
        await eventually(lambda: len(ran) >= 2)
        await asyncio.sleep(0.1)
        assert await mail.depth() == 3
        may_end.set()
        await all_are(mail.store, [run, last], RunState.SUCCEEDED)
        await eventually(mail.is_empty)
    assert ran == [1, 1]
    assert await attempts_of(mail.store, run) == [AttemptState.SUCCEEDED]


async def test_a_redelivered_message_lands_and_is_not_executed(app: App, mail: Streamed) -> None:
    fences: list[int] = []

    @app.task(name="note")
    async def note(ctx: Context) -> None:
        fences.append(ctx.lost)

    (run,) = await mail.carry("note", {})
    dead = await mail.broker.consumer([mail.stream().text], "dead", 1.5)
    assert len(await dead.fetch([(mail.stream().text, 10)], 5.0)) == 1
    async with working(app, **SHORT):
        await all_are(mail.store, [run], RunState.SUCCEEDED)
        await eventually(mail.is_empty)
    # Executed once, by the claim of a run that has lost a worker: never from the message.
    assert fences == [1]
    assert await attempts_of(mail.store, run) == [AttemptState.LOST, AttemptState.SUCCEEDED]


async def test_a_message_is_acknowledged_after_the_commit(app: App, mail: Streamed) -> None:
    @app.task(name="work")
    async def work() -> None:
        pass

    end = mail.store.streams.end_carried
    depths: list[int] = []

    async def unavailable_at_first(*ended: Any) -> frozenset[UUID]:
        depths.append(await mail.depth())
        if len(depths) < 4:
            raise StoreUnavailable("not now")
        return await end(*ended)

    mail.store.streams.end_carried = unavailable_at_first  # type: ignore[method-assign]
    runs = await mail.carry("work", {})
    async with working(app):
        await all_are(mail.store, runs, RunState.SUCCEEDED)
        await eventually(mail.is_empty)
    assert depths[:4] == [1, 1, 1, 1]


async def test_a_worker_that_died_between_commit_and_acknowledgement(app: App, mail: Streamed) -> None:
    ran: list[int] = []

    @app.task(name="work")
    async def work() -> None:
        ran.append(1)

    (run,) = await mail.carry("work", {})
    dead = await mail.broker.consumer([mail.stream().text], "dead", 1.5)
    assert len(await dead.fetch([(mail.stream().text, 10)], 5.0)) == 1
    assert not await mail.store.streams.end_carried(new_id(), [CarriedEnd(run, run.due)])
    async with working(app, **SHORT):
        await eventually(mail.is_empty)
    assert ran == []
    assert await attempts_of(mail.store, run) == [AttemptState.SUCCEEDED]


async def test_a_long_run_lands_and_goes_on(app: App, mail: Streamed) -> None:
    may_end = asyncio.Event()
    started: list[int] = []

    @app.task(name="long")
    async def long(ctx: Context) -> str:
        started.append(ctx.attempt)
        await may_end.wait()
        return "done"

    (run,) = await mail.carry("long", {})
    async with working(app, lease=timedelta(seconds=3), heartbeat=timedelta(seconds=0.5)):
        await all_are(mail.store, [run], RunState.RUNNING)
        await eventually(mail.is_empty)
        await asyncio.sleep(3.5)  # longer than a lease: nothing may take it away
        may_end.set()
        await all_are(mail.store, [run], RunState.SUCCEEDED)
    assert started == [1]
    found = await mail.store.reads.run(DEFAULT_TENANT, run.run_id)
    assert (found.result, found.attempt, found.fence) == (b'"done"', 1, 1)


async def test_a_message_of_a_run_that_has_landed_is_acknowledged(app: App, mail: Streamed) -> None:
    may_end = asyncio.Event()

    @app.task(name="long")
    async def long() -> None:
        await may_end.wait()

    (run,) = await mail.carry("long", {})
    async with working(app, lease=timedelta(seconds=3), heartbeat=timedelta(seconds=0.5)):
        await all_are(mail.store, [run], RunState.RUNNING)
        await eventually(mail.is_empty)
        await mail.publish([run])
        await eventually(mail.is_empty)  # while the run goes on
        assert await state_of(mail.store, run) is RunState.RUNNING
        may_end.set()
        await all_are(mail.store, [run], RunState.SUCCEEDED)
    assert await attempts_of(mail.store, run) == [AttemptState.SUCCEEDED]


async def test_a_run_lands_while_it_blocks_the_event_loop(postgres_app: App, redis: RedisServer) -> None:
    started: list[int] = []

    async def has_a_row() -> bool:
        connection = await asyncpg.connect(postgres_app.settings.database_url)
        try:
            return bool(await connection.fetchval("select count(*) from duetime.runs"))
        finally:
            await connection.close()

    @postgres_app.task(name="block")
    async def block(ctx: Context) -> bool:
        started.append(ctx.lost)
        time.sleep(2)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, has_a_row()).result()

    async with streamed(await postgres_app.store(), redis.address) as mail:
        (run,) = await mail.carry("block", {})
        async with working(postgres_app, **SHORT):
            await all_are(mail.store, [run], RunState.SUCCEEDED)
            await eventually(mail.is_empty)
        found = await mail.store.reads.run(DEFAULT_TENANT, run.run_id)
        assert (found.result, found.lost) == (b"true", 0)
    assert started == [0]


async def test_a_checkpoint_and_progress_land_the_run(app: App, mail: Streamed) -> None:
    @app.task(name="save")
    async def save(ctx: Context) -> None:
        if ctx.last_checkpoint is None:
            ctx.progress(0.5, "half")
            await ctx.checkpoint({"at": 5})
            assert (await ctx.parents()) == []
            raise RuntimeError("again")
        assert ctx.last_checkpoint == {"at": 5}

    (run,) = await mail.carry("save", {}, options=Options(retry=RetryPolicy(retries=1, base=0.01)))
    async with working(app):
        await all_are(mail.store, [run], RunState.SUCCEEDED)
        await eventually(mail.is_empty)
    assert await attempts_of(mail.store, run) == [AttemptState.FAILED, AttemptState.SUCCEEDED]


async def test_a_late_report_does_not_land_a_run_that_is_ending(app: App, mail: Streamed) -> None:
    contexts: list[Context] = []

    @app.task(name="save")
    async def save(ctx: Context) -> None:
        contexts.append(ctx)

    end = mail.store.streams.end_carried

    async def after_a_report(*of: Any) -> frozenset[UUID]:
        with pytest.raises(LeaseLost):
            await contexts[0].checkpoint({"at": 5})
        return await end(*of)

    mail.store.streams.end_carried = after_a_report  # type: ignore[method-assign]
    (run,) = await mail.carry("save", {})
    async with working(app):
        await all_are(mail.store, [run], RunState.SUCCEEDED)
        await eventually(mail.is_empty)
    assert await attempts_of(mail.store, run) == [AttemptState.SUCCEEDED]


async def test_a_worker_that_stops_hands_back_what_it_began(app: App, mail: Streamed) -> None:
    begun = asyncio.Event()

    @app.task(name="hang")
    async def hang(ctx: Context) -> None:
        begun.set()
        await asyncio.sleep(60)

    runs = await mail.carry("hang", {})
    async with working(app, grace=timedelta(0)):
        await begun.wait()
    assert await mail.is_empty()
    found = await mail.store.reads.run(DEFAULT_TENANT, runs[0].run_id)
    assert (found.state, found.attempt, found.lost, found.attempts) == (RunState.PENDING, 0, 0, ())


async def test_what_waits_behind_a_longer_run_lands_and_leaves_no_claim_open(
    app: App, mail: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions: list[Session] = []
    begin = Session.__init__

    def noted(self: Session) -> None:
        sessions.append(self)
        begin(self)

    monkeypatch.setattr(Session, "__init__", noted)
    monkeypatch.setattr(executor, "LONGEST_WAIT", 0.1)
    monkeypatch.setattr(prefetch, "_MOMENT", 60.0)  # functions count as short, however slow the machine is
    goes_on = asyncio.Event()
    goes_on.set()

    @app.task(name="wait")
    async def wait() -> None:
        await goes_on.wait()

    async with working(app, slots=1):
        await all_are(mail.store, await mail.carry("wait", *([{}] * 40)), RunState.SUCCEEDED)
        goes_on.clear()
        runs = await mail.carry("wait", {}, {}, {})

        async def states() -> bool:
            return [await state_of(mail.store, run) for run in runs].count(RunState.PENDING) >= 1

        await eventually(states)
        goes_on.set()
        await all_are(mail.store, runs, RunState.SUCCEEDED)
        await eventually(lambda: [session.open_claims() for session in sessions] == [[]])
    assert [len(await attempts_of(mail.store, run)) for run in runs] == [1] * 3


async def test_a_run_of_an_unknown_task_lands_and_waits(app: App, mail: Streamed) -> None:
    @app.task(name="known")
    async def known() -> None:
        pass

    (run,) = await mail.carry("unknown", {})
    async with working(app):
        await all_are(mail.store, [run], RunState.PENDING)
        await eventually(mail.is_empty)


async def test_a_stream_is_left_to_the_workers_that_have_its_tasks(
    app: App, mail: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers, which run targets only, would otherwise land most of the runs of every queue."""
    monkeypatch.setattr(fetch_plan, "_FIRST_LEFT", 3600.0)
    monkeypatch.setattr(fetch_plan, "_LONGEST_LEFT", 3600.0)

    land, landed = mail.store.streams.land, Counter[UUID]()

    async def counted(runs: Sequence[CarriedRun], *how: Any) -> frozenset[UUID]:
        landed.update(run.run_id for run in runs)
        return await land(runs, *how)

    mail.store.streams.land = counted  # type: ignore[method-assign]

    @app.task(name="known", queue=QUEUE)
    async def known() -> None: ...

    async with working(app):
        (first,) = await mail.carry("elsewhere", {})
        await eventually(mail.is_empty)
        assert await state_of(mail.store, first) is RunState.PENDING

        @app.task(name="elsewhere", queue=QUEUE)
        async def elsewhere() -> None: ...

        runs = await mail.carry("elsewhere", *({} for _ in range(20)))
        async with working(app):
            await eventually(mail.is_empty)
            for run in (first, *runs):
                await app.wait(show("job", run.job_id), "20s")
    assert set(landed) == {first.run_id}


async def test_a_worker_without_the_tasks_of_a_stream_takes_few_of_its_messages(
    app: App, mail: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backlog is left to its workers, but does not hold up the runs behind it for ever."""
    land, landed = mail.store.streams.land, list[int]()

    async def counted(runs: Sequence[CarriedRun], *how: Any) -> frozenset[UUID]:
        landed.append(len(runs))
        return await land(runs, *how)

    mail.store.streams.land = counted  # type: ignore[method-assign]
    monkeypatch.setattr(fetch_plan, "_FIRST_LEFT", 0.02)
    monkeypatch.setattr(fetch_plan, "_LONGEST_LEFT", 0.02)
    runs = await mail.carry("elsewhere", *({} for _ in range(100)))

    @app.task(name="known", queue=QUEUE)
    async def known() -> None: ...

    async with working(app):
        await eventually(mail.is_empty)
        await all_are(mail.store, runs, RunState.PENDING)
        assert landed == [10, 20, 40, 30]
        (run,) = await mail.carry("known", {})
        await app.wait(show("job", run.job_id), "20s")


async def test_announcements_are_left_to_the_workers_that_have_the_tasks(
    app: App, mail: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers would otherwise take many, and the runs would wait until a worker looks at its lanes."""
    monkeypatch.setattr(fetch_plan, "_FIRST_LEFT", 3600.0)
    monkeypatch.setattr(fetch_plan, "_LONGEST_LEFT", 3600.0)

    @app.task(name="known", queue=QUEUE)
    async def known() -> None: ...

    async with working(app):
        await mail.publish([Announcement(new_id(), 10**6)])
        await eventually(mail.is_empty)
        await mail.publish([Announcement(new_id(), 10**6)])
        for _ in range(2):  # while the worker goes on with other streams
            (run,) = await mail.carry("known", {}, tier=Tier.HIGH)
            await app.wait(show("job", run.job_id), "20s")
        medium = mail.stream(Tier.MEDIUM).text
        assert (await mail.broker.depths([medium]))[medium].messages == 1


async def test_a_paused_queue_is_not_fetched_from(app: App, mail: Streamed) -> None:
    ran = asyncio.Event()

    @app.task(name="work")
    async def work() -> None:
        ran.set()

    await mail.store.queues.pause_queue(DEFAULT_TENANT, QUEUE)
    runs = await mail.carry("work", {})
    async with working(app):
        await asyncio.sleep(1.5)
        assert not ran.is_set()
        assert await mail.depth() == 1
        await mail.store.queues.resume_queue(DEFAULT_TENANT, QUEUE)
        await all_are(mail.store, runs, RunState.SUCCEEDED)


async def test_a_broker_that_does_not_answer_does_not_delay_a_pause(app: App, mail: Streamed) -> None:
    ran: list[int] = []

    @app.task(name="count")
    async def count(number: int) -> None:
        ran.append(number)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        await mail.store.streams.set_stream(DEFAULT_TENANT, "post", StreamSettings(address))
        async with working(app):
            await all_are(mail.store, await mail.carry("count", {"number": 1}), RunState.SUCCEEDED)
            await mail.store.queues.pause_queue(DEFAULT_TENANT, QUEUE)
            await asyncio.sleep(2.5)
            await mail.carry("count", {"number": 2})
            await asyncio.sleep(0.5)
    assert ran == [1] and await mail.depth() == 1


async def test_a_broker_that_does_not_answer_does_not_delay_announcements(app: App, mail: Streamed) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        assert await mail.store.streams.set_stream(DEFAULT_TENANT, "silent", StreamSettings(address)) is not None
        for queue in ("silent", QUEUE):  # in the order of their lanes
            late = prepare(task="work", args={}, max_payload=100, queue=queue, schedule=Once(datetime.now(UTC)))
            await mail.store.intake.submit(DEFAULT_TENANT, [late])
        await mail.store.leases.register(
            WorkerInfo(new_id(), "this relay", slots=1, tasks=(), queues=()), timedelta(minutes=1)
        )
        brokers = Brokers()
        relay = Relay(mail.store, brokers, lease=timedelta(seconds=15), name="this relay")
        looking = asyncio.create_task(relay.tick())
        await eventually(mail.depth)
        assert not relay._unavailable, "the other broker was not waited for"
        await looking
        await relay.close()
        await brokers.close()


async def test_delayed_and_retried_runs_are_announced(app: App, mail: Streamed) -> None:
    @app.task(name="flaky", queue=QUEUE, retry=RetryPolicy(retries=1, base=0.05))
    async def flaky(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise ValueError("once more")
        return ctx.attempt

    claim, announced = mail.store.claims.claim_announced, Counter[UUID]()

    async def counted(worker_id: UUID, claim_no: int, runs: Sequence[Announcement]) -> Any:
        claimed = await claim(worker_id, claim_no, runs)
        announced.update(run.run_id for run in claimed)
        return claimed

    mail.store.claims.claim_announced = counted  # type: ignore[method-assign]
    async with working(app):
        # The worker is registered, and the relay knows it: only then is it announced.
        await eventually(mail.store.leases.workers)
        await asyncio.sleep(1.2)
        receipts = [await app.submit(flaky.bind(), run_in="300ms") for _ in range(5)]
        for receipt in receipts:
            assert (await app.wait(receipt, "20s")).result == b"2"
        await eventually(mail.is_empty)
    assert sum(announced.values()) >= 5  # a busy machine may claim some from their lane


async def test_a_worker_of_announced_runs_fetches_for_the_places_of_their_tasks(app: App, mail: Streamed) -> None:
    """It has fewer processes than other slots, and none of these tasks runs in them."""

    @app.task(name="work", queue=QUEUE)
    async def work() -> None:
        pass

    claim, sizes = mail.store.claims.claim_announced, list[int]()

    async def counted(worker_id: UUID, claim_no: int, runs: Sequence[Announcement]) -> Any:
        sizes.append(len(runs))
        return await claim(worker_id, claim_no, runs)

    lanes = {lane.id for lane in await mail.store.claims.lanes()}
    await mail.store.intake.submit(DEFAULT_TENANT, [_delayed("work", timedelta(0)) for _ in range(60)])
    (lane,) = [lane for lane in await mail.store.claims.lanes() if lane.id not in lanes]
    (sight,) = (await mail.store.claims.look([lane.id], 100)).sights
    await mail.publish([Announcement(run_id, lane.id) for run_id in sight.run_ids])
    mail.store.claims.claim_announced = counted  # type: ignore[method-assign]
    async with working(app, slots=100, processes=1):
        await eventually(mail.is_empty)
    assert max(sizes) > 1


async def test_an_announcement_has_no_authority(app: App, mail: Streamed) -> None:
    ran: list[int] = []

    @app.task(name="work", queue=QUEUE)
    async def work() -> None:
        ran.append(1)

    lanes = {lane.id for lane in await mail.store.claims.lanes()}
    await mail.store.intake.submit(
        DEFAULT_TENANT, [_delayed("work", timedelta(hours=1)), _delayed("elsewhere", timedelta(0))]
    )
    known = [lane for lane in await mail.store.claims.lanes() if lane.id not in lanes]
    waiting = await mail.store.claims.look([lane.id for lane in known], 10)
    forged = [Announcement(run_id, lane.id) for sight in waiting.sights for run_id in sight.run_ids for lane in known]
    await mail.publish([*forged, Announcement(new_id(), 10**6), Announcement(new_id(), known[0].id)])
    async with working(app):
        await eventually(mail.is_empty)
    assert ran == []


def _delayed(task: str, delay: timedelta) -> Any:
    schedule = Once(datetime.now(UTC) + delay)
    return prepare(task=task, args={}, max_payload=100, queue=QUEUE, schedule=schedule)


async def test_messages_that_are_not_duetimes_go_aside(app: App, mail: Streamed) -> None:
    @app.task(name="work")
    async def work() -> None:
        pass

    stream = mail.stream()
    await mail.broker.publish(stream.text, [b"garbage", b"\xc1\x01rubbish"])
    runs = await mail.carry("work", {})
    async with working(app):
        await all_are(mail.store, runs, RunState.SUCCEEDED)
        await eventually(mail.is_empty)
    assert (await mail.broker.depths([stream.refused]))[stream.refused].messages == 2


async def test_a_broker_that_is_away_for_a_while(app: App) -> None:
    ran: Counter[int] = Counter()

    @app.task(name="count")
    async def count(number: int) -> None:
        ran[number] += 1

    with RedisServer(appendfsync="always") as server:
        async with streamed(await app.store(), server.address) as mail, working(app):
            before = await mail.carry("count", *({"number": number} for number in range(20)))
            await all_are(mail.store, before, RunState.SUCCEEDED)
            server.kill()
            await asyncio.sleep(1)
            server.start()
            after = await mail.carry("count", *({"number": number} for number in range(20, 40)))
            await all_are(mail.store, after, RunState.SUCCEEDED)
            await eventually(mail.is_empty)
    assert (await mail.store.reads.counts()).history == 40


async def test_runs_go_on_while_the_store_is_away(app: App, mail: Streamed) -> None:
    """Their messages are extended: no other worker gets them."""
    ran: list[int] = []

    @app.task(name="work")
    async def work(ctx: Context) -> None:
        ran.append(ctx.lost)
        await asyncio.sleep(4)

    streams = mail.store.streams
    land, end = streams.land, streams.end_carried
    away = True

    async def maybe(*arguments: Any) -> Any:
        if away:
            raise StoreUnavailable("not now")
        return await (land(*arguments) if isinstance(arguments[1], UnderClaim) else end(*arguments))

    streams.land = streams.end_carried = maybe  # type: ignore[method-assign]
    (run,) = await mail.carry("work", {})
    async with working(app, slots=1, **SHORT):
        await eventually(lambda: ran)
        thief = await mail.broker.consumer([mail.stream().text], "thief", 1.5)
        for _ in range(6):
            assert await thief.fetch([(mail.stream().text, 1)], 0.5) == []
        away = False
        await all_are(mail.store, [run], RunState.SUCCEEDED)
        await eventually(mail.is_empty)
    assert ran == [0]


@asynccontextmanager
async def landing(mail: Streamed, workers: WaitingWorkers) -> AsyncIterator[Meters]:
    """A server consumes streams for these workers."""
    brokers, meters = Brokers(), Meters()
    lander = StreamLander(mail.store, brokers, meters, workers, lease=timedelta(seconds=5))
    task = asyncio.create_task(lander.loop.run())
    yield meters
    lander.loop.stop()
    await task
    await lander.close()
    await brokers.close()


async def test_runs_land_under_the_claims_of_remote_workers(app: App, mail: Streamed, served: Served) -> None:
    ran: Counter[int] = Counter()

    @app.task(name="count")
    async def count(number: int) -> None:
        ran[number] += 1

    runs = await mail.carry("count", *({"number": number} for number in range(20)))
    others = await mail.carry("elsewhere", {})
    await mail.broker.publish(mail.stream().text, [b"garbage"])
    gateway = served.service.gateway
    async with landing(mail, gateway.dealer) as meters, remote_worker(app, served.url, await served.key(Role.WORKER)):
        await all_are(mail.store, runs, RunState.SUCCEEDED)
        await all_are(mail.store, others, RunState.PENDING)
        await eventually(mail.is_empty)
    assert ran == Counter(range(20))
    assert meters.landed == Counter(remote=20, task=1)
    for run in runs:
        assert await attempts_of(mail.store, run) == [AttemptState.SUCCEEDED]


async def test_an_assignment_without_an_answer_starts_once(app: App, mail: Streamed, served: Served) -> None:
    ran: Counter[int] = Counter()

    @app.task(name="count")
    async def count(number: int) -> None:
        ran[number] += 1

    gateway = served.service.gateway
    streams, lost = gateway.dealer._store.streams, 0
    assign = streams.assign

    async def lose_the_first(*arguments: Any, **words: Any) -> Any:
        nonlocal lost
        dealt = await assign(*arguments, **words)
        lost += 1
        if lost == 1:
            raise StoreUnavailable("no answer")
        return dealt

    streams.assign = lose_the_first  # type: ignore[method-assign]
    runs = await mail.carry("count", *({"number": number} for number in range(20)))
    async with landing(mail, gateway.dealer), remote_worker(app, served.url, await served.key(Role.WORKER)):
        await all_are(mail.store, runs, RunState.SUCCEEDED)
        await eventually(mail.is_empty)
    assert lost
    assert ran == Counter(range(20))


class NeverTaking:
    """Workers that wait, and take nothing."""

    on_wait: Callable[[], None]
    strict = False
    weights: Mapping[int, int] = {}

    def rooms(self) -> Mapping[tuple[int, frozenset[str]], int]:
        return {(DEFAULT_TENANT, frozenset()): 10}

    def serves(self, lane: LaneKey) -> bool:
        return True

    async def assign(self, runs: Sequence[CarriedRun]) -> frozenset[UUID]:
        return frozenset()


async def test_a_broker_that_is_away_does_not_keep_others_from_remote_workers(app: App, mail: Streamed) -> None:
    store, land = mail.store, mail.store.streams.land
    with RedisServer() as leaving:
        settings = StreamSettings(leaving.address)
        await store.streams.set_stream(DEFAULT_TENANT, "post", settings)

        async def land_last(*of: Any) -> frozenset[UUID]:
            stored = await land(*of)
            leaving.stop()  # before its message is acknowledged
            return stored

        store.streams.land = land_last  # type: ignore[method-assign]
        (post,) = await store.streams.carry(DEFAULT_TENANT, [prepare(task="t", args={}, max_payload=9, queue="post")])
        stream = streams_of((await store.streams.stream_queues())[-1], shared=False)[Tier.MEDIUM]
        brokers = Brokers()
        await (await brokers.at(settings)).publish(stream.text, await mail.codec.pack(stream, [post]))
        async with landing(mail, NeverTaking()):
            await all_are(store, [post], RunState.PENDING)
            runs = await mail.carry("t", {}, {})
            await all_are(store, runs, RunState.PENDING)
            await eventually(mail.is_empty)
        await brokers.close()


async def test_tiers_share_the_slots(app: App, mail: Streamed) -> None:
    order: list[str] = []

    @app.task(name="work")
    async def work(tier: str) -> None:
        order.append(tier)
        await asyncio.sleep(0.005)

    await mail.carry("work", *({"tier": "low"} for _ in range(150)), tier=Tier.LOW)
    await mail.carry("work", *({"tier": "high"} for _ in range(150)), tier=Tier.HIGH)
    async with working(app, slots=4):
        await eventually(mail.is_empty)
    assert len(order) == 300
    assert order[:150].count("high") > 110
    assert order[:150].count("low") > 0
