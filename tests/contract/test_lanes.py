"""Lanes fall asleep without runs, are woken before a run is stored in them, and are bounded in number."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from duetime.errors import QuotaExceeded
from duetime.ids import new_id
from duetime.model.edit import Changes
from duetime.model.graph import NewGraph, NewNode
from duetime.model.job import Options, encode_options
from duetime.model.lane import NO_TURN
from duetime.model.lists import DeadFilter, ReplayPace, RunFilter
from duetime.model.retry import RetryPolicy
from duetime.model.schedule import Every, Once
from duetime.model.suspicion import FORGET_TASKS
from duetime.store.protocol.store import Store
from duetime.store.shared.awake_lanes import LaneFollower
from tests.contract.hands import TENANT, fire, hand, job, reap, submit
from tests.contract.worlds import Time, World

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NONCE = b"again"
NO_RETRY = encode_options(Options(retry=RetryPolicy(retries=0)))


async def rest(store: Store, time: Time) -> int:
    """Let all lanes fall asleep that may."""
    time.advance(seconds=61)
    return sum([await store.claims.tidy_lanes() for _ in range(4)])


async def awake(store: Store) -> list[str]:
    return [lane.key.queue for lane in await store.claims.lanes()]


async def test_a_lane_without_runs_falls_asleep_and_wakes_with_its_id(store: Store, other: Store, time: Time) -> None:
    worker = await hand(store, DAY)
    await submit(store, job(), job(queue="mail"))
    await submit(other, job(), job(queue="mail"))
    lanes = {lane.key.queue: lane.id for lane in await store.claims.lanes()}
    await worker.succeed(*[run for run in await worker.claim() if run.lane_id == lanes["mail"]])
    assert await store.claims.tidy_lanes() == 0, "not at once"
    assert await rest(store, time) == 1
    assert await awake(store) == ["default"]
    # The other process remembers the lane.
    for asked in (other, store):
        answer = await submit(asked, job(queue="mail"))
        assert {lane.key.queue: lane.id for lane in await store.claims.lanes()} == lanes
        (run,) = await worker.claim()
        assert (run.run_id, run.lane_id) == (answer.run_id, lanes["mail"])
        await worker.succeed(run)
        assert await rest(other, time) == 1


async def test_many_who_find_a_lane_asleep_at_once_are_all_served(store: Store, other: Store, time: Time) -> None:
    """Each of them finds that it does not hold; what one has learned by then is not doubted by the others."""
    worker = await hand(store, DAY)
    await submit(other, job())
    for tidied in (1, 3) * 5:
        await worker.succeed(*await worker.claim())
        time.advance(seconds=61)
        for _ in range(tidied):
            await store.claims.tidy_lanes()
        await asyncio.gather(*(submit(other, job()) for _ in range(30)))


async def test_a_lane_with_runs_of_any_kind_stays_awake(store: Store, time: Time) -> None:
    worker = await hand(store, DAY)
    parent = job(queue="running")
    graph = NewGraph(new_id(), (NewNode("a", parent), NewNode("b", job(queue="blocked"), (0,))))
    await store.graphs.submit_graph(TENANT, graph)
    keyed = encode_options(Options(concurrency_key="k", concurrency=1))
    await submit(store, job(queue="parked", options=keyed))
    await worker.claim()
    await submit(store, job(queue="parked", options=keyed), job(queue="waiting"))
    await worker.claim(1)
    await submit(store, job(queue="later"))
    (retried,) = await worker.claim(1)
    await worker.retry(retried, seconds=3600)
    before = set(await awake(store))
    assert before == {"running", "blocked", "parked", "waiting", "later"}
    await rest(store, time)
    assert set(await awake(store)) == before


async def test_a_run_on_trial_keeps_its_own_lane_awake(store: Store, time: Time) -> None:
    await submit(store, job())
    await (await hand(store)).claim_one()
    time.advance(seconds=31)
    await reap(store)
    worker = await hand(store, DAY)
    await rest(store, time)
    assert len(await awake(store)) == 2
    await worker.succeed(await worker.claim_one())
    await rest(store, time)
    assert any(lane.key.trial for lane in await store.claims.lanes()), "where new runs of a suspect are put"
    time.advance(seconds=FORGET_TASKS.total_seconds())
    await reap(store)
    await rest(store, time)
    await rest(store, time)
    assert await awake(store) == []
    # And a trial lane that is asleep wakes for the next run that loses its worker.
    await submit(store, job())
    await (await hand(store)).claim_one()
    time.advance(seconds=31)
    await reap(store)
    assert (await worker.claim_one()).lost == 1


async def test_those_who_follow_lanes_read_what_changed(store: Store, time: Time) -> None:
    follower, late = LaneFollower(store.claims), LaneFollower(store.claims)
    worker = await hand(store, DAY)
    await submit(store, job())
    assert [lane.key.queue for lane in (await follower.read()).fresh] == ["default"]
    assert (await follower.read())[:2] == ([], [])
    await submit(store, job(queue="mail"))
    assert [lane.key.queue for lane in (await follower.read()).fresh] == ["mail"]
    await late.read()
    await worker.succeed(*await worker.claim())
    await rest(store, time)
    assert len((await follower.read()).gone) == 2 and not follower.by_id
    time.advance(hours=2)
    await submit(store, job())
    await store.claims.tidy_lanes()
    # What the late one read last is not kept any more: it is told everything.
    assert len((await late.read()).gone) == 1
    assert [lane.key.queue for lane in late.by_id.values()] == ["default"]
    assert (await store.claims.lane_changes(NO_TURN)).awake == await store.claims.lanes()


async def test_what_history_says_of_a_lane_stays(store: Store, time: Time) -> None:
    worker = await hand(store, DAY)
    await submit(store, job(queue="mail"), job(queue="mail", options=NO_RETRY))
    first, second = await worker.claim()
    failing, succeeding = (first, second) if first.options is not None else (second, first)
    await worker.succeed(succeeding)
    await worker.fail(failing)
    await rest(store, time)
    assert await awake(store) == []
    page = await store.lists.list_runs(TENANT, RunFilter(queue="mail"))
    assert {(run.task, run.queue) for run in page.items} == {("greet", "mail")} and len(page.items) == 2
    assert (await store.reads.run(TENANT, succeeding.run_id)).queue == "mail"
    dead = await store.lists.list_dead_letters(TENANT, DeadFilter(queue="mail"))
    assert [letter.queue for letter in dead.items] == ["mail"]


Again = Callable[[Store, Time], Awaitable[object]]


async def _retried(store: Store, time: Time) -> object:
    worker = await hand(store, DAY)
    await submit(store, job(options=NO_RETRY))
    run = await worker.claim_one()
    await worker.fail(run)
    await rest(store, time)
    return await store.replay.retry_run(TENANT, run.run_id, NONCE)


async def _replayed(store: Store, time: Time) -> object:
    worker = await hand(store, DAY)
    await submit(store, job(options=NO_RETRY))
    await worker.fail(await worker.claim_one())
    await rest(store, time)
    return await store.replay.replay_dead_letters(TENANT, DeadFilter(), ReplayPace(), NONCE)


async def _rerun(store: Store, time: Time) -> object:
    worker = await hand(store, DAY)
    graph = NewGraph(new_id(), (NewNode("a", job(options=NO_RETRY)),))
    await store.graphs.submit_graph(TENANT, graph)
    await worker.fail(await worker.claim_one())
    while await store.graphs.settle(100):
        pass
    await rest(store, time)
    return await store.graphs.rerun_graph(TENANT, graph.id, NONCE)


async def _fired(store: Store, time: Time) -> object:
    await submit(store, job(Once(delay=HOUR)))
    await rest(store, time)
    time.advance(hours=1)
    return await fire(store)


async def _triggered(store: Store, time: Time) -> object:
    submitted = await submit(store, job(Every(DAY)))
    await rest(store, time)
    return await store.control.trigger_job(TENANT, submitted.job_id, NONCE)


async def _in_batch(store: Store, time: Time) -> object:
    await submit(store, job(Once(delay=HOUR)))
    await rest(store, time)
    return await submit(store, job(), job(Every(DAY), key="k"))


async def _at_a_time(store: Store, time: Time) -> object:
    worker = await hand(store, DAY)
    await submit(store, job(Once(at=time.now)))
    await worker.succeed(await worker.claim_one())
    await rest(store, time)
    return await submit(store, job(Once(at=time.now)))


@pytest.mark.parametrize("again", [_retried, _replayed, _rerun, _fired, _triggered, _in_batch, _at_a_time])
async def test_every_way_to_a_run_wakes_its_lane(store: Store, time: Time, again: Again) -> None:
    await again(store, time)
    assert await awake(store) == ["default"]
    assert await (await hand(store, DAY)).claim_one()


async def test_edits_move_waiting_runs_to_lanes_that_are_awake(store: Store, time: Time) -> None:
    worker = await hand(store, DAY)
    await submit(store, job(queue="mail"))
    await worker.succeed(await worker.claim_one())
    submitted = await submit(store, job(Every(HOUR)))
    time.advance(hours=1)
    await fire(store)
    await rest(store, time)
    assert await awake(store) == ["default"]
    await store.control.edit_job(TENANT, submitted.job_id, Changes(queue="mail"))
    (run,) = await worker.claim()
    lanes = {lane.id: lane.key.queue for lane in await store.claims.lanes()}
    assert (run.job_id, lanes[run.lane_id]) == (submitted.job_id, "mail")


async def _ready(store: Store) -> object:
    return await submit(store, job(queue="more"))


async def _bulk(store: Store) -> object:
    return await submit(store, *(job(queue=f"more{number}") for number in range(3)))


async def _later(store: Store) -> object:
    return await submit(store, job(Once(delay=HOUR), queue="more"))


async def _recurring(store: Store) -> object:
    return await submit(store, job(Every(HOUR), queue="more", key="k"))


async def _graph(store: Store) -> object:
    return await store.graphs.submit_graph(TENANT, NewGraph(new_id(), (NewNode("a", job(queue="more")),)))


async def _edit(store: Store) -> object:
    submitted = await submit(store, job(Every(HOUR)))
    return await store.control.edit_job(TENANT, submitted.job_id, Changes(queue="more"))


@pytest.mark.parametrize("ask", [_ready, _bulk, _later, _recurring, _graph, _edit])
async def test_new_work_in_one_lane_too_many_is_refused(
    world: World, store: Store, time: Time, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Store], Awaitable[object]]
) -> None:
    monkeypatch.setattr(store.context.lane_book, "most", 3)  # type: ignore[attr-defined]
    worker = await hand(store, DAY)
    await submit(store, job(), job(queue="a"), job(queue="b"))
    with pytest.raises(QuotaExceeded, match="3 lanes within a day") as refused:
        await ask(store)
    assert refused.value.remedy is not None and "lanes_per_tenant" in refused.value.remedy
    assert await world.rows_of("lanes") == 3
    await submit(store, job(), job(queue="a"))
    await submit(store, job(tenant_id=2), tenant_id=2)  # another tenant has lanes of its own
    await worker.succeed(*await worker.claim())
    await rest(store, time)
    with pytest.raises(QuotaExceeded):
        await ask(store)
    time.advance(days=2)
    await ask(store)


async def test_work_that_was_accepted_gets_its_lane(store: Store, time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many lanes its tenant has by then: it is fired, and may lose its worker."""
    monkeypatch.setattr(store.context.lane_book, "most", 2)  # type: ignore[attr-defined]
    await submit(store, job(Once(delay=3 * DAY), queue="once"))
    await rest(store, time)
    time.advance(days=2)
    await submit(store, job(queue="a"), job(queue="b"))
    time.advance(days=1)
    await fire(store)
    assert len(await (await hand(store)).claim()) == 3
    time.advance(seconds=31)
    assert await reap(store) == 3
    assert len(await (await hand(store)).claim()) == 3


