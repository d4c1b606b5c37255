"""Graphs as a whole: stored, read, listed, cancelled, run again; and chains of jobs that run after each other."""

from datetime import timedelta
from uuid import UUID

import msgspec
import pytest

from duetime.errors import Conflict, InvalidInput, KeyReused, LeaseLost, NotFound
from duetime.ids import new_id, show
from duetime.model.dependency import Wanted
from duetime.model.graph import Graph, GraphStatus, NewGraph, NewNode
from duetime.model.job import JobState
from duetime.model.lists import DeadFilter, ReplayPace
from duetime.model.run import RunState
from duetime.model.schedule import After, Every, make_after
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, Hand, cancelled, fire, hand, job, submit
from tests.contract.worlds import Time

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def graph(*nodes: tuple[str, str], key: str | None = None) -> NewGraph:
    """Nodes as (name, parents), each parent one letter."""
    names = [name for name, _ in nodes]
    made = [NewNode(name, job(), tuple(names.index(parent) for parent in parents)) for name, parents in nodes]
    return NewGraph(new_id(), tuple(made), "nightly", key, b"f")


DIAMOND = (("a", ""), ("b", "a"), ("c", "a"), ("d", "bc"))


async def settle(store: Store) -> None:
    while await store.graphs.settle(100):
        pass


def states(found: Graph) -> dict[str, str]:
    return {node.name: node.state.name for node in found.nodes}


async def test_a_graph_is_read_back(store: Store, time: Time) -> None:
    made = graph(*DIAMOND)
    found = await store.graphs.submit_graph(TENANT, made)
    assert found.created and found == await store.graphs.graph(TENANT, made.id)
    assert states(found) == {"a": "PENDING", "b": "BLOCKED", "c": "BLOCKED", "d": "BLOCKED"}
    assert found.edges == ((0, 1), (0, 2), (1, 3), (2, 3))
    worker = await hand(store, DAY)
    run = await worker.claim_one()
    assert states(await store.graphs.graph(TENANT, made.id))["a"] == "RUNNING"
    time.advance(seconds=7)
    await worker.succeed(run, result=b'"from a"')
    seen = await store.graphs.graph(TENANT, made.id)
    assert states(seen)["a"] == "SUCCEEDED", "also before it is handed on"
    await settle(store)
    second = await worker.claim()
    assert {item.job_id for item in second} == {made.nodes[1].job.id, made.nodes[2].job.id}
    await worker.succeed(*second)
    await settle(store)
    last = await worker.claim_one()
    parents = await store.graphs.held_parents(worker.id, last.run_id)
    assert sorted((item.name, item.state) for item in parents) == [
        ("b", RunState.SUCCEEDED),
        ("c", RunState.SUCCEEDED),
    ]
    first_page = await store.graphs.held_parents(worker.id, last.run_id, None, 1)
    assert (
        list(first_page) + list(await store.graphs.held_parents(worker.id, last.run_id, first_page[0].job_id))
        == parents
    )
    with pytest.raises(LeaseLost):
        await store.graphs.held_parents(new_id(), last.run_id)
    await worker.succeed(last)
    await settle(store)
    over = await store.graphs.graph(TENANT, made.id)
    assert (over.item.status, over.item.ended_at, over.item.nodes) == (GraphStatus.SUCCEEDED, time.now, 4)
    node = over.nodes[0]
    assert node.started_at is not None and node.finished_at == node.started_at + timedelta(seconds=7)


async def test_a_graph_of_another_tenant_is_none(store: Store) -> None:
    made = await store.graphs.submit_graph(TENANT, graph(*DIAMOND))
    for asking in (store.graphs.graph, store.graphs.cancel_graph):
        with pytest.raises(NotFound):
            await asking(STRANGER, made.item.id)
    with pytest.raises(NotFound):
        await store.graphs.rerun_graph(STRANGER, made.item.id, b"n")
    with pytest.raises(NotFound):
        await store.graphs.parents(STRANGER, made.nodes[0].run_id)
    assert (await store.graphs.list_graphs(STRANGER)).items == ()


