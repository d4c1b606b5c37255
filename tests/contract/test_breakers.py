"""Breakers: all workers leave a failing target alone; a few probes decide; waiting runs do not come all at once."""

from datetime import timedelta

import pytest

from duetime.model.attempt import Claimed
from duetime.model.breaker import BreakerPolicy, BreakerState, Tally
from duetime.model.job import Options, encode_options
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, Hand, hand, job, submit
from tests.contract.worlds import Time, World
from tests.support.unclaimed import unclaimed

POLICY = BreakerPolicy()


async def report(store: Store, tried: int, failed: int = 0, target: str = "greet", retried: int = 0) -> None:
    await store.breakers.report_attempts([Tally(TENANT, target, tried, failed, retried)], POLICY)


async def state(store: Store, target: str = "greet") -> BreakerState:
    found = [breaker.state for breaker in await store.breakers.breakers(TENANT) if breaker.target == target]
    return found[0] if found else BreakerState.CLOSED


async def claim(worker: Hand, take: int = 1000) -> list[Claimed]:
    await worker.store.claims.rules()
    return await worker.claim(take)


async def test_it_opens_when_more_than_half_of_enough_attempts_failed(store: Store) -> None:
    await report(store, 19, 19)
    assert await state(store) is BreakerState.CLOSED
    await report(store, 1, 1)
    assert await state(store) is BreakerState.OPEN
    await report(store, 40, 20, target="count")
    assert await state(store, "count") is BreakerState.CLOSED
    await report(store, 1, 1, target="count")
    assert await state(store, "count") is BreakerState.OPEN


async def test_what_was_tried_long_ago_does_not_count(store: Store, time: Time) -> None:
    await report(store, 19, 19)
    time.advance(seconds=31)
    await report(store, 19, 19)
    assert await state(store) is BreakerState.CLOSED


async def test_what_all_workers_say_counts_together(store: Store, other: Store) -> None:
    await report(store, 10, 10)
    await report(other, 10, 10)
    assert await state(store) is BreakerState.OPEN


async def test_runs_wait_while_it_is_open_and_spend_nothing(store: Store, time: Time) -> None:
    waiting = await submit(store, job())
    await submit(store, job(task="count"))
    await report(store, 20, 20)
    worker = await hand(store, timedelta(days=1))
    assert len(await claim(worker)) == 1, "the other task's"
    assert waiting.run_id is not None
    assert (await store.reads.run(TENANT, waiting.run_id)).attempt == 0
    assert await store.breakers.advance_breakers() == 0
    time.advance(seconds=6)
    assert await store.breakers.advance_breakers() == 1
    assert await state(store) is BreakerState.PROBING
    assert (await claim(worker))[0].attempt == 1


async def test_a_few_probes_decide(store: Store, time: Time) -> None:
    await submit(store, *(job() for _ in range(1000)))
    await report(store, 20, 20)
    worker = await hand(store, timedelta(days=1))
    time.advance(seconds=6)
    await store.breakers.advance_breakers()
    probes = await claim(worker)
    assert len(probes) == 3
    assert await claim(worker) == []
    await report(store, 1, 1)
    assert await state(store) is BreakerState.OPEN
    await worker.succeed(*probes)
    time.advance(seconds=5.5)
    assert await store.breakers.advance_breakers() == 0, "it is left alone for longer each time"
    time.advance(seconds=1)
    await store.breakers.advance_breakers()
    await worker.succeed(*await claim(worker))
    await report(store, 3)
    assert await state(store) is BreakerState.RECOVERING


async def test_probes_that_take_minutes_decide_too(store: Store, time: Time) -> None:
    await report(store, 20, 20)
    time.advance(seconds=6)
    await store.breakers.advance_breakers()
    for _ in range(3):
        assert await state(store) is BreakerState.PROBING
        time.advance(minutes=5)
        await report(store, 1)
        await store.breakers.advance_breakers()
    assert await state(store) is BreakerState.RECOVERING


async def test_those_who_waited_do_not_come_all_at_once(store: Store, time: Time) -> None:
    await submit(store, *(job() for _ in range(1000)))
    await report(store, 20, 20)
    time.advance(seconds=6)
    await store.breakers.advance_breakers()
    await report(store, 3)
    worker = await hand(store, timedelta(days=1))
    started = []
    for _ in range(300):
        time.advance(seconds=0.25)
        await store.breakers.advance_breakers()
        started.append(len(await claim(worker)))
        if sum(started) == 1000:
            break
    assert sum(started) == 1000
    assert max(started) <= 14
    assert 100 <= len(started) <= 250
    time.advance(seconds=60)
    await store.breakers.advance_breakers()
    assert await state(store) is BreakerState.CLOSED


