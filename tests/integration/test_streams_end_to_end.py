"""Stream queues from the submission to the result: with servers, workers and a broker that fails."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import pytest

from duetime import App, AsyncClient, ids
from duetime.engine import stream_intake
from duetime.model.carried import StreamSettings
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lists import RunFilter
from duetime.model.run import RunState
from duetime.store.protocol.store import Store
from duetime.streams import publisher
from tests.support.brokers import running
from tests.support.redis_server import RedisServer
from tests.support.served import Served, serving
from tests.support.waiting import eventually
from tests.support.working import TIMEOUT, working

MAIL = "mail"


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def make_app(app: App) -> Counter[str]:
    """How often each run was started."""
    started: Counter[str] = Counter()

    @app.task(queue=MAIL, name="echo")
    async def echo(word: str) -> str:
        started[word] += 1
        return word

    return started


async def set_stream(store: Store, redis: RedisServer, **settings: bool) -> StreamSettings:
    chosen = StreamSettings(f"{redis.address}?prefix=t{uuid4().hex[:12]}", **settings)
    await store.streams.set_stream(DEFAULT_TENANT, MAIL, chosen)
    return chosen


async def succeeded(store: Store) -> list[str]:
    """The ends in history, one per row."""
    found: list[str] = []
    before = None
    while True:
        page = await store.lists.list_runs(DEFAULT_TENANT, RunFilter(state=RunState.SUCCEEDED), before, 500)
        found += [ids.show("run", item.id) for item in page.items]
        if page.next is None:
            return found
        before = page.next


async def test_every_way_of_submitting_leads_to_a_result(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_intake, "SETTLED", 0.0)
    redis = running(RedisServer)
    assert isinstance(redis, RedisServer)
    store = await app.store()
    make_app(app)
    await set_stream(store, redis)
    async with working(app), serving(store, app.settings) as server, AsyncClient(server.url, server.root) as client:
        receipts = await asyncio.gather(*(app.submit("echo", {"word": str(n)}) for n in range(50)))
        assert {receipt.via for receipt in receipts} == {"stream"}
        results = await asyncio.gather(*(receipt.result(TIMEOUT) for receipt in receipts))
        assert results == [str(n) for n in range(50)]
        one = await client.create_job("echo", args={"word": "http"}, queue=MAIL)
        many = await client.create_jobs([{"task": "echo", "args": {"word": "bulk"}, "queue": MAIL}] * 20)
        assert one.via == "stream" and (await client.wait(one.job_id, TIMEOUT)).result == "http"
        for item in many.items:
            assert item.job is not None and item.job.via == "stream"
            assert (await client.wait(item.job.job_id, TIMEOUT)).result == "bulk"
        assert one.run_id is not None
        run = await client.get_run(one.run_id)
        assert (run.status, run.certain, run.task, run.queue) == ("SUCCEEDED", True, "echo", MAIL)
        assert (await client.get_job(one.job_id)).status.value == "SUCCEEDED"
    assert len(await succeeded(store)) == 71


async def test_a_broker_that_fails_and_returns_loses_nothing(
    app: App, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `fallback`, every submission is accepted, and each completes once, also when its message was published."""
    monkeypatch.setattr(stream_intake, "SETTLED", 0.0)
    monkeypatch.setattr(publisher, "RETRIED", 0.3)
    store = await app.store()
    make_app(app)
    await set_stream(store, own_redis, fallback=True)
    accepted: list[str | None] = []
    vias: Counter[str] = Counter()
    stopped = asyncio.Event()

    async def submit(server: Served) -> None:
        async with AsyncClient(server.url, server.root) as client:
            while not stopped.is_set():
                receipt = await client.create_job("echo", args={"word": "x"}, queue=MAIL)
                accepted.append(receipt.run_id)
                vias[receipt.via] += 1
                await asyncio.sleep(0.005)

    async with working(app), serving(store, app.settings) as server:
        submitting = [asyncio.create_task(submit(server)) for _ in range(4)]
        for _ in range(2):
            await eventually(lambda: vias["stream"] > 0)
            await asyncio.to_thread(own_redis.kill)
            vias.clear()
            await eventually(lambda: vias["store"] > 10)
            await asyncio.to_thread(own_redis.start)
            vias.clear()
        await eventually(lambda: vias["stream"] > 10)
        stopped.set()
        await asyncio.gather(*submitting)

        async def all_done() -> bool:
            return set(await succeeded(store)) >= set(accepted)

        await eventually(all_done, what=f"{len(accepted)} runs")
    ends = Counter(await succeeded(store))
    assert max(ends.values()) == 1, "one completion per run"


async def test_a_change_of_kind_under_load_completes_each_run_once(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are repeated, as after a lost answer, while the queue changes between store and streams."""
    monkeypatch.setattr(stream_intake, "SETTLED", 3.0)
    redis = running(RedisServer)
    assert isinstance(redis, RedisServer)
    store = await app.store()
    make_app(app)
    stopped = asyncio.Event()
    accepted: set[str] = set()
    vias: Counter[str] = Counter()

    async def submit(server: Served) -> None:
        while not stopped.is_set():
            nonce = {"Duetime-Nonce": str(ids.new_id())}
            body = {"task": "echo", "args": {"word": nonce["Duetime-Nonce"]}, "queue": MAIL}
            for pause in (0.0, 0.05, 0.3):
                await asyncio.sleep(pause)
                answer = await server.post("/v1/jobs", body, headers=nonce)
                assert answer.status == 201, answer.body
                accepted.add(answer.json["run_id"])
                vias[answer.json["via"]] += 1

    async def submit_plain() -> None:
        while not stopped.is_set():
            receipt = await app.submit("echo", {"word": "plain"})
            assert receipt.run_id is not None
            accepted.add(receipt.run_id)
            vias[receipt.via] += 1
            await asyncio.sleep(0.01)

    async with (
        working(app),
        serving(store, app.settings) as one,
        serving(store, app.settings) as two,
    ):
        submitting = [asyncio.create_task(submit(server)) for server in (one, two) for _ in range(4)]
        submitting.append(asyncio.create_task(submit_plain()))
        for settled in (3.0, 0.5):
            await set_stream(store, redis)
            vias.clear()
            await asyncio.sleep(3.5)
            await eventually(lambda: vias["stream"] > 20)
            await store.streams.set_stream(DEFAULT_TENANT, MAIL, None)
            await asyncio.sleep(settled)
        stopped.set()
        await asyncio.gather(*submitting)

        async def all_done() -> bool:
            return set(await succeeded(store)) >= accepted

        await eventually(all_done, what=f"{len(accepted)} runs")
        await asyncio.sleep(0.5)
    ends = Counter(await succeeded(store))
    assert ends.keys() == accepted, "nothing runs that was not accepted"
    assert max(ends.values()) == 1, "one completion per run"
