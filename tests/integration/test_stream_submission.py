"""Submissions to stream queues: what goes through the stream, what the answer says, and what can be seen of it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from duetime import App, AsyncClient, ids
from duetime.cli.main import application
from duetime.clock import monotonic, monotonic_from
from duetime.engine import stream_intake
from duetime.engine.intake import prepare
from duetime.engine.stream_store import with_streams
from duetime.engine.streaming import Streaming
from duetime.errors import (
    InStream,
    InvalidInput,
    NotFound,
    StoreUnavailable,
    StreamFull,
    StreamUnavailable,
    TenantSuspended,
)
from duetime.model.access import Role
from duetime.model.carried import CarriedEnd, CarriedRun, StreamQueue, StreamSettings
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lane import Tier
from duetime.model.tenant import TenantChange, TenantState
from duetime.store.protocol.store import Store
from duetime.store.protocol.streams import KnownQueues
from duetime.store.wrappers.observed import StoreObserver, observed
from duetime.streams import publisher
from duetime.streams.message import MessageCodec
from duetime.streams.names import streams_of
from duetime.streams.redis import RedisBroker
from duetime.telemetry.meters import Meters
from tests.support.brokers import running
from tests.support.redis_server import RedisServer
from tests.support.served import Served, serving
from tests.support.working import TIMEOUT, working

MAIL = "mail"


class Streamed:
    """An app with a queue that goes through Redis, and what is in its streams."""

    def __init__(self, app: App, store: Store, redis: RedisServer, queue: StreamQueue) -> None:
        self.app = app
        self.store = store
        self.redis = redis
        self.queue = queue

    async def runs(self, tier: Tier = Tier.MEDIUM) -> list[CarriedRun]:
        """The runs in the stream."""
        name = streams_of(self.queue, shared=False)[tier]
        with self.redis.client() as client:
            bodies = [fields[b"m"] for _, fields in client.xrange(name.text)]
        assert self.store.sealer is not None
        return [
            run for run in await MessageCodec(self.store.sealer).unpack(name, bodies) if isinstance(run, CarriedRun)
        ]

    async def set(self, **settings: Any) -> None:
        changed = msgspec.structs.replace(self.queue.settings, **settings)
        found = await self.store.streams.set_stream(DEFAULT_TENANT, MAIL, changed)
        assert found is not None
        self.queue = found
        self.app._stores._streamings[asyncio.get_running_loop()].kinds.forget()


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the queues had been stream queues for a minute."""
    monkeypatch.setattr(stream_intake, "SETTLED", 0.0)