async def test_lanes_that_nothing_speaks_of_any_more_are_removed_and_their_ids_not_used_again(
    world: World, store: Store, time: Time
) -> None:
    worker = await hand(store, 400 * DAY)
    await submit(store, job(queue="kept"), job(queue="dead", options=NO_RETRY), job(queue="gone"))
    runs = {lane.id: lane.key.queue for lane in await store.claims.lanes()}
    for run in await worker.claim():
        if runs[run.lane_id] == "dead":
            await worker.fail(run)
        elif runs[run.lane_id] == "gone":
            await worker.succeed(run)
    gone = next(lane_id for lane_id, queue in runs.items() if queue == "gone")
    await rest(store, time)
    time.advance(days=20)
    await store.claims.tidy_lanes()
    await store.pruning.prune(30 * DAY, 90 * DAY)
    assert await world.rows_of("lanes") == 3
    time.advance(days=73)
    await store.claims.tidy_lanes()
    await store.pruning.prune(30 * DAY, 365 * DAY)
    assert await world.rows_of("lanes") == 3
    await store.pruning.prune(30 * DAY, 60 * DAY)
    await store.pruning.prune(30 * DAY, 60 * DAY)
    assert await world.rows_of("lanes") == 1
    assert await awake(store) == ["kept"]
    await submit(store, job(queue="gone"))
    assert max(lane.id for lane in await store.claims.lanes()) > max(runs)
    assert gone not in {lane.id for lane in await store.claims.lanes()}


async def test_runs_in_a_lane_that_is_asleep_are_found(world: World, store: Store, time: Time) -> None:
    """Nothing stores a run there; if something has, it is found from the runs, within a minute."""
    await submit(store, job(), job(queue="mail"))
    (lane, _) = await store.claims.lanes()
    await world.put_to_sleep(lane.id)
    assert await awake(store) == ["mail"]
    await store.pruning.prune(30 * DAY, 90 * DAY)
    assert await awake(store) == ["default", "mail"]
    assert len(await (await hand(store)).claim()) == 2


async def test_a_claim_from_a_lane_that_is_not_there_brings_nothing(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    assert await store.claims.claim(worker.id, 1, [(999_999, 10)]) == []
    assert (await store.claims.look([999_999], 3)).sights == ()
    assert (await worker.claim_one()).fence == 1
