"""The store's clock steps, forward and back, while processes run or start: what may be ended and removed, and when.

Time and clock are two things here: `moments.wait` lets both go on, `moments.step` moves the clock alone.
"""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest

from duetime.engine import clock_guard
from duetime.engine.clock_guard import ClockGuard
from duetime.engine.eraser import Eraser
from duetime.engine.pruner import Pruner
from duetime.engine.reaper import Reaper
from duetime.ids import new_id
from duetime.model.alert import AlertRule, Figure
from duetime.model.attempt import Claimed
from duetime.model.breaker import BreakerPolicy, BreakerState, Tally
from duetime.model.erasure import ErasureStep
from duetime.model.failure import FailureClass
from duetime.model.job import Options, encode_options
from duetime.model.notification import Subscription, Topic, Webhook
from duetime.model.run import RunState
from duetime.model.schedule import Every
from duetime.model.tenant import NewTenant
from duetime.store.protocol.store import Store
from duetime.store.shared import clocks
from tests.contract.hands import LEASE, TENANT, Hand, hand, job, reap, submit
from tests.contract.test_handing_over import over
from tests.contract.worlds import Time, World

DAY = timedelta(days=1)
HALF = LEASE.total_seconds() / 2


class Moments:
    """Monotonic time beside the store's clock."""

    def __init__(self, clock: Time) -> None:
        self.monotonic = 1000.0
        self._clock = clock

    def wait(self, seconds: float) -> None:
        self.monotonic += seconds
        self._clock.advance(seconds=seconds)

    def step(self, **by: float) -> None:
        self._clock.advance(**by)


@pytest.fixture
def moments(time: Time, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moments]:
    made = Moments(time)
    for module in (clock_guard, clocks):
        monkeypatch.setattr(module, "monotonic", lambda: made.monotonic)
    return made


async def steady(store: Store, moments: Moments, *living: Hand) -> Reaper:
    """A node that has seen the clock run evenly for long; workers renew meanwhile."""
    reaper = Reaper(store, lease=LEASE)
    for _ in range(4):
        await reaper.tick()
        await pass_half_a_lease(store, moments, *living)
    await reaper.tick()
    return reaper


async def pass_half_a_lease(store: Store, moments: Moments, *living: Hand) -> None:
    moments.wait(HALF)
    for worker in living:
        await store.leases.renew(worker.id, LEASE, list(range(1, worker.claim_no + 1)))


async def known(store: Store) -> set[UUID]:
    return {worker.id for worker in await store.leases.workers()}


# Leases.


@pytest.mark.parametrize("noticed", [True, False], ids=["noticed", "not noticed"])
async def test_a_node_that_starts_after_a_step_forward_reaps_nobody_who_lives(
    store: Store, moments: Moments, noticed: bool
) -> None:
    """Whether or not a node that was there before has looked since."""
    worker = await hand(store)
    old = await steady(store, moments, worker)
    await submit(store, job())
    run = await worker.claim_one()
    moments.step(seconds=LEASE.total_seconds() + 5)
    if noticed:
        await old.tick()
    for _ in range(3):
        await Reaper(store, lease=LEASE).tick()  # started this moment
        moments.wait(1)
    assert await known(store) == {worker.id}
    await pass_half_a_lease(store, moments, worker)
    await Reaper(store, lease=LEASE).tick()
    assert (await worker.succeed(run)).refused == frozenset()


@pytest.mark.parametrize("step", [{"hours": 1}, {"hours": 0}, {"hours": -1}], ids=["forward", "none", "back"])
@pytest.mark.parametrize("restarts", [True, False], ids=["restarts", "runs on"])
async def test_the_run_of_a_dead_worker_is_freed_after_about_a_lease(
    store: Store, moments: Moments, step: dict[str, float], restarts: bool
) -> None:
    dead, living = await hand(store), await hand(store)
    reaper = await steady(store, moments, dead, living)
    await submit(store, job())
    run = await dead.claim_one()
    moments.step(**step)
    waited = 0.0
    if restarts:
        reaper = Reaper(store, lease=LEASE)
    while dead.id in await known(store):
        await reaper.tick()
        await pass_half_a_lease(store, moments, living)
        waited += HALF
        assert waited <= 2 * LEASE.total_seconds()
    assert await known(store) == {living.id}
    assert (await living.claim_one()).run_id == run.run_id


