"""Figures: how a tenant stands, what happened lately, what is to come; each bounded, and honest about it."""

from datetime import timedelta

import pytest

from duetime.model.forecast import forecast
from duetime.model.overview import Count
from duetime.model.run import RunState
from duetime.model.schedule import Cron, Every, Once
from duetime.store.protocol.store import Store
from duetime.store.shared import figure_rows
from tests.contract.hands import STRANGER, TENANT, fire, hand, job, reap, submit
from tests.contract.worlds import Time

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
WINDOW, STEP = timedelta(minutes=5), timedelta(seconds=60)


async def test_what_ended_lately_is_counted_by_how_it_ended(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job(), job(), job(task="count"), job())
    time.advance(seconds=2)
    first, second, third, fourth = await worker.claim()
    await worker.succeed(first)
    await worker.retry(second, 3600)
    await worker.fail(third)
    time.advance(seconds=61)
    await worker.succeed(fourth)
    await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
    found = await store.figures.recent(TENANT, WINDOW, STEP)
    assert (found.since, found.until) == (time.now - WINDOW, time.now)
    assert [step.at for step in found.steps] == [time.now - MINUTE * back for back in (5, 4, 3, 2, 1)]
    sums = {
        name: sum(getattr(step, name) for step in found.steps)
        for name in ("succeeded", "failed", "cancelled", "skipped", "retried", "lost")
    }
    assert sums == {"succeeded": 2, "failed": 1, "cancelled": 0, "skipped": 0, "retried": 1, "lost": 0}
    assert found.steps[3].succeeded == 1, "of the minute before the last"
    assert found.lag is not None
    assert found.lag.p50 == found.lag.p95 == found.lag.most == timedelta(seconds=2)
    assert [(each.task, each.failed) for each in found.failing] == [("count", 1), ("greet", 1)]