async def test_graphs_are_listed_newest_first(store: Store) -> None:
    made = [(await store.graphs.submit_graph(TENANT, graph(("a", "")))).item.id for _ in range(5)]
    first = await store.graphs.list_graphs(TENANT, None, 3)
    rest = await store.graphs.list_graphs(TENANT, first.next, 3)
    assert [item.id for item in (*first.items, *rest.items)] == made[::-1]
    assert rest.next is None


async def test_an_idempotency_key_answers_the_same_graph(store: Store) -> None:
    made = await store.graphs.submit_graph(TENANT, graph(*DIAMOND, key="k"))
    again = await store.graphs.submit_graph(TENANT, graph(*DIAMOND, key="k"))
    assert (again.item.id, again.created) == (made.item.id, False)
    assert (await store.reads.counts()).runs == 4
    with pytest.raises(KeyReused):
        await store.graphs.submit_graph(TENANT, msgspec.structs.replace(graph(*DIAMOND, key="k"), fingerprint=b"other"))


async def test_an_idempotency_key_is_kept_while_its_graph_runs(store: Store, time: Time) -> None:
    made = await store.graphs.submit_graph(TENANT, graph(("a", ""), key="k"))
    for _ in range(2):
        time.advance(hours=25)
        await store.pruning.prune(30 * DAY, 30 * DAY, idempotency_retention=DAY)
        again = await store.graphs.submit_graph(TENANT, graph(("a", ""), key="k"))
        assert (again.item.id, again.created) == (made.item.id, False)
    await work_off(store, await hand(store))
    await store.pruning.prune(30 * DAY, 30 * DAY, idempotency_retention=DAY)
    assert (await store.graphs.submit_graph(TENANT, graph(("a", ""), key="k"))).created


async def test_a_graph_is_cancelled(store: Store) -> None:
    made = await store.graphs.submit_graph(TENANT, graph(*DIAMOND))
    worker = await hand(store, DAY)
    run = await worker.claim_one()
    cancelled = await store.graphs.cancel_graph(TENANT, made.item.id)
    assert states(cancelled) == {"a": "RUNNING", "b": "CANCELLED", "c": "CANCELLED", "d": "CANCELLED"}
    assert await store.leases.cancellations(worker.id) == (run.run_id,)
    await worker.retry(run)
    await settle(store)
    over = await store.graphs.graph(TENANT, made.item.id)
    assert set(states(over).values()) == {"CANCELLED"} and over.item.status is GraphStatus.CANCELLED
    assert await worker.claim() == []


async def test_a_graph_runs_again_from_where_it_failed(store: Store) -> None:
    made = await store.graphs.submit_graph(TENANT, graph(("a", ""), ("b", "a"), ("c", "a"), ("d", "b"), ("e", "")))
    worker = await hand(store, DAY)
    with pytest.raises(Conflict):
        await store.graphs.rerun_graph(TENANT, made.item.id, b"n")
    await worker.succeed(*await worker.claim())
    await settle(store)
    for run in await worker.claim():
        await (worker.fail(run) if run.job_id == made.nodes[1].job_id else worker.succeed(run))
    await settle(store)
    failed = await store.graphs.graph(TENANT, made.item.id)
    assert states(failed) == {"a": "SUCCEEDED", "b": "FAILED", "c": "SUCCEEDED", "d": "CANCELLED", "e": "SUCCEEDED"}
    assert failed.item.status is GraphStatus.FAILED
    again = await store.graphs.rerun_graph(TENANT, made.item.id, b"n")
    assert states(again) == {"a": "SUCCEEDED", "b": "PENDING", "c": "SUCCEEDED", "d": "BLOCKED", "e": "SUCCEEDED"}
    assert (again.item.status, again.item.ended_at) == (GraphStatus.RUNNING, None)
    assert (await store.lists.list_dead_letters(TENANT, DeadFilter())).items == ()
    run = await worker.claim_one()
    repeated = await store.reads.run(TENANT, run.run_id)
    assert repeated.replays == show("run", failed.nodes[1].run_id)
    await worker.succeed(run)
    await settle(store)
    await worker.succeed(await worker.claim_one())
    await settle(store)
    assert (await store.graphs.graph(TENANT, made.item.id)).item.status is GraphStatus.SUCCEEDED
    with pytest.raises(Conflict):
        await store.graphs.rerun_graph(TENANT, made.item.id, b"n")


