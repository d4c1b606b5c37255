"""Arguments and results have the types of the annotations, on every way to a task and back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from duetime import (
    App,
    Context,
    GraphPlan,
    InvalidInput,
    NotFound,
    PayloadMismatch,
    RunFailed,
    RunState,
    Settings,
    Snooze,
    SyncContext,
    Task,
)
from duetime.model.access import Role
from tests.support import typed_tasks
from tests.support.served import Served
from tests.support.typed_tasks import CASES, Line, Order, same
from tests.support.working import TIMEOUT, ended, remote_worker, working


@asynccontextmanager
async def running(app: App, served: Served, where: str) -> AsyncIterator[dict[str, Task[..., Any]]]:
    """A task of each type, and a worker."""
    made = {
        name: app.task(name=name, retries=0, process=where == "process")(typed_tasks.task_of(name)) for name in CASES
    }
    if where == "remote":
        async with remote_worker(app, served.url, await served.key(Role.WORKER)):
            yield made
    else:
        async with working(app, processes=1):
            yield made


@pytest.mark.parametrize("where", ["local", "remote", "process"])
async def test_values_arrive_and_return_as_they_were_given(app: App, served: Served, where: str) -> None:
    assert len(CASES) >= 25
    async with running(app, served, where) as made:
        receipts = await app.submit_many([made[name].bind(value=case.value) for name, case in CASES.items()])
        found = await asyncio.gather(*(receipt.result("60s") for receipt in receipts))
    wrong = {name: value for name, value in zip(CASES, found, strict=True) if not same(value, CASES[name].value)}
    assert wrong == {}


async def test_an_app_over_http_gets_the_same(app: App, served: Served) -> None:
    settings = Settings(url=served.url, key=await served.key(Role.OPERATOR))
    async with running(app, served, "remote"), App(settings=settings) as remote:
        made = {name: remote.task(name=name)(typed_tasks.task_of(name)) for name in CASES}
        receipts = await remote.submit_many([made[name].bind(value=case.value) for name, case in CASES.items()])
        found = await asyncio.gather(*(receipt.result("60s") for receipt in receipts))
    wrong = {name: value for name, value in zip(CASES, found, strict=True) if not same(value, CASES[name].value)}
    assert wrong == {}


async def test_values_travel_as_json_over_http(app: App, served: Served) -> None:
    jobs = [{"task": name, "args": {"value": case.json}} for name, case in CASES.items()]
    async with running(app, served, "remote"):
        answer = await served.post("/v1/jobs/batch", jobs)
        assert answer.status in (200, 201), answer.body
        made = [item["job"]["job_id"] for item in answer.json["items"]]
        await asyncio.gather(*(app.wait(job_id, TIMEOUT) for job_id in made))
        shown = [(await served.get(f"/v1/jobs/{job_id}/runs")).json["items"][0]["run_id"] for job_id in made]
        runs = [(await served.get(f"/v1/runs/{run_id}")).json for run_id in shown]
    assert {run["task"]: run["error"] for run in runs if run["status"] != "SUCCEEDED"} == {}
    assert {run["task"]: run["result"] for run in runs} == {name: case.json for name, case in CASES.items()}


async def test_blocking_code_gets_the_same(app: App) -> None:
    echo = app.task(name="order", retries=0)(typed_tasks.task_of("order"))
    async with working(app):
        receipt = await asyncio.to_thread(echo.sync.submit, value=CASES["order"].value)
        assert await asyncio.to_thread(receipt.result, TIMEOUT) == CASES["order"].value
        await asyncio.to_thread(app.sync.close)


@pytest.mark.parametrize("where", ["local", "remote", "thread", "process"])
async def test_a_payload_that_no_longer_fits_is_retried(app: App, served: Served, where: str) -> None:
    """As in a deployment: the job was stored when the parameter was still called differently."""
    before = App(settings=app.settings)
    if where == "process":
        changed = app.task(name="change", process=True, retries=1, retry={"base": 0.01})(typed_tasks.take_order)
    elif where == "thread":

        @app.task(name="change", retries=1, retry={"base": 0.01})
        def changed(order: Order) -> None: ...

    else:

        @app.task(name="change", retries=1, retry={"base": 0.01})
        async def changed(order: Order) -> None: ...

    @before.task(name="change", retries=1, retry={"base": 0.01})
    async def earlier(order: dict[str, Any]) -> None: ...

    with before.using_store(await app.store()):
        receipt = await earlier.submit(order={"id": "one", "at": "now", "total": "1", "lines": []})
    key = await served.key(Role.WORKER)
    async with remote_worker(app, served.url, key) if where == "remote" else working(app, processes=1):
        run = await ended(app, receipt)
    assert (run.state, run.attempt) == (RunState.FAILED, 2)
    assert run.error is not None
    first = run.error.splitlines()[0]
    assert first.startswith("duetime.errors.PayloadMismatch: args.order.id: does not fit change: expected int, got str")
    assert changed.definition.arguments is not None
    with pytest.raises(PayloadMismatch) as caught:
        changed.definition.decode(run.args)
    assert (caught.value.task, caught.value.path) == ("change", "args.order.id")
    assert (caught.value.found, caught.value.expected) == ("str", "int")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("three", "result: expected int, got str"),
        (None, "result: expected int, got None"),
        (2**70, "result: the integer does not fit in 64 bits"),
    ],
)
async def test_a_result_that_does_not_fit_fails_the_attempt(app: App, value: Any, told: str) -> None:
    @app.task(retries=0)
    async def count() -> int:
        return value  # type: ignore[no-any-return]

    async with working(app):
        receipt = await count.submit()
        with pytest.raises(RunFailed, match=told):
            await receipt.result(TIMEOUT)


async def test_a_result_that_was_too_large_is_not_taken_for_another(app: App) -> None:
    @app.task(retries=0)
    async def write() -> str:
        return "x" * 100_000

    async with working(app):
        receipt = await write.submit()
        assert (await ended(app, receipt)).state is RunState.SUCCEEDED
        with pytest.raises(PayloadMismatch, match="result"):
            await receipt.result(TIMEOUT)


async def test_a_task_may_return_a_signal_in_place_of_its_result(app: App) -> None:
    @app.task(retries=0)
    async def wait(ctx: Context) -> int | Snooze:
        if ctx.last_checkpoint is None:
            await ctx.checkpoint(1)
            return Snooze(0)
        return 3

    async with working(app):
        assert await (await wait.submit()).result(TIMEOUT) == 3


async def test_parents_give_their_results_by_task(app: App) -> None:
    @app.task(name="fetch")
    async def fetch(name: str) -> Line:
        return Line(name)

    @app.task(name="merge")
    async def merge(ctx: Context) -> list[Line]:
        return [await ctx.result_of(fetch, "one"), await ctx.result_of(fetch, "two")]

    @app.task(name="report")
    def report(ctx: SyncContext) -> str:
        return ", ".join(line.name for line in ctx.result_of(merge))

    @app.task(name="confused")
    async def confused(ctx: Context) -> list[str]:
        found = []
        for task, node in ((fetch, None), (report, None), (fetch, "three")):
            try:
                await ctx.result_of(task, node)
            except (InvalidInput, NotFound) as error:
                found.append(str(error))
        return found

    plan = GraphPlan()
    plan.add("one", fetch.bind(name="tea")).add("two", fetch.bind(name="cup"))
    plan.add("merge", merge, depends_on=["one", "two"]).add("report", report, depends_on=["merge"])
    plan.add("confused", confused, depends_on=["one", "two"])
    async with working(app):
        graph = await app.submit_graph(plan)
        await app.wait_graph(graph, TIMEOUT)
        ends = {node.name: await app.run(node.run_id) for node in (await app.graph(graph)).nodes if node.run_id}
    assert ends["report"].value == "tea, cup"
    several, none, other = ends["confused"].value
    assert several == "node: 2 parents of this run ran fetch (name one of 'one', 'two')"
    assert none == "task: no parent of this run ran report (its parents: one (fetch), two (fetch))"
    assert other.startswith("task: no parent of this run ran fetch as 'three'")


async def test_a_process_reads_the_results_of_its_parents(app: App) -> None:
    fetch = app.task(name="fetch_line")(typed_tasks.fetch_line.function)
    read = app.task(name="read_line", process=True, retries=0)(typed_tasks.read_line)
    plan = GraphPlan().add("fetch", fetch.bind(name="tea")).add("read", read, depends_on=["fetch"])
    async with working(app, processes=1):
        graph = await app.wait_graph(await app.submit_graph(plan), TIMEOUT)
        ends = {node.name: await app.run(node.run_id) for node in graph.nodes if node.run_id}
    assert (ends["read"].state, ends["read"].value) == (RunState.SUCCEEDED, "tea")


async def test_a_waiting_job_gets_a_new_default(app: App) -> None:
    before = App(settings=app.settings)

    @before.task(name="send")
    async def earlier(to: str, copies: int = 1) -> int:
        return copies

    @app.task(name="send")
    async def send(to: str, copies: int = 2) -> int:
        return copies

    with before.using_store(await app.store()):
        receipt = await earlier.submit(to="x")
    async with working(app):
        run = await ended(app, receipt)
    assert (run.arguments, run.value) == ({"to": "x"}, 2)


async def test_an_edit_checks_arguments_too(app: App) -> None:
    @app.task
    async def report(day: datetime) -> None: ...

    receipt = await report.options(run_in="1h").submit(day=datetime(2026, 1, 2, tzinfo=UTC))
    with pytest.raises(InvalidInput, match=r"args.day: expected datetime, got str"):
        await app.edit(receipt, args=report.bind(day="tomorrow"))
    await app.edit(receipt, args=report.bind(day=datetime(2026, 1, 3, tzinfo=UTC)))
    assert (await app.job(receipt)).args == b'{"day":"2026-01-03T00:00:00Z"}'
