"""Traces, assembled from what an exporter in memory was given."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from duetime import App, Settings
from duetime.clock import ManualClock
from duetime.engine.scanner import Scanner
from duetime.ids import parse
from duetime.model.job import Options, encode_options
from duetime.node.assembly import make_worker
from duetime.store.address import open_ready, store_in_memory
from duetime.store.protocol.store import Store
from duetime.store.wrappers.observed import StoreObserver, observed
from duetime.telemetry.meters import Meters
from duetime.telemetry.traces import Tracer, current_headers, is_traceparent, make_tracer
from duetime.worker.context import current_context
from duetime.worker.store_source import StoreSource
from tests.contract.hands import hand, job, submit
from tests.support.served import served
from tests.support.waiting import eventually
from tests.support.working import quick_settings

SETTINGS = Settings(traces="on", poll=timedelta(milliseconds=20), processes=1)
_exporter = InMemorySpanExporter()


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    """What the application's own provider exports: duetime takes the one that is there."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(_exporter))
        trace.set_tracer_provider(provider)
    _exporter.clear()
    yield _exporter
    _exporter.clear()


class World:
    """An app, its store, and a clock that the test moves."""

    def __init__(self, app: App, store: Store, clock: ManualClock, tracer: Tracer) -> None:
        self.app, self.store, self.clock, self.tracer = app, store, clock, tracer

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        worker = make_worker(self.app, StoreSource(self.store), SETTINGS, tracer=self.tracer)
        running = asyncio.create_task(worker.run())
        try:
            yield
        finally:
            worker.stop()
            await running


@pytest.fixture
async def world(exported: InMemorySpanExporter) -> AsyncIterator[World]:
    clock, tracer, app = ManualClock(), make_tracer(), App(settings=SETTINGS)
    store = observed(store_in_memory(clock), StoreObserver(Meters(), tracer))
    await open_ready(store)
    with app.using_store(store):
        yield World(app, store, clock, tracer)
    await store.close()