async def test_after_an_outage_workers_have_a_lease_to_come_back(store: Store, moments: Moments) -> None:
    """An outage cannot be told from a step of the clock."""
    worker = await hand(store)
    await steady(store, moments, worker)
    moments.wait(3600)
    reaper = Reaper(store, lease=LEASE)
    await reaper.tick()
    assert await known(store) == {worker.id}
    await pass_half_a_lease(store, moments)
    await reaper.tick()
    assert await known(store) == {worker.id}
    await pass_half_a_lease(store, moments)
    await reaper.tick()
    assert await known(store) == set()


async def test_the_first_reading_counts_as_the_start_of_a_steady_clock(store: Store) -> None:
    """Without a start on record, every process that joins would wait for a lease again."""
    first = await store.now()
    await store.clocks.keep_clock_seen(first, stepped=False)
    await store.clocks.keep_clock_seen(first + LEASE, stepped=False)
    seen = await store.clocks.clock_seen()
    assert (seen.stepped_at, seen.seen_at) == (first, first + LEASE)


async def test_a_node_that_joins_others_need_not_wait(store: Store, moments: Moments) -> None:
    dead, living = await hand(store), await hand(store)
    old = await steady(store, moments, living)
    moments.wait(1)
    await old.tick()
    moments.wait(1)
    assert await ClockGuard(store, lease=LEASE).may_judge_leases()
    assert dead.id not in await known(store)


