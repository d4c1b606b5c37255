"""Graphs at work: loops and workers of all kinds, results from parents to children, and the same app over HTTP."""

import asyncio

import asyncpg
import pytest

from duetime import App, Context, GraphPlan, GraphStatus, InvalidInput, Needs, RetryPolicy, RunState, SyncContext
from duetime.ids import show
from duetime.model.access import Role
from duetime.node.assembly import engine_loops
from duetime.sdk.remote_jobs import RemoteJobs
from tests.integration.test_remote import remote_worker
from tests.support import tasks
from tests.support.caller_connections import dsn
from tests.support.served import Served
from tests.support.working import TIMEOUT, ended, working


async def test_children_read_the_results_of_their_parents_wherever_they_run(app: App) -> None:
    @app.task
    async def number(n: int) -> int:
        return n

    @app.task
    async def on_the_loop(ctx: Context) -> int:
        return sum(parent.value for parent in await ctx.parents())

    @app.task
    def in_a_thread(ctx: SyncContext) -> list[str]:
        return sorted(f"{parent.name}={parent.value}" for parent in ctx.parents())

    in_a_process = app.task(process=True)(tasks.names_of_parents)
    plan = GraphPlan("numbers")
    for n in range(3):
        plan.add(f"n{n}", number.bind(n=n))
    names = ["n0", "n1", "n2"]
    plan.add("sum", on_the_loop, depends_on=names)
    plan.add("words", in_a_thread, depends_on=names)
    plan.add("rows", in_a_process, depends_on=[*names, "sum"])
    async with working(app):
        graph = await app.wait_graph(await app.submit_graph(plan), TIMEOUT)
    assert graph.status is GraphStatus.SUCCEEDED
    values = {node.name: (await app.run(node.run_id)).value for node in graph.nodes}
    assert values["sum"] == 3
    assert values["words"] == ["n0=0", "n1=1", "n2=2"]
    assert values["rows"] == [["n0", 0], ["n1", 1], ["n2", 2], ["sum", 3]]


async def test_a_graph_fails_and_runs_again_from_there(app: App) -> None:
    broken = True

    @app.task(retry=RetryPolicy(retries=1, base=0.01))
    async def maybe() -> str:
        if broken:
            raise ValueError("not today")
        return "done"

    @app.task
    async def fine() -> None: ...

    plan = GraphPlan().add("first", fine).add("second", maybe, depends_on=["first"])
    plan.add("third", fine, depends_on=["second"])
    plan.add("always", fine, depends_on=Needs(["second"], on="finished"))
    async with working(app):
        graph = await app.wait_graph(await app.submit_graph(plan), TIMEOUT)
        assert [graph.node(name).state.name for name in ("first", "second", "third", "always")] == [
            "SUCCEEDED",
            "FAILED",
            "CANCELLED",
            "SUCCEEDED",
        ]
        assert graph.status is GraphStatus.FAILED
        broken = False
        again = await app.wait_graph(await app.rerun_graph(graph), TIMEOUT)
    assert again.status is GraphStatus.SUCCEEDED
    assert again.node("first").run_id == graph.node("first").run_id
    assert (await app.run(again.node("second").run_id)).replays == show("run", graph.node("second").run_id)


async def test_one_job_after_another_and_a_chain(app: App) -> None:
    @app.task
    async def greet(to: str = "you") -> str:
        return f"hello {to}"

    @app.task
    async def answer(ctx: Context) -> str:
        (parent,) = await ctx.parents()
        return f"{parent.value}, and you"

    async with working(app):
        first = await greet.submit(to="ann")
        run = await ended(app, await answer.options(depends_on=[first]).submit())
        assert run.value == "hello ann, and you"
        hourly = await greet.schedule(every="1h")
        chained = await app.schedule(answer, after={"job": hourly, "on": "any"})
        await app.trigger(hourly)
        assert (await ended(app, chained)).value == "hello you, and you"


async def test_a_run_that_completes_itself_is_handed_on(postgres_app: App) -> None:
    app = postgres_app

    @app.task(retries=0)
    async def pay(ctx: Context) -> None:
        connection = await asyncpg.connect(dsn(app))
        try:
            async with connection.transaction():
                await ctx.complete(connection, result="paid")
        finally:
            await connection.close()

    @app.task
    async def thank(ctx: Context) -> str:
        (parent,) = await ctx.parents()
        return str(parent.value)

    async with working(app):
        paid = await pay.submit()
        assert (await ended(app, await thank.options(depends_on=[paid]).submit())).value == "paid"


async def test_a_remote_worker_reads_the_results_of_parents(app: App, served: Served) -> None:
    @app.task
    async def number(n: int) -> dict[str, int]:
        return {"n": n}

    @app.task
    async def total(ctx: Context) -> int:
        return sum(parent.value["n"] for parent in await ctx.parents())

    plan = GraphPlan()
    for n in range(105):
        plan.add(f"n{n}", number.bind(n=n))
    plan.add("total", total, depends_on=[f"n{n}" for n in range(105)])
    loops = engine_loops(await app.store(), app.settings)
    running = [asyncio.create_task(loop.run()) for loop in loops]
    async with remote_worker(app, served):
        graph = await app.wait_graph(await app.submit_graph(plan), TIMEOUT)
    for loop in loops:
        loop.stop()
    await asyncio.gather(*running)
    assert (await app.run(graph.node("total").run_id)).value == 105 * 104 // 2, "more than one page of them"


async def test_an_app_reaches_its_graphs_over_http(app: App, served: Served) -> None:
    @app.task
    async def fine() -> None: ...

    remote = RemoteJobs(served.url, await served.key(Role.ADMIN))
    local = await app.submit_graph(GraphPlan("g").add("a", fine).add("b", fine, depends_on=Needs(["a"], need="any")))
    try:
        assert await remote.graph(local.id) == await app.graph(local)
        cancelled = await remote.cancel_graph(local.id)
        assert {node.state for node in cancelled.nodes} == {RunState.CANCELLED}
        while await (await app.store()).graphs.settle(10):
            pass
        again = await remote.rerun_graph(local.id)
        assert [node.state.name for node in again.nodes] == ["PENDING", "BLOCKED"]
    finally:
        await remote.close()


async def test_what_is_no_graph_is_refused(app: App) -> None:
    @app.task
    async def fine() -> None: ...

    circle = GraphPlan().add("a", fine, depends_on=["b"]).add("b", fine, depends_on=["a"])
    for plan, words in (
        (circle, "a → b → a"),
        (GraphPlan().add("a", fine, depends_on=["x"]), "not a node"),
        (GraphPlan(), "0 nodes"),
        (GraphPlan().add("a", fine, key="k"), "own key"),
        (GraphPlan().add("a", fine, nonsense=1), "nodes.a"),  # type: ignore[call-arg]
    ):
        with pytest.raises(InvalidInput, match=words):
            await app.submit_graph(plan)
    with pytest.raises(InvalidInput, match="already"):
        GraphPlan().add("a", fine).add("a", fine)
    for wrong in ("job_x", 5, Needs([], need="most")):  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            await fine.options(depends_on=wrong).submit()
    recurring = await fine.schedule(every="1h")
    with pytest.raises(InvalidInput, match="is recurring"):
        await fine.options(depends_on=[recurring]).submit()
    for after in ({"on": "any"}, {"job": recurring, "on": "never"}, 7):
        with pytest.raises(InvalidInput):
            await app.schedule(fine, after=after)  # type: ignore[arg-type]