@pytest.fixture
def redis() -> RedisServer:
    server = running(RedisServer)
    assert isinstance(server, RedisServer)
    return server


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A server that the test may stop."""
    with RedisServer() as server:
        yield server


def make_app(app: App) -> App:
    @app.task(queue=MAIL, name="send")
    async def send(to: str) -> str:
        return to

    @app.task(queue=MAIL, name="send_once", delivery="at_most_once")
    async def send_once(to: str) -> None: ...

    return app


async def streamed_on(app: App, redis: RedisServer) -> Streamed:
    store = await make_app(app).store()
    where = StreamSettings(f"{redis.address}?prefix=t{ids.new_id().hex[-12:]}")
    queue = await store.streams.set_stream(DEFAULT_TENANT, MAIL, where)
    assert queue is not None
    return Streamed(app, store, redis, queue)


@pytest.fixture
async def streamed(app: App, redis: RedisServer) -> Streamed:
    return await streamed_on(app, redis)


@pytest.fixture
async def server(streamed: Streamed) -> AsyncIterator[Served]:
    async with serving(streamed.store, streamed.app.settings) as served:
        yield served


async def counts(streamed: Streamed) -> tuple[int, int]:
    found = await streamed.store.reads.counts()
    return found.jobs, found.runs


async def test_a_plain_run_is_a_message_and_has_no_row(streamed: Streamed) -> None:
    receipt = await streamed.app.submit("send", {"to": "ops"}, tags=["a"], retries=2, priority="HIGH")
    assert (receipt.via, receipt.created) == ("stream", True)
    (run,) = await streamed.runs(Tier.HIGH)
    assert ids.show("run", run.run_id) == receipt.run_id and ids.show("job", run.job_id) == receipt.job_id
    assert (run.lane.task, run.lane.queue, run.args) == ("send", MAIL, b'{"to":"ops"}')
    assert await counts(streamed) == (0, 0)


@pytest.mark.parametrize(
    "options",
    [{"key": "k"}, {"idempotency_key": "i"}, {"run_in": "1h"}, {"run_at": "2080-01-01T00:00:00Z"},
     {"concurrency_key": "c"}, {"rate_key": "r", "rate": "1/s"}, {"delivery": "at_most_once"}],
)  # fmt: skip
async def test_what_needs_the_store_goes_there_or_is_refused(streamed: Streamed, options: dict[str, Any]) -> None:
    receipt = await streamed.app.submit("send", {"to": "ops"}, **options)
    assert receipt.via == "store" and sum(await counts(streamed)) == 1
    await streamed.set(only=True)
    with pytest.raises(InvalidInput, match="needs the store; this queue takes streamed runs only") as refused:
        await streamed.app.submit("send", {"to": "ops"}, **options)
    assert refused.value.field in options
    assert sum(await counts(streamed)) == 1 and not await streamed.runs()


async def test_schedules_and_graphs_go_to_the_store(streamed: Streamed) -> None:
    receipt = await streamed.app.schedule("send", {"to": "ops"}, every="1h")
    assert receipt.via == "store" and await counts(streamed) == (1, 0)


async def test_a_batch_is_split(streamed: Streamed) -> None:
    app = streamed.app
    calls = [app.tasks["send"].bind(to=str(number)) for number in range(3)]
    receipts = await app.submit_many([*calls, app.tasks["send_once"].bind(to="once")])
    assert [receipt.via for receipt in receipts] == ["stream"] * 3 + ["store"]
    assert [run.args for run in await streamed.runs()] == [b'{"to":"%d"}' % number for number in range(3)]
    assert await counts(streamed) == (0, 1)


async def test_a_run_that_is_too_large_goes_to_the_store(streamed: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.streams.redis.RedisBroker.largest", 1000)
    assert (await streamed.app.submit("send", {"to": "x" * 500})).via == "stream"
    assert (await streamed.app.submit("send", {"to": "x" * 2000})).via == "store"
    await streamed.set(only=True)
    with pytest.raises(InvalidInput, match="too large"):
        await streamed.app.submit("send", {"to": "x" * 2000})


async def test_a_tenant_with_a_limit_on_running_runs_uses_the_store(streamed: Streamed) -> None:
    tenant = await streamed.store.tenants.tenant_by_id(DEFAULT_TENANT)
    limits = msgspec.structs.replace(tenant.limits, running_runs=5)
    await streamed.store.tenants.update_tenant(DEFAULT_TENANT, TenantChange(limits=limits))
    assert (await streamed.app.submit("send", {"to": "ops"})).via == "store"
    assert await counts(streamed) == (0, 1)


async def test_a_suspended_tenant_publishes_nothing(streamed: Streamed) -> None:
    suspended = TenantChange(state=TenantState.SUSPENDED)
    await streamed.store.tenants.update_tenant(DEFAULT_TENANT, suspended)
    with pytest.raises(TenantSuspended, match="nothing can be submitted"):
        await streamed.app.submit("send", {"to": "ops"})
    assert await counts(streamed) == (0, 0)


async def test_http_means_the_same(streamed: Streamed, server: Served) -> None:
    async with AsyncClient(server.url, server.root) as client:
        one = await client.create_job("send", args={"to": "a"}, queue=MAIL)
        answer = await client.create_jobs([{"task": "send", "args": {"to": "b"}, "queue": MAIL}, {"task": "other"}])
        kept = await client.create_job("send", args={"to": "c"}, queue=MAIL, idempotency_key="mine")
    assert (one.via, one.status.value, kept.via) == ("stream", "IN_STREAM", "store")
    assert [item.job.via for item in answer.items if item.job] == ["stream", "store"]
    assert {run.args for run in await streamed.runs()} == {b'{"to":"a"}', b'{"to":"b"}'}
    assert await counts(streamed) == (0, 2)


async def test_a_repeated_nonce_is_the_same_run(streamed: Streamed, server: Served) -> None:
    nonce = {"Duetime-Nonce": str(ids.new_id())}
    job = {"task": "send", "args": {"to": "a"}, "queue": MAIL}
    answers = [await server.post("/v1/jobs", job, headers=nonce) for _ in range(3)]
    assert {answer.json["run_id"] for answer in answers} == {answers[0].json["run_id"]}
    assert {ids.show("run", run.run_id) for run in await streamed.runs()} == {answers[0].json["run_id"]}
    batches = [await server.post("/v1/jobs/batch", [job] * 5, headers=nonce) for _ in range(2)]
    found = [[item["job"]["run_id"] for item in batch.json["items"]] for batch in batches]
    assert found[0] == found[1] == sorted(found[0]) and len(set(found[0])) == 5
    assert await counts(streamed) == (0, 0)


async def test_a_thousand_callers_share_a_few_publishes(
    streamed: Streamed, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[int] = []
    of_redis: Any = RedisBroker.publish

    async def counted(broker: Any, stream: str, bodies: Any, within: float) -> None:
        published.append(len(bodies))
        await of_redis(broker, stream, bodies, within)

    await streamed.app.submit("send", {"to": "x"})  # reads what is cached from then on
    monkeypatch.setattr(RedisBroker, "publish", counted)
    await asyncio.gather(*(streamed.app.submit("send", {"to": "x"}) for _ in range(1000)))
    assert sum(published) == 1000 and len(published) <= 500
    published.clear()
    body = {"task": "send", "args": {"to": "x"}, "queue": MAIL}
    answers = await asyncio.gather(*(server.post("/v1/jobs", body) for _ in range(300)))
    assert {answer.json["via"] for answer in answers} == {"stream"}
    assert sum(published) == 300 and len(published) <= 200
    assert len({run.run_id for run in await streamed.runs()}) == 1301


async def test_nothing_is_sent_when_the_time_for_retries_is_over(
    streamed: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    async def late(broker: Any, stream: str, bodies: Any, within: float) -> None:
        given.append(within)
        asyncio.get_running_loop().call_later(0.01, time.sleep, 0.3)  # something blocks the loop during the pause
        raise StreamUnavailable("no answer")

    await streamed.app.submit("send", {"to": "x"})
    monkeypatch.setattr(publisher, "RETRIED", 0.2)
    monkeypatch.setattr(publisher, "_FIRST_PAUSE", 0.05)
    monkeypatch.setattr(RedisBroker, "publish", late)
    with pytest.raises(StreamUnavailable):
        await streamed.app.submit("send", {"to": "x"})
    assert len(given) == 1


async def test_a_full_stream_takes_no_more(streamed: Streamed, server: Served) -> None:
    await streamed.app.submit("send", {"to": "x"})
    await streamed.set(max_depth=4)
    for _ in range(3):
        await streamed.app.submit("send", {"to": "x"})
    await asyncio.sleep(1.1)
    with pytest.raises(StreamFull, match="may hold 4"):
        await streamed.app.submit("send", {"to": "x"})
    answer = await server.post("/v1/jobs", {"task": "send", "args": {"to": "x"}, "queue": MAIL})
    assert (answer.status, answer.code, answer.headers["Retry-After"]) == (429, "stream_full", "1")
    assert (await streamed.app.submit("send", {"to": "x"}, key="stored")).via == "store"
    assert len(await streamed.runs()) == 4


async def test_what_is_in_a_stream_is_said_to_be_uncertain(streamed: Streamed, server: Served) -> None:
    app = streamed.app
    receipt = await app.submit("send", {"to": "x"})
    assert receipt.run_id is not None
    run, job, status = [
        (await server.get(path)).json
        for path in (f"/v1/runs/{receipt.run_id}", f"/v1/jobs/{receipt.job_id}", f"/v1/jobs/{receipt.job_id}/status")
    ]
    assert all((view["status"], view["certain"]) == ("IN_STREAM", False) for view in (run, job, status))
    assert (run["job_id"], run["task"], job["queue"]) == (receipt.job_id, None, None)
    for call in (app.run(receipt.run_id), app.job(receipt), app.cancel(receipt), app.cancel_run(receipt.run_id)):
        with pytest.raises(InStream):
            await call
    for path in (f"/v1/runs/{receipt.run_id}/cancel", f"/v1/jobs/{receipt.job_id}/cancel"):
        answer = await server.post(path)
        assert (answer.status, answer.code) == (409, "in_stream") and answer.json["remedy"]
    with pytest.raises(TimeoutError, match="in the stream of its queue"):
        await receipt.result(timeout=0.2)
    async with AsyncClient(server.url, server.root) as client:
        with pytest.raises(TimeoutError):
            await client.wait(receipt.job_id, timeout=0.2)
    for path in ("/v1/runs", "/v1/jobs", f"/v1/jobs/{receipt.job_id}/runs"):
        (told,) = (await server.get(path)).json["in_streams"]
        assert (told["queue"], told["priority"], told["depth"], told["shared"]) == (MAIL, "MEDIUM", 1, False)
        assert told["oldest"]


async def test_what_cannot_be_in_a_stream_is_missing(streamed: Streamed, server: Served) -> None:
    assert (await server.get(f"/v1/runs/{ids.show('run', ids.new_id())}")).status == 404, "the stream is empty"
    await streamed.app.submit("send", {"to": "x"})
    long_ago = ids.show("run", ids.first_id_at(ids.time_of(ids.new_id()).replace(year=2020)))
    assert (await server.get(f"/v1/runs/{long_ago}")).status == 404
    with pytest.raises(NotFound) as error:
        await streamed.app.run(long_ago)
    assert not isinstance(error.value, InStream)


async def test_no_job_can_wait_for_a_run_in_a_stream(streamed: Streamed, server: Served) -> None:
    receipt = await streamed.app.submit("send", {"to": "x"})
    with pytest.raises(InvalidInput, match="no job can wait for a run in a stream") as refused:
        await streamed.app.submit("send", {"to": "y"}, depends_on=[receipt.job_id])
    assert refused.value.field == "depends_on"
    answer = await server.post("/v1/jobs", {"task": "send", "args": {"to": "y"}, "depends_on": [receipt.job_id]})
    assert answer.status == 422
    assert await counts(streamed) == (0, 0)


async def test_a_broker_that_is_away_refuses_or_leads_to_the_store(
    app: App, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher, "RETRIED", 0.3)
    streamed = await streamed_on(app, own_redis)
    await streamed.app.submit("send", {"to": "before"})
    own_redis.stop()
    async with serving(streamed.store, app.settings) as server:
        with pytest.raises(StreamUnavailable):
            await app.submit("send", {"to": "refused"})
        answer = await server.post("/v1/jobs", {"task": "send", "args": {"to": "x"}, "queue": MAIL})
        assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "broker_unavailable", "1")
        assert (await app.submit("send", {"to": "x"}, key="k")).via == "store", "other runs do not need the broker"
        await streamed.set(fallback=True)
        receipts = [await app.submit("send", {"to": "kept"}) for _ in range(3)]
        assert {receipt.via for receipt in receipts} == {"store"}
        assert await counts(streamed) == (0, 4)
        own_redis.start()
        assert (await app.submit("send", {"to": "after"})).via == "stream"
    assert b'{"to":"after"}' in [run.args for run in await streamed.runs()]


async def test_a_run_that_was_published_before_the_fallback_acts_once(
    streamed: Streamed, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker takes the message, and its answer is lost."""
    monkeypatch.setattr(publisher, "RETRIED", 0.1)
    await streamed.app.submit("send", {"to": "x"}, run_in="1h")
    await streamed.set(fallback=True)
    server.service.streaming.kinds.forget()
    of_redis: Any = RedisBroker.publish

    async def unanswered(broker: Any, stream: str, bodies: Any, within: float) -> None:
        await of_redis(broker, stream, bodies, within)
        raise StreamUnavailable("the answer was lost")

    monkeypatch.setattr(RedisBroker, "publish", unanswered)
    receipt = await streamed.app.submit("send", {"to": "x"})
    nonce = {"Duetime-Nonce": str(ids.new_id())}
    body = {"task": "send", "args": {"to": "x"}, "queue": MAIL}
    answers = [await server.post("/v1/jobs", body, headers=nonce) for _ in range(3)]
    assert {answer.status for answer in answers} == {201}, answers
    assert receipt.via == "store" and {answer.json["via"] for answer in answers} == {"store"}
    assert await counts(streamed) == (1, 2)
    published = {run.run_id: run for run in await streamed.runs()}
    assert len(published) == 2
    ends = [CarriedEnd(run, run.due) for run in published.values()]
    assert await streamed.store.streams.end_carried(ids.new_id(), ends) == frozenset(published), "the store has them"