async def test_an_answer_that_may_hide_a_step_is_no_reason_to_reap(
    store: Store, moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = await hand(store)
    reaper = await steady(store, moments, worker)
    ask = store.clocks.clock_seen

    async def slowly() -> object:
        found = await ask()
        moments.monotonic += LEASE.total_seconds() + 5
        return found

    moments.step(seconds=LEASE.total_seconds() + 5)
    monkeypatch.setattr(store.clocks, "clock_seen", slowly)
    await reaper.tick()
    monkeypatch.setattr(store.clocks, "clock_seen", ask)
    moments.step(seconds=LEASE.total_seconds() + 5)
    await reaper.tick()
    assert await known(store) == {worker.id}


async def test_an_answer_that_a_later_one_overtakes_is_no_rewind(
    store: Store, moments: Moments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loops of a process share one guard."""
    guard = ClockGuard(store, lease=LEASE)
    await guard.may_judge_leases()
    moments.wait(LEASE.total_seconds())
    ask = store.clocks.clock_seen
    delays = iter((0.05, 0.0))

    async def slowly() -> object:
        found = await ask()
        await asyncio.sleep(next(delays))
        return found

    monkeypatch.setattr(store.clocks, "clock_seen", slowly)
    await asyncio.gather(guard.may_judge_leases(), guard.may_judge_leases())
    assert (await ask()).rewind is None


# What has a time of its own.


async def test_a_timeout_is_kept_after_the_clock_was_put_back(store: Store, moments: Moments) -> None:
    """By a worker that lives and does not stop its run."""
    worker = await hand(store)
    reaper = await steady(store, moments, worker)
    await submit(store, job(timeout_ms=60_000))
    run = await worker.claim_one()
    moments.step(hours=-1)
    for _ in range(10):
        await pass_half_a_lease(store, moments, worker)
        await reaper.tick()
    assert (await store.reads.run(TENANT, run.run_id)).failure is FailureClass.TIMEOUT


@pytest.mark.parametrize("step", [{"hours": 1}, {"hours": -1}], ids=["forward", "back"])
@pytest.mark.parametrize("restarts", [True, False], ids=["restarts", "runs on"])
async def test_a_receiver_has_its_time_whatever_the_clock_does(
    store: Store, moments: Moments, step: dict[str, float], restarts: bool
) -> None:
    worker = await hand(store)
    reaper = await steady(store, moments, worker)
    await submit(store, job())
    run = await worker.claim_one()
    await worker.complete(over(run, timedelta(minutes=5)), closed=[worker.claim_no])
    moments.step(**step)
    if restarts:
        reaper = Reaper(store, lease=LEASE)
    for _ in range(4 * 4):
        await reaper.tick()
        await pass_half_a_lease(store, moments, worker)
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.RUNNING
    for _ in range(4 * 3):
        await pass_half_a_lease(store, moments, worker)
        await reaper.tick()
    assert (await store.reads.run(TENANT, run.run_id)).failure is FailureClass.TIMEOUT


@pytest.mark.parametrize("rate", ["1/m", "3/m", "10/h"])
async def test_a_rate_starts_runs_again_within_its_period(store: Store, moments: Moments, rate: str) -> None:
    """Those that waited for their moments too, though nothing new comes; and never more than it says."""
    worker = await hand(store, 90 * DAY)
    reaper = await steady(store, moments)
    options = encode_options(Options(rate_key="bank", rate=rate))
    count, period = int(rate.split("/")[0]), 60.0 if rate.endswith("m") else 3600.0
    await submit(store, *(job(options=options) for _ in range(4 * count)))
    assert len(await claim(worker)) == count
    moments.step(hours=-1)
    stepped, started = moments.monotonic, []
    for _ in range(60):
        await reaper.tick()
        moments.wait(period / 20)
        started += [moments.monotonic for _ in await claim(worker)]
    assert started[0] <= stepped + period * 1.1
    assert len(started) >= 2 * count - 1
    assert all(late - early >= period for early, late in zip(started, started[count:], strict=False))


async def claim(worker: Hand) -> list[Claimed]:
    await worker.store.claims.rules()
    return await worker.claim()


async def test_a_breaker_probes_after_its_pause_when_the_clock_was_put_back(store: Store, moments: Moments) -> None:
    reaper = await steady(store, moments)
    await store.breakers.report_attempts([Tally(TENANT, "greet", 20, 20)], BreakerPolicy())
    moments.step(hours=-1)
    await reaper.tick()
    moments.wait(7)
    await store.breakers.advance_breakers()
    (breaker,) = await store.breakers.breakers(TENANT)
    assert breaker.state is BreakerState.PROBING
    assert breaker.tried == 0


async def test_notifications_and_alerts_go_on_when_the_clock_was_put_back(store: Store, moments: Moments) -> None:
    reaper = await steady(store, moments)
    await store.notifications.put_subscription(
        TENANT, Subscription("ops", Webhook("https://ops.example.com/"), (Topic.RUN_DEAD,))
    )
    await store.notifications.put_alert(TENANT, AlertRule(name="dead", figure=Figure.DEAD_LETTERS, threshold=1))
    assert await store.notifications.take_notifying(new_id(), timedelta(seconds=10)) is not None
    assert len(await store.notifications.take_alerts(timedelta(seconds=5))) == 1
    moments.step(hours=-1)
    await reaper.tick()
    moments.wait(11)
    assert await store.notifications.take_notifying(new_id(), timedelta(seconds=10)) is not None
    assert len(await store.notifications.take_alerts(timedelta(seconds=5))) == 1


# Ages.

TABLES = ("history", "dead_letters", "keys", "labels", "jobs", "events")


async def leave_something(store: Store, moments: Moments) -> None:
    """Something in each table that is pruned."""
    worker = await hand(store, 90 * DAY)
    await store.events.keep_listening(90 * DAY)
    labelled = encode_options(Options(name="report"))
    await submit(store, job(idempotency_key="order", options=labelled), job())
    for run in await worker.claim():
        await worker.fail(run)
    await store.events.events(await store.events.keep_listening(DAY))
    ended = await submit(store, job(Every(DAY)))
    await store.control.cancel_job(TENANT, ended.job_id)
    moments.wait(60)


def pruner(store: Store) -> Pruner:
    return Pruner(store, retention=7 * DAY, dead_letter_retention=30 * DAY, idempotency_retention=DAY)


async def rows(world: World) -> dict[str, int]:
    return {table: await world.rows_of(table) for table in TABLES}


@pytest.mark.parametrize("restarts", [True, False], ids=["restarts", "runs on"])
async def test_a_clock_that_is_wrong_for_a_while_removes_nothing(
    store: Store, world: World, moments: Moments, restarts: bool
) -> None:
    await leave_something(store, moments)
    node = pruner(store)
    await node.tick()
    before = await rows(world)
    assert all(before.values()), before
    moments.step(days=40)
    for _ in range(9):
        if restarts:
            node = pruner(store)
        await node.tick()
        moments.wait(60)
    moments.step(days=-40)
    await node.tick()
    assert await rows(world) == before
    assert not (
        await submit(store, job(idempotency_key="order", options=encode_options(Options(name="report"))))
    ).created


async def test_a_clock_that_is_wrong_for_a_while_erases_nobody(store: Store, moments: Moments) -> None:
    """The grace of a deletion passes in real time: until it is over, the deletion can be taken back."""
    tenant = await store.tenants.create_tenant(NewTenant("acme"))
    guard = ClockGuard(store, lease=LEASE)
    eraser = Eraser(store, guard=guard, cancel_timeout=timedelta(0), quiet=timedelta(0))
    await eraser.tick()
    await store.erasures.plan_erasure(tenant.id, timedelta(days=7), "root", None)
    moments.step(days=40)
    for _ in range(5):
        moments.wait(10)
        await eraser.tick()
        await Eraser(store).tick()  # a node that starts meanwhile
    moments.step(days=-40)
    await eraser.tick()
    (erasure,) = await store.erasures.erasures(tenant.id)
    assert erasure.step is ErasureStep.WAITING
    for _ in range(8 * 24 * 2):
        moments.wait(1800)
        await guard.trusted_now()
    await eraser.tick()
    (erasure,) = await store.erasures.erasures(tenant.id)
    assert erasure.step is not ErasureStep.WAITING


async def test_what_is_erased_at_once_does_not_wait_for_the_clock(store: Store, moments: Moments) -> None:
    tenant = await store.tenants.create_tenant(NewTenant("acme"))
    guard = ClockGuard(store, lease=LEASE)
    await guard.trusted_now()
    moments.step(hours=2)
    await store.erasures.plan_erasure(tenant.id, timedelta(0), "root", None)
    await Eraser(store, guard=guard).tick()
    (erasure,) = await store.erasures.erasures(tenant.id)
    assert erasure.step is not ErasureStep.WAITING


async def test_room_for_history_is_made_by_the_clock_even_when_it_is_wrong(store: Store, moments: Moments) -> None:
    node = pruner(store)
    await node.tick()
    moments.step(days=40)
    await node.tick()
    worker = await hand(store)
    await submit(store, job())
    assert (await worker.succeed(await worker.claim_one())).refused == frozenset()


async def test_who_was_off_for_long_prunes_in_the_end(store: Store, world: World, moments: Moments) -> None:
    await leave_something(store, moments)
    await pruner(store).tick()
    moments.wait(40 * DAY.total_seconds())
    node = pruner(store)
    for _ in range(6):
        await node.tick()
        moments.wait(590)
    assert await world.rows_of("history") == 2, "it may be the clock that is wrong"
    for _ in range(2 * 40):
        moments.wait(1800)
        await node.tick()
    left = await rows(world)
    assert sum(left.values()) == left["labels"], left  # ids of jobs go by this machine's clock


async def test_what_is_old_goes_as_ever_while_the_clock_runs_evenly(
    store: Store, world: World, moments: Moments
) -> None:
    await leave_something(store, moments)
    node = pruner(store)
    for _ in range(9 * 4):
        moments.wait(6 * 3600)
        await node.tick()
    left = await rows(world)
    assert (left["history"], left["keys"], left["events"]) == (0, 0, 0)
    assert left["dead_letters"] == 2


async def test_what_looks_for_rows_from_before_takes_a_small_part_of_the_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads all limits: where that takes long, it is done less often."""
    monkeypatch.setattr(clocks, "_SHIFT_EVERY", 0.0)
    monkeypatch.setattr(clocks, "_SHIFT_SHARE", 1e-9)
    shifts: list[None] = []
    shift_back = store.clocks.shift_back

    async def counted() -> None:
        shifts.append(None)
        await shift_back()

    monkeypatch.setattr(store.clocks, "shift_back", counted)
    for _ in range(3):
        await reap(store)
    assert len(shifts) == 1