async def work_off(store: Store, worker: Hand) -> list[UUID]:
    """Succeed in what can run until nothing is left; the jobs in the order in which they ran."""
    order = []
    await settle(store)
    while runs := await worker.claim():
        order += [run.job_id for run in runs]
        await worker.succeed(*runs)
        await settle(store)
    return order


async def test_a_graph_that_was_just_cancelled_runs_again(store: Store) -> None:
    made = await store.graphs.submit_graph(TENANT, graph(*DIAMOND))
    await store.graphs.cancel_graph(TENANT, made.item.id)
    again = await store.graphs.rerun_graph(TENANT, made.item.id, b"n")
    assert states(again) == {"a": "PENDING", "b": "BLOCKED", "c": "BLOCKED", "d": "BLOCKED"}
    assert len(await work_off(store, await hand(store))) == 4
    over = await store.graphs.graph(TENANT, made.item.id)
    assert set(states(over).values()) == {"SUCCEEDED"} and over.item.status is GraphStatus.SUCCEEDED


async def test_a_graph_runs_again_whose_failure_is_not_handed_on_yet(store: Store) -> None:
    made = await store.graphs.submit_graph(TENANT, graph(("a", ""), ("b", "a"), ("c", "b")))
    worker = await hand(store)
    await worker.fail(await worker.claim_one())
    again = await store.graphs.rerun_graph(TENANT, made.item.id, b"n")
    assert states(again) == {"a": "PENDING", "b": "BLOCKED", "c": "BLOCKED"}
    assert await work_off(store, worker) == [node.job_id for node in made.nodes]
    assert (await store.graphs.graph(TENANT, made.item.id)).item.status is GraphStatus.SUCCEEDED


async def test_a_parent_whose_success_is_not_handed_on_yet_counts_once(store: Store) -> None:
    made = await store.graphs.submit_graph(TENANT, graph(("a", ""), ("b", ""), ("c", "ab")))
    worker = await hand(store)
    first, second = sorted(await worker.claim(), key=lambda run: run.job_id)
    await worker.succeed(first)
    await store.graphs.cancel_graph(TENANT, made.item.id)
    await worker.complete(cancelled(second))
    await store.graphs.rerun_graph(TENANT, made.item.id, b"n")
    assert await work_off(store, worker) == [made.nodes[1].job_id, made.nodes[2].job_id]


async def test_a_node_that_is_replayed_alone_is_not_run_again_with_the_rest(store: Store) -> None:
    made = await store.graphs.submit_graph(TENANT, graph(("a", ""), ("b", "a")))
    worker = await hand(store, DAY)
    await worker.fail(await worker.claim_one())
    await settle(store)
    await store.replay.replay_dead_letters(TENANT, DeadFilter(), ReplayPace(), b"n")
    await worker.succeed(await worker.claim_one())
    await settle(store)
    assert states(await store.graphs.graph(TENANT, made.item.id)) == {"a": "SUCCEEDED", "b": "CANCELLED"}
    await store.graphs.rerun_graph(TENANT, made.item.id, b"n")
    assert (await worker.claim_one()).job_id == made.nodes[1].job_id


async def test_what_is_kept_of_a_graph_ends_with_its_retention(store: Store, time: Time) -> None:
    made = await store.graphs.submit_graph(TENANT, graph(*DIAMOND))
    await store.graphs.cancel_graph(TENANT, made.item.id)
    await settle(store)
    live = await store.graphs.submit_graph(TENANT, graph(*DIAMOND))
    time.advance(days=40)
    for _ in range(3):
        await store.pruning.prune(timedelta(days=30), timedelta(days=90))
    with pytest.raises(NotFound):
        await store.graphs.graph(TENANT, made.item.id)
    assert len((await store.graphs.graph(TENANT, live.item.id)).edges) == 4