def named(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    (found,) = [span for span in spans if span.name == name]
    return found


def ids(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


async def test_one_trace_from_the_submitter_to_what_the_task_calls(
    world: World, exported: InMemorySpanExporter
) -> None:
    sent: dict[str, Any] = {}
    mine = trace.get_tracer("shop")

    @world.app.task(name="pay")
    async def pay() -> None:
        sent["own"] = current_context().traceparent
        with mine.start_as_current_span("call the bank"):
            sent["header"] = current_headers()["traceparent"]

    with mine.start_as_current_span("checkout") as checkout:
        submitted = await world.app.submit("pay", run_in="1h", queue="money")
    world.clock.advance(minutes=60)
    await Scanner(world.store).tick()
    async with world.working():
        await world.app.wait(submitted, "20s")
    spans = exported.get_finished_spans()
    names = ["call the bank", "checkout", "fire money", "process money", "receive money", "send money"]
    assert sorted(span.name for span in spans) == names
    whole = checkout.get_span_context().trace_id
    assert {ids(span)[0] for span in spans} == {whole}, "it is one trace"

    send, fire, receive, process, call = (
        named(spans, name) for name in ("send money", "fire money", "receive money", "process money", "call the bank")
    )
    assert send.parent is not None and send.parent.span_id == checkout.get_span_context().span_id
    for span in (fire, receive, process):
        assert span.parent is not None and span.parent.span_id == ids(send)[1], span.name
    assert call.parent is not None and call.parent.span_id == ids(process)[1]
    assert sent["own"].split("-")[1:3] == [f"{whole:032x}", f"{ids(process)[1]:016x}"]
    assert sent["header"].split("-")[1:3] == [f"{whole:032x}", f"{ids(call)[1]:016x}"]
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert process.attributes is not None
    assert process.attributes["messaging.system"] == "duetime"
    assert process.attributes["messaging.operation.type"] == "process"
    assert process.attributes["messaging.destination.name"] == "money"
    assert str(process.attributes["messaging.message.id"]).startswith("run_")
    assert process.attributes["duetime.attempt"] == 1 and process.status.status_code is StatusCode.UNSET


async def test_occurrences_have_traces_of_their_own(world: World, exported: InMemorySpanExporter) -> None:
    @world.app.task(name="tick")
    async def tick() -> None:
        pass

    with trace.get_tracer("shop").start_as_current_span("deploy"):
        job = await world.app.schedule("tick", every="1m")
    async with world.working():
        for _ in range(2):
            world.clock.advance(minutes=1)
            await Scanner(world.store).tick()
            await world.app.wait(job, "20s")

        async def both() -> bool:
            return len([span for span in exported.get_finished_spans() if span.name.startswith("process")]) == 2

        await eventually(both)
    spans = exported.get_finished_spans()
    runs = {parse("run", str(span.attributes["messaging.message.id"])).int for span in spans if "process" in span.name}
    assert len(runs) == 2
    for name in ("fire", "receive", "process"):
        of_kind = [span for span in spans if span.name == f"{name} default"]
        assert {ids(span)[0] for span in of_kind} >= runs, "the id of the trace is that of the run"
        for span in of_kind:
            assert [link.context.span_id for link in span.links] == [ids(named(spans, "send default"))[1]]


async def test_a_failure_is_told(world: World, exported: InMemorySpanExporter) -> None:
    @world.app.task(name="bad", retries=0)
    async def bad() -> None:
        raise ValueError("no such account")

    job = await world.app.submit("bad")
    async with world.working():
        await world.app.wait(job, "20s")
    span = named(exported.get_finished_spans(), "process default")
    assert span.status.status_code is StatusCode.ERROR and "no such account" in str(span.status.description)
    assert span.attributes is not None and span.attributes["error.type"] == "error"


async def test_threads_and_processes_know_their_trace(world: World, exported: InMemorySpanExporter) -> None:
    thread = world.app.task(name="thread")(say_traceparent)
    process = world.app.task(name="process", process=True)(say_traceparent)
    jobs = [await world.app.submit(task) for task in (thread, process)]
    async with world.working():
        said = [(await world.app.wait(job, "30s")).value for job in jobs]
    spans = [span for span in exported.get_finished_spans() if span.name == "process default"]
    assert {text.split("-")[2] for text in said} == {f"{ids(span)[1]:016x}" for span in spans}


def say_traceparent() -> str | None:
    return current_context().traceparent


async def test_the_same_request_in_another_trace_is_the_same(world: World) -> None:
    @world.app.task(name="once")
    async def once() -> None:
        pass

    answers = []
    for name in ("first", "second"):
        with trace.get_tracer("shop").start_as_current_span(name):
            answers.append(await world.app.submit("once", idempotency_key="k", run_in="1h"))
    assert answers[0].job_id == answers[1].job_id


async def test_runs_of_a_lane_that_was_not_read_yet_are_claimed_all_the_same(
    world: World, exported: InMemorySpanExporter
) -> None:
    """As of a worker that repeats its claim to a server that has just started."""
    lanes = [lane.id for lane in await world.store.claims.lanes()]
    submitted = await submit(world.store, job(options=encode_options(Options(name="seen"))))
    worker = await hand(world.store)
    (lane_id,) = {lane.id for lane in await world.store.claims.lanes()} - set(lanes)
    just_started = observed(world.store, StoreObserver(Meters(), world.tracer))
    (run,) = await just_started.claims.claim(worker.id, 1, [(lane_id, 1)])
    assert run.job_id == submitted.job_id


async def test_a_trace_that_comes_over_http(database_url: str, exported: InMemorySpanExporter) -> None:
    theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with served(database_url) as api:
        api.service.tracer = tracer = make_tracer()
        for body in ({"task": "t"}, [{"task": "t"}, {"task": "t", "every": "1h"}]):
            path = "/v1/jobs/batch" if isinstance(body, list) else "/v1/jobs"
            assert (await api.post(path, body, headers={"traceparent": theirs})).status in (200, 201)
        assert (await api.post("/v1/jobs", {"task": "t"}, headers={"traceparent": "00-nonsense-01"})).status == 201
        app = App(settings=quick_settings(database_url))
        done = []

        @app.task(name="t")
        async def t() -> None:
            done.append(current_context().traceparent)

        store = observed(api.store, StoreObserver(Meters(), tracer))
        with app.using_store(store):
            worker = make_worker(app, StoreSource(store), app.settings, tracer=tracer)
            running = asyncio.create_task(worker.run())

            async def all_done() -> bool:
                return len(done) == 3

            await eventually(all_done)
            worker.stop()
            await running
    spans = exported.get_finished_spans()
    sends = [span for span in spans if span.name == "send default"]
    assert [ids(span)[0] == int(theirs.split("-")[1], 16) for span in sends] == [True, True, False]
    assert sends[0].parent is not None and f"{sends[0].parent.span_id:016x}" == theirs.split("-")[2]
    assert [str(text).split("-")[1] == theirs.split("-")[1] for text in done].count(True) == 2


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", True),
        ("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later", True),
        ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-later", False),
        ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", False),
        ("00-00000000000000000000000000000000-b7ad6b7169203331-01", False),
        ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", False),
        ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", False),
        ("", False),
        ("'; drop table jobs", False),
    ],
)
def test_what_a_traceparent_is(text: str, good: bool) -> None:
    assert is_traceparent(text) is good


def test_nothing_of_it_is_loaded_when_it_is_off() -> None:
    code = (
        "import sys, duetime, duetime.cli.main, duetime.node.assembly, duetime.worker.worker\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
        "from duetime.telemetry.traces import current_headers\n"
        "assert current_headers() == {}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