async def test_a_repeated_request_after_a_change_of_kind_is_one_run(streamed: Streamed, server: Served) -> None:
    body = {"task": "send", "args": {"to": "x"}, "queue": MAIL}
    nonce = {"Duetime-Nonce": str(ids.new_id())}
    assert (await server.post("/v1/jobs", body, headers=nonce)).json["via"] == "stream"
    await server.service.store.streams.set_stream(DEFAULT_TENANT, MAIL, None)
    again = [(await server.post("/v1/jobs", body, headers=nonce)).json for _ in range(2)]
    assert {answer["via"] for answer in again} == {"store"} and await counts(streamed) == (0, 1)
    (run,) = await streamed.runs()
    assert await streamed.store.streams.end_carried(ids.new_id(), [CarriedEnd(run, run.due)]) == {run.run_id}


async def test_what_was_stored_before_the_change_is_not_published(
    streamed: Streamed, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"task": "send", "args": {"to": "x"}, "queue": "post"}
    nonce = {"Duetime-Nonce": str(ids.new_id())}
    stored = (await server.post("/v1/jobs", body, headers=nonce)).json
    streams = server.service.store.streams
    queue = await streams.set_stream(DEFAULT_TENANT, "post", streamed.queue.settings)
    assert queue is not None
    answer = await server.post("/v1/jobs", body, headers=nonce)
    assert (answer.json["run_id"], answer.json["via"]) == (stored["run_id"], "store")
    assert answer.headers["Idempotency-Replayed"] == "true"
    monkeypatch.setattr(stream_intake, "SETTLED", 15.0)
    fresh = (await server.post("/v1/jobs", body, headers={"Duetime-Nonce": str(ids.new_id())})).json
    assert fresh["via"] == "store", "another server may be storing it by the earlier kind"
    assert (await server.post("/v1/jobs", body)).json["via"] == "stream", "without a nonce it is not a repeated one"