async def follow(store: Store, parent: UUID, on: str = "success") -> UUID:
    return (await submit(store, job(make_after(parent, on), task="count"))).job_id


@pytest.mark.parametrize(("on", "made"), [("success", 2), ("failure", 1), ("any", 3)])
async def test_a_job_runs_after_each_run_of_another(store: Store, time: Time, on: str, made: int) -> None:
    parent = await submit(store, job(Every(HOUR)))
    chained = await follow(store, parent.job_id, on)
    worker = await hand(store, DAY)
    for good in (True, False, True):
        time.advance(hours=1)
        await fire(store)
        (run,) = [item for item in await worker.claim() if item.job_id == parent.job_id]
        await (worker.succeed(run, result=b"1") if good else worker.fail(run))
        await settle(store)
    runs = await store.reads.runs_of_job(TENANT, chained)
    assert len(runs) == made
    (cause,) = await store.graphs.parents(TENANT, runs[0].id)
    assert cause.job_id == parent.job_id and cause.state is not None
    job_now = await store.reads.job(TENANT, chained)
    assert (job_now.made, job_now.state, job_now.schedule) == (made, JobState.ACTIVE, After(job=parent.job_id, on=on))  # type: ignore[arg-type]


async def test_chains_go_on(store: Store, time: Time) -> None:
    first = await submit(store, job(Every(HOUR)))
    second = await follow(store, first.job_id)
    third = await follow(store, second)
    worker = await hand(store, DAY)
    time.advance(hours=1)
    await fire(store)
    order = []
    for _ in range(3):
        run = await worker.claim_one()
        order.append(run.job_id)
        await worker.succeed(run)
        await settle(store)
    assert order == [first.job_id, second, third]
    assert await worker.claim() == []


async def test_a_chained_job_is_paused_and_resumed(store: Store, time: Time) -> None:
    parent = await submit(store, job(Every(HOUR)))
    chained = await follow(store, parent.job_id)
    worker = await hand(store, DAY)
    await store.control.pause_job(TENANT, chained)
    for paused in (True, False):
        time.advance(hours=1)
        await fire(store)
        await worker.succeed(await worker.claim_one())
        await settle(store)
        assert [run.job_id for run in await worker.claim()] == ([] if paused else [chained])
        if paused:
            await store.control.resume_job(TENANT, chained)
    found = await store.reads.job(TENANT, chained)
    assert (found.made, found.missed) == (1, 1)
    await store.control.cancel_job(TENANT, chained)
    assert (await store.reads.job(TENANT, chained)).state is JobState.CANCELLED


async def test_a_chain_needs_a_job_that_may_run(store: Store) -> None:
    worker = await hand(store)
    over = await submit(store, job())
    await worker.succeed(await worker.claim_one())
    for parent in (over.job_id, new_id()):
        with pytest.raises(InvalidInput) as refused:
            await follow(store, parent)
        assert refused.value.field == "after.job"


async def test_what_a_job_runs_after_cannot_be_edited(store: Store) -> None:
    one, two = await submit(store, job(Every(HOUR))), await submit(store, job(Every(HOUR)))
    await submit(store, job(make_after(one.job_id, "any"), key="k"))
    with pytest.raises(InvalidInput):
        await submit(store, job(make_after(two.job_id, "any"), key="k"))
    again = await submit(store, job(make_after(one.job_id, "any"), key="k", args=b'{"n":1}'))
    assert not again.created
    assert (await store.reads.job(TENANT, again.job_id)).args == b'{"n":1}'


async def test_a_chained_one_off_runs_once(store: Store) -> None:
    parent = await submit(store, job())
    chained = await follow(store, parent.job_id, "any")
    worker = await hand(store)
    await worker.succeed(await worker.claim_one())
    await settle(store)
    assert (await worker.claim_one()).job_id == chained


def test_finished_means_any_end() -> None:
    assert [state for state in RunState if Wanted.FINISHED.is_met(state)] == [s for s in RunState if s.is_end]