async def test_percentiles_of_the_lag(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    for _ in range(20):
        await submit(store, job())
        time.advance(seconds=1)
    await worker.succeed(*await worker.claim())
    found = await store.figures.recent(TENANT, WINDOW, STEP)
    assert found.lag is not None
    assert (found.lag.p50, found.lag.p95, found.lag.most) == tuple(timedelta(seconds=n) for n in (10, 19, 20))


async def test_lost_attempts_are_seen(store: Store, time: Time) -> None:
    await submit(store, job())
    await (await hand(store)).claim_one()
    time.advance(seconds=31)
    await reap(store)
    found = await store.figures.recent(TENANT, WINDOW, STEP)
    assert (sum(step.lost for step in found.steps), sum(step.retried for step in found.steps)) == (1, 0)


async def test_what_is_older_than_the_window_is_left_out(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    await worker.succeed(await worker.claim_one())
    time.advance(minutes=6)
    found = await store.figures.recent(TENANT, WINDOW, STEP)
    assert (sum(step.succeeded for step in found.steps), found.lag, found.failing) == (0, None, ())


async def test_midnight_hides_nothing(store: Store, time: Time) -> None:
    time.advance(hours=14, minutes=58)
    worker = await hand(store, HOUR)
    await submit(store, job(), job())
    first, second = await worker.claim()
    await worker.succeed(first)
    time.advance(minutes=4)
    await worker.succeed(second)
    found = await store.figures.recent(TENANT, WINDOW, STEP)
    assert sum(step.succeeded for step in found.steps) == 2


async def test_how_things_stand(store: Store, time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await hand(store)
    await submit(store, job(Every(HOUR)), job(Once(delay=HOUR)), job(), job(), job(task="count"))
    await submit(store, job(tenant_id=STRANGER), job(Every(HOUR), tenant_id=STRANGER), tenant_id=STRANGER)
    runs = await worker.claim(1)
    mine = [run for run in runs if run.job_id]
    await worker.fail(mine[0])
    time.advance(seconds=5)
    found = await store.figures.standing(TENANT)
    assert (found.jobs, found.dead_letters) == (Count(2), Count(1))
    assert found.running.value in (1, 2)
    assert [(each.task, each.queue) for each in found.waiting] == [("greet", "default")]
    assert found.waiting[0].since == time.now - timedelta(seconds=5)
    monkeypatch.setattr("duetime.store.shared.figures.CAP", 1)
    assert (await store.figures.standing(TENANT)).jobs.kind in ("estimate", "at_least")


async def test_what_is_to_come(store: Store, time: Time) -> None:
    await submit(
        store,
        job(Every(timedelta(minutes=10)), queue="mail"),
        job(Cron("30 * * * *")),
        job(Once(delay=timedelta(minutes=5, seconds=30))),
        job(Once(delay=timedelta(seconds=5)), queue="soon"),
        job(Once(delay=timedelta(hours=3))),
    )
    await submit(store, job(Every(MINUTE), tenant_id=STRANGER), tenant_id=STRANGER)
    paused = await submit(store, job(Every(MINUTE)))
    await store.control.pause_job(TENANT, paused.job_id)
    found = forecast(await store.figures.ahead(TENANT, time.now, MINUTE, 60), time.now, MINUTE, 60)
    mail = {(number, "mail"): 1 for number in (10, 20, 30, 40, 50)}
    assert found.exact
    assert found.counts == {**mail, (30, "default"): 1, (5, "default"): 1, (0, "soon"): 1}
    await fire(store)


async def test_a_window_ahead_counts_jobs_whose_next_fire_lies_before_it(store: Store, time: Time) -> None:
    await submit(store, job(Every(timedelta(minutes=10)), queue="mail"), job(Cron("*/5 * * * *")))
    start = time.now + HOUR
    found = forecast(await store.figures.ahead(TENANT, start, HOUR, 2), start, HOUR, 2)
    assert (found.counts, found.exact) == ({(n, q): c for n in (0, 1) for q, c in (("mail", 6), ("default", 12))}, True)


async def test_a_run_that_is_made_ahead_is_counted_once(store: Store, time: Time) -> None:
    await submit(store, job(Cron("* * * * *")))
    time.advance(seconds=50)
    before = await _hour(store, time)
    assert await fire(store) and before == await _hour(store, time)
    assert before == {(number, "default"): 1 for number in range(1, 61)}


async def test_a_run_that_is_tried_again_is_not_one_to_come(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    time.advance(seconds=1)
    await worker.retry(await worker.claim_one(), 600)
    assert await _hour(store, time) == {}


async def _hour(store: Store, time: Time) -> dict[tuple[int, str], int]:
    start = time.now.replace(second=0)
    return forecast(await store.figures.ahead(TENANT, start, MINUTE, 61), start, MINUTE, 61).counts


async def test_a_herd_is_estimated_where_it_cannot_be_walked(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.store.shared.figures.LOOKED_AT", 100)
    monkeypatch.setattr(figure_rows, "SAMPLED", 400)
    await submit(store, *(job(Once(delay=timedelta(minutes=30))) for _ in range(1000)))
    found = forecast(await store.figures.ahead(TENANT, time.now, MINUTE, 60), time.now, MINUTE, 60)
    assert (found.counts, found.exact) == ({(30, "default"): 1000}, False)
    assert "of 1,000 jobs was read" in found.notes[0]


async def test_an_estimate_is_made_from_the_tenants_own_rows(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job beside the many of another tenant is one run, and exact."""
    monkeypatch.setattr("duetime.store.shared.figures.LOOKED_AT", 100)
    monkeypatch.setattr(figure_rows, "SAMPLED", 50)
    await submit(store, *(job(Once(delay=timedelta(minutes=30))) for _ in range(1000)))
    await submit(store, job(Once(delay=timedelta(minutes=30)), tenant_id=STRANGER), tenant_id=STRANGER)
    seen = await store.figures.ahead(STRANGER, time.now, MINUTE, 60)
    found = forecast(seen, time.now, MINUTE, 60)
    assert (found.counts, found.exact, seen.there) == ({(30, "default"): 1}, True, 1)


async def test_the_last_runs_of_many_jobs(store: Store, time: Time) -> None:
    worker = await hand(store)
    one, other = (await store.intake.submit(TENANT, [job(), job()]))[-2:]
    runs = {run.job_id: run for run in await worker.claim()}
    time.advance(seconds=3)
    await worker.succeed(runs[one.job_id])
    await worker.fail(runs[other.job_id])
    stranger = await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
    found = await store.figures.recent_runs(TENANT, [one.job_id, other.job_id, stranger.job_id], 5)
    assert {job_id: [run.state for run in ends] for job_id, ends in found.items()} == {
        one.job_id: [RunState.SUCCEEDED],
        other.job_id: [RunState.FAILED],
        stranger.job_id: [],
    }
    (end,) = found[one.job_id]
    assert end.started_at is not None and end.finished_at - end.started_at == timedelta(seconds=3)
    assert await store.figures.recent_runs(STRANGER, [one.job_id], 5) == {one.job_id: []}