async def test_a_server_that_stood_still_stores_nothing_that_was_published(
    streamed: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had read that the queue goes through the store; the request was repeated at another server meanwhile."""
    store, stands, goes_on = streamed.store.intake.submit, asyncio.Event(), asyncio.Event()

    async def submit(tenant_id: int, jobs: Any) -> Any:
        if not stands.is_set():
            stands.set()
            await goes_on.wait()
        return await store(tenant_id, jobs)

    monkeypatch.setattr(streamed.store.intake, "submit", submit)
    body = {"task": "send", "args": {"to": "x"}, "queue": "post"}
    nonce = {"Duetime-Nonce": str(ids.new_id())}
    settings = streamed.app.settings
    async with serving(streamed.store, settings) as one, serving(streamed.store, settings) as other:
        late = asyncio.create_task(one.post("/v1/jobs", body, headers=nonce))
        await stands.wait()
        await other.service.store.streams.set_stream(DEFAULT_TENANT, "post", streamed.queue.settings)
        published = await other.post("/v1/jobs", body, headers=nonce)
        goes_on.set()
        again = await late
        assert published.json["via"] == "stream"
        assert (again.json["run_id"], again.json["via"]) == (published.json["run_id"], "stream")
        assert await counts(streamed) == (0, 0)


async def test_a_store_without_stream_queues_is_read_once_a_second(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    make_app(app)
    store = await app.store()
    reads = 0
    read = store.streams.known_queues

    async def counted(within: float) -> KnownQueues:
        nonlocal reads
        reads += 1
        return await read(within)

    monkeypatch.setattr(store.streams, "known_queues", counted)
    for _ in range(20):
        assert (await app.submit("send", {"to": "x"})).via == "store"
    assert reads <= 2


async def test_commands_say_what_is_in_streams(streamed: Streamed, server: Served) -> None:
    environ = {"DUETIME_URL": server.url, "DUETIME_KEY": server.root, "COLUMNS": "250", "NO_COLOR": "1"}

    async def duetime(*arguments: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, application, arguments, env=environ)

    made = json.loads((await duetime("submit", "send", "to=x", "--queue", MAIL, "--json")).stdout)
    assert (made["via"], made["status"]) == ("stream", "IN_STREAM")
    shown = json.loads((await duetime("runs", "show", made["run_id"], "--json")).stdout)
    assert (shown["status"], shown["certain"]) == ("IN_STREAM", False)
    cancelled = await duetime("runs", "cancel", made["run_id"])
    assert cancelled.exit_code == 1 and "may be in a stream" in cancelled.stderr
    for listing in (("runs", "list"), ("jobs", "list"), ("queues", "show", MAIL)):
        assert f"in streams: 1 of the queue {MAIL}, MEDIUM" in (await duetime(*listing)).stderr, listing
    (queue,) = [json.loads(line) for line in (await duetime("queues", "list", "--json")).stdout.splitlines()]
    assert (queue["name"], queue["kind"], queue["in_streams"][0]["depth"]) == (MAIL, "stream", 1)


async def test_without_the_store_a_reading_is_used_for_a_minute(
    streamed: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run can be accepted by its stream alone; then it is refused, because the queue may have another kind by now."""
    assert (await streamed.app.submit("send", {"to": "x"})).via == "stream"

    asked: list[str] = []

    async def unavailable(name: str, *_: object) -> object:
        asked.append(name)
        raise StoreUnavailable("it is away")

    for role, name in (("streams", "known_queues"), ("tenants", "tenant_by_id"), ("intake", "submit")):
        monkeypatch.setattr(getattr(streamed.store, role), name, partial(unavailable, name))
    streamed.app._stores._here.clear()  # wrappers keep the methods that they call
    began = monotonic()
    with monotonic_from(lambda: began + 55):
        assert (await streamed.app.submit("send", {"to": "x"})).via == "stream"
        with pytest.raises(StoreUnavailable):
            await streamed.app.submit("send", {"to": "x"}, key="k")
        # Once for its defaults and once for its limit: a store that does not answer is not asked for each submission.
        assert asked.count("tenant_by_id") == 2
    with monotonic_from(lambda: began + 65), pytest.raises(StoreUnavailable):
        await streamed.app.submit("send", {"to": "x"})
    assert len(await streamed.runs()) == 2


async def test_a_publish_by_an_old_reading_lands_too(streamed: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process stood still before its publish: the stream may have been retired, and have no consumer."""
    publish = publisher.Publisher.publish
    stood_still = 0.0

    async def late(*of: Any) -> None:
        nonlocal stood_still
        stood_still = 130.0
        await publish(*of)

    monkeypatch.setattr(publisher.Publisher, "publish", late)
    began = monotonic()
    with monotonic_from(lambda: began + stood_still):
        receipt = await streamed.app.submit("send", {"to": "x"})
    assert receipt.via == "store" and await counts(streamed) == (0, 1)
    (run,) = await streamed.runs()
    assert await streamed.store.streams.end_carried(ids.new_id(), [CarriedEnd(run, run.due)]) == {run.run_id}


async def test_a_repeated_request_is_not_stored_by_an_old_reading(
    streamed: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its queue may be a stream queue by now, where the request was published; whether or not others are."""
    read, is_away = streamed.store.streams.known_queues, False

    async def known_queues(within: float) -> KnownQueues:
        if is_away:
            raise StoreUnavailable("it is away")
        return await read(within)

    monkeypatch.setattr(streamed.store.streams, "known_queues", known_queues)
    async with serving(streamed.store, streamed.app.settings) as server:
        key = await server.key(Role.ADMIN, (await server.tenant("other")).id)

        async def submit() -> int:
            body, nonce = {"task": "send", "args": {"to": "x"}, "queue": MAIL}, {"Duetime-Nonce": str(ids.new_id())}
            return (await server.post("/v1/jobs", body, headers=nonce, key=key)).status

        assert await submit() == 201
        is_away, began = True, monotonic()
        with monotonic_from(lambda: began + 5):
            assert await submit() == 503


async def test_a_machine_that_was_suspended_reads_the_kinds_again(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its monotonic clock stood still, and the others went on."""
    make_app(app)
    store = await app.store()
    read, read_at = store.streams.known_queues, set()

    async def known_queues(within: float) -> KnownQueues:
        known = await read(within)
        read_at.add(known.read_at)
        return known

    monkeypatch.setattr(store.streams, "known_queues", known_queues)
    app._stores._here.clear()
    began, suspended = monotonic(), 0.0
    with monotonic_from(lambda: began, lambda: suspended):
        for _ in range(2):
            await app.submit("send", {"to": "x"})
        assert len(read_at) == 1
        suspended = 3600.0
        await app.submit("send", {"to": "x"})
    assert len(read_at) == 2


async def test_carried_runs_are_counted_as_submitted(streamed: Streamed) -> None:
    meters = Meters()
    store = with_streams(observed(streamed.store, StoreObserver(meters)), Streaming())
    prepared = [prepare(task="send", args={"to": "x"}, max_payload=100, queue=MAIL) for _ in range(3)]
    stored = prepare(task="send", args={"to": "x"}, max_payload=100, queue=MAIL, key="k")
    answers = await store.intake.submit(DEFAULT_TENANT, [*prepared, stored])
    assert [answer.via for answer in answers] == ["stream"] * 3 + ["store"]
    sizes = meters.work["submit"].sizes
    assert (sizes.count, sizes.sum) == (2, 4)


async def test_without_the_key_of_an_address_other_queues_go_on(postgres_app: App, redis: RedisServer) -> None:
    streamed = await streamed_on(postgres_app, redis)
    other = make_app(App(settings=msgspec.structs.replace(postgres_app.settings, encryption_keys=())))

    @other.task
    async def one() -> int:
        return 1

    async with other, working(other):
        receipt = await other.submit(one)
        assert (receipt.via, await receipt.result(timeout=TIMEOUT)) == ("store", 1)
        with pytest.raises(StreamUnavailable):
            await other.submit("send", {"to": "x"})
        falling_back = msgspec.structs.replace(streamed.queue.settings, fallback=True)
        await streamed.store.streams.set_stream(DEFAULT_TENANT, MAIL, falling_back)
        other._stores._streamings[asyncio.get_running_loop()].kinds.forget()
        assert (await other.submit("send", {"to": "x"})).via == "store", "it falls back as while the broker is away"
