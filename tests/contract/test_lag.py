"""Lag is how long after its time a run started for the first time, wherever it is read and however often it starts."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from duetime.engine.alert_figures import Readings
from duetime.model.alert import Alert, AlertRule, Figure
from duetime.model.attempt import Claimed, Run
from duetime.model.lists import RunFilter, RunItem
from duetime.model.run import RunState
from duetime.store.protocol.store import Store
from tests.contract.hands import LEASE, TENANT, Hand, failed, hand, job, reap, submit
from tests.contract.worlds import Time

LATE, WAIT = timedelta(seconds=2), timedelta(minutes=1)
Back = Callable[[Store, Hand, Claimed], Awaitable[object]]


async def retries(_: Store, worker: Hand, claimed: Claimed) -> None:
    await worker.retry(claimed)


async def snoozes(_: Store, worker: Hand, claimed: Claimed) -> None:
    await worker.snooze(claimed)


async def hands_back(store: Store, worker: Hand, claimed: Claimed) -> None:
    await store.completions.hand_back(worker.id, [(claimed.run_id, claimed.fence)])


async def loses(store: Store, worker: Hand, claimed: Claimed) -> None:
    await store.leases.leave(worker.id)
    assert await reap(store) == 1


BACK: list[Back] = [retries, snoozes, hands_back, loses]


async def item(store: Store, claimed: Claimed, state: RunState | None = None) -> RunItem:
    by_state = (await store.lists.list_runs(TENANT, RunFilter(state=state))).items
    of_job = (await store.lists.list_runs(TENANT, RunFilter(job_id=claimed.job_id))).items
    assert by_state == of_job
    return by_state[0]


async def check(store: Store, claimed: Claimed, state: RunState, again_after: timedelta | None) -> Run:
    run = await store.reads.run(TENANT, claimed.run_id)
    [of_job] = await store.reads.runs_of_job(TENANT, claimed.job_id)
    report = await store.lists.job_status(TENANT, claimed.job_id)
    assert run.state is state
    assert run.lag == of_job.lag == LATE
    assert run.retry_delay == again_after
    shown = await item(store, claimed, state)
    for each in (run, of_job, shown, report.last_run):
        assert each is not None
        assert each.first_started_at == run.due_at + LATE
        assert (each.started_at is None) is (again_after is None and state is not RunState.RUNNING)
    return run


@pytest.mark.parametrize("back", BACK, ids=lambda back: back.__name__)
async def test_it_is_that_of_the_first_start(store: Store, time: Time, back: Back) -> None:
    worker = await hand(store, LEASE * 100)
    await submit(store, job())
    time.advance(seconds=LATE.total_seconds())
    first = await worker.claim_one()
    await check(store, first, RunState.RUNNING, None)
    time.advance(seconds=1)
    await back(store, worker, first)
    time.advance(seconds=WAIT.total_seconds() - 1)
    worker = await hand(store, LEASE * 100)
    again = await worker.claim_one()
    await check(store, again, RunState.RUNNING, WAIT)
    await worker.retry(again)
    run = await store.reads.run(TENANT, first.run_id)
    assert (run.state, run.started_at, run.lag, run.retry_delay) == (RunState.RETRYING, None, LATE, None)
    time.advance(seconds=WAIT.total_seconds())
    last = await worker.claim_one()
    await worker.succeed(last)
    await check(store, last, RunState.SUCCEEDED, 2 * WAIT)


async def test_it_outlives_the_end_of_a_run_that_waited(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    time.advance(seconds=LATE.total_seconds())
    claimed = await worker.claim_one()
    await worker.retry(claimed, 60)
    run = await store.control.cancel_run(TENANT, claimed.run_id)
    assert (run.state, run.started_at, run.lag) == (RunState.CANCELLED, None, LATE)
    assert (await item(store, claimed)).first_started_at == run.first_started_at


async def test_a_run_that_never_started_has_none(store: Store, time: Time) -> None:
    answer = await submit(store, job())
    time.advance(seconds=LATE.total_seconds())
    assert answer.run_id is not None
    run = await store.reads.run(TENANT, answer.run_id)
    assert (run.lag, run.first_started_at) == (None, None)
    run = await store.control.cancel_run(TENANT, answer.run_id)
    assert (run.lag, run.first_started_at) == (None, None)


async def test_figures_count_the_first_start_once(store: Store, time: Time) -> None:
    """A run that snoozes for an hour, or is tried again for an hour, did not start late."""
    worker = await hand(store, LEASE * 1000)
    await submit(store, job(), job())
    time.advance(seconds=LATE.total_seconds())
    one, two = await worker.claim()
    await worker.snooze(one)
    await worker.retry(two)
    time.advance(hours=1)
    one, two = await worker.claim()
    await worker.snooze(one, 600)
    await worker.complete(failed(two))
    found = await store.figures.recent(TENANT, timedelta(hours=2), timedelta(minutes=10))
    assert found.lag is not None
    assert (found.lag.p50, found.lag.most) == (LATE, LATE)


async def test_an_alert_does_not_take_a_retry_for_a_late_start(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    await worker.retry(await worker.claim_one(), 3600)
    time.advance(seconds=90)
    alert = Alert(TENANT, AlertRule("late", Figure.LAG_P95, 60.0))
    reading = await Readings(store, await store.clocks.clock_seen()).of(alert)
    assert reading.value == pytest.approx(0.0)


@pytest.mark.parametrize("back", BACK[:2], ids=lambda back: back.__name__)
async def test_notifications_tell_of_the_first_start(store: Store, time: Time, back: Back) -> None:
    worker = await hand(store)
    await submit(store, job())
    time.advance(seconds=LATE.total_seconds())
    first = await worker.claim_one()
    first_start = time.now
    await back(store, worker, first)
    time.advance(seconds=WAIT.total_seconds())
    worker = await hand(store)
    await worker.claim_one()
    [before] = await store.notifications.news_of_runs(TENANT, [first.run_id], started=first_start)
    [now] = await store.notifications.news_of_runs(TENANT, [first.run_id], started=time.now)
    assert before.started_at == before.first_started_at == now.first_started_at == first_start
    assert now.started_at == time.now