async def test_it_closes_under_a_steady_load(store: Store, time: Time) -> None:
    await report(store, 20, 20)
    worker = await hand(store, timedelta(days=1))
    for _ in range(60):
        time.advance(seconds=5)
        await submit(store, *(job() for _ in range(60)))
        await store.breakers.advance_breakers()
        if runs := await claim(worker, 5000):
            await worker.succeed(*runs)
            await report(store, len(runs))
    assert await state(store) is BreakerState.CLOSED
    assert len(await claim(worker)) == 0


async def test_runs_whose_next_try_is_later_do_not_stand_before_it(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(days=1))
    await submit(store, *(job() for _ in range(100)))
    for run in await claim(worker):
        await worker.retry(run, 3600)
    await report(store, 20, 20)
    time.advance(seconds=6)
    await store.breakers.advance_breakers()
    await report(store, 3)
    time.advance(seconds=2)
    await store.breakers.advance_breakers()
    assert await state(store) is BreakerState.CLOSED


async def put_off_while_it_probes(store: Store, time: Time, worker: Hand, most: int) -> None:
    """Quick probes use up the rate of the target: runs that come then with a key of their own are put off."""
    await report(store, 20, 20)
    time.advance(seconds=6)
    await store.breakers.advance_breakers()
    await submit(store, *(job() for _ in range(3)))
    await worker.succeed(*await claim(worker))
    keys = (encode_options(Options(concurrency_key=f"c{number}")) for number in range(most))
    await submit(store, *(job(options=key) for key in keys))
    assert await claim(worker) == []
    assert await furthest(store, time) > 45


async def furthest(store: Store, time: Time) -> float:
    """How many seconds ahead the last run of all lanes is ready."""
    return max((run.ready_at - time.now).total_seconds() for run in await unclaimed(store))


async def test_those_with_keys_come_within_its_time_too(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(days=1))
    await put_off_while_it_probes(store, time, worker, 150)
    await report(store, 3)
    assert await state(store) is BreakerState.RECOVERING
    for _ in range(2):
        time.advance(seconds=0.1)
        await claim(worker)
    assert 5 < await furthest(store, time) < 40


async def test_whoever_was_put_off_comes_when_it_is_reset(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(days=1))
    await put_off_while_it_probes(store, time, worker, 150)
    await store.breakers.reset_breaker(TENANT, "greet")
    assert len(await claim(worker)) == 150


async def test_a_line_that_is_too_long_for_one_transaction_is_left_in_several(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("rules.limit_scopes", "shared.breakers"):
        monkeypatch.setattr(f"duetime.store.{place}.RELEASED_AT_ONCE", 40)
    worker = await hand(store, timedelta(days=1))
    await put_off_while_it_probes(store, time, worker, 150)
    await store.breakers.reset_breaker(TENANT, "greet")
    assert len(await claim(worker)) == 150


async def test_a_breaker_can_be_reset(store: Store) -> None:
    await submit(store, job())
    await report(store, 20, 20)
    assert (await store.breakers.reset_breaker(TENANT, "greet")).state is BreakerState.CLOSED
    assert len(await claim(await hand(store))) == 1


async def test_a_survey_counts_those_that_are_not_closed(store: Store) -> None:
    assert (await store.survey.survey()).breakers == {}
    for target in ("greet", "count"):
        await report(store, 20, 20, target=target)
    assert (await store.survey.survey()).breakers == {BreakerState.OPEN: 2}


async def test_a_run_may_name_its_own_target(store: Store) -> None:
    def aimed(host: str) -> bytes | None:
        return encode_options(Options(breaker_key=host))

    await submit(store, job(options=aimed("down.example")), job(options=aimed("up.example")))
    await report(store, 20, 20, target="down.example")
    worker = await hand(store)
    assert len(await claim(worker)) == 1
    assert (await store.queues.queue(TENANT, "default")).held_back == 1
    await store.breakers.reset_breaker(TENANT, "down.example")
    assert len(await claim(worker)) == 1


async def test_it_stays_closed_when_breakers_are_off(store: Store) -> None:
    await store.breakers.report_attempts([Tally(TENANT, "greet", 50, 50)], BreakerPolicy(enabled=False))
    assert await state(store) is BreakerState.CLOSED


async def test_resetting_what_has_no_breaker_makes_none(world: World, store: Store) -> None:
    await report(store, 19, 19)
    for target in ("greet", "made up"):
        assert (await store.breakers.reset_breaker(TENANT, target)).state is BreakerState.CLOSED
    assert [await world.rows_of(table) for table in ("breakers", "limits", "attempts")] == [0, 0, 0]


async def test_one_that_has_been_closed_for_long_is_forgotten(world: World, store: Store, time: Time) -> None:
    await report(store, 20, 20)
    await report(store, 20, 20, target="count")
    await store.breakers.reset_breaker(TENANT, "greet")
    for hours, rows in ((0.5, 2), (1, 1)):
        time.advance(hours=hours)
        await store.pruning.prune(timedelta(days=7), timedelta(days=30))
        assert [await world.rows_of(table) for table in ("breakers", "limits")] == [rows, rows]
    assert await state(store, "count") is BreakerState.OPEN
