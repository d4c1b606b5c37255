"""The clients: every endpoint, typed, tried again where that is safe."""

import asyncio
import gc
import inspect
import re
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duetime
from duetime import AccessDenied, App, AsyncClient, Client, Closed, Conflict, InvalidInput, NotFound, ServerUnavailable
from duetime.api.table import ENDPOINTS
from duetime.client import (
    admin_requests,
    archive_requests,
    bulk_requests,
    checkin_requests,
    export_requests,
    figure_requests,
    graph_requests,
    issuer_requests,
    job_requests,
    notification_requests,
    run_requests,
    source_requests,
    target_requests,
    usage_requests,
)
from duetime.client.request import Request
from duetime.client.transport import Response, Transport
from duetime.model.access import Role
from duetime.model.lists import JobStatus
from duetime.settings import Settings
from duetime.wire.workers import Ask as ClaimRequest
from tests.support.served import Served
from tests.support.waiting import eventually
from tests.support.working import working

FOR_BROWSERS = {"docs", "login", "login_with_key", "logout", "begin_sso_login", "finish_sso_login"}
STREAMS = {"watch_events"}


@pytest.fixture
async def client(served: Served) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(served.url, await served.key()) as client:
        yield client


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
def test_every_endpoint_has_a_method(endpoint: Any) -> None:
    if endpoint.name in FOR_BROWSERS:
        return
    assert hasattr(AsyncClient, endpoint.name), "and so has the blocking client"
    assert hasattr(Client, endpoint.name)
    if endpoint.name in STREAMS:
        return
    everything = (
        job_requests,
        run_requests,
        graph_requests,
        figure_requests,
        admin_requests,
        target_requests,
        usage_requests,
        notification_requests,
        archive_requests,
        export_requests,
        bulk_requests,
        checkin_requests,
        source_requests,
        issuer_requests,
    )
    (build,) = (found for asks in everything if (found := getattr(asks, endpoint.name, None)))
    request = _example(build)
    pattern = re.sub(r"\{\w+\}", "[^/]+", endpoint.path)
    assert (request.method, bool(re.fullmatch(pattern, request.path))) == (endpoint.method, True), request
    if endpoint.answer is not None:
        assert request.answer == endpoint.answer or endpoint.name == "openapi"


def _example(build: Any) -> Request[Any]:
    """The request that a function makes of what it needs, and of nothing else."""
    needed = [
        parameter
        for parameter in inspect.signature(build).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
    ]
    special: dict[str, Any] = {"request": ClaimRequest(claim_no=1), "jobs": [], "nodes": {}, "to": {}, "job": {}}
    values = {parameter.name: special.get(parameter.name, "x") for parameter in needed}
    request: Request[Any] = build(**values)
    return request


async def test_a_job_from_its_creation_to_its_result(app: App, client: AsyncClient) -> None:
    @app.task(name="greet")
    async def greet(to: str) -> str:
        return f"hello {to}"

    async with working(app):
        receipt = await client.create_job("greet", args={"to": "you"}, name="first", tags=["a"])
        assert receipt.created
        run = await client.wait(receipt.job_id, "20s")
        assert (run.status, run.result) == ("SUCCEEDED", "hello you")
        job = await client.get_job(receipt.job_id)
        assert (job.name, job.status, job.args) == ("first", JobStatus.SUCCEEDED, {"to": "you"})
        assert [each.run_id for each in (await client.list_runs_of_job(receipt.job_id)).items] == [run.run_id]


async def test_who_waits_gets_the_newest_run(app: App, client: AsyncClient) -> None:
    """Not the one before it, while the newest waits for a worker."""

    @app.task(name="no_good")
    async def no_good() -> None:
        raise ValueError("no good")

    async with working(app):
        receipt = await client.create_job("no_good", retries=0)
        first = await client.wait(receipt.job_id, "20s")
    again = await client.retry_run(first.run_id)
    with pytest.raises(TimeoutError, match="No live worker has no_good"):
        await client.wait(receipt.job_id, 0)
    async with working(app):
        assert (await client.wait(receipt.job_id, "20s")).run_id == again.run_id
    with pytest.raises(NotFound):
        await client.wait("job_00000000000000000000000000", 0)


async def test_nobody_waits_for_a_job_that_is_over_and_never_ran(app: App, client: AsyncClient) -> None:
    async with working(app):
        cancelled = await client.create_job("later", every="1d")
        waiting = asyncio.create_task(client.wait(cancelled.job_id, "60s"))
        waiting_too = asyncio.create_task(app.wait(cancelled.job_id, "60s"))
        await asyncio.sleep(0.1)
        await client.cancel_job(cancelled.job_id)
        for each in (waiting, waiting_too):
            with pytest.raises(Conflict, match="ended without a run"):
                await each


async def test_lists_are_walked_page_by_page(client: AsyncClient) -> None:
    answer = await client.create_jobs([{"task": "later", "run_in": "1d", "args": {"n": n}} for n in range(25)])
    stored = [item.job.job_id for item in answer.items if item.job is not None]
    assert len(stored) == 25
    seen = [job.job_id async for job in client.jobs(task="later", page_size=10)]
    assert seen == stored[::-1]


async def test_an_answer_that_was_lost_creates_nothing_twice(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Response] = []
    once = Transport.once

    async def lossy(self: Transport, *args: Any) -> Response:
        sent.append(await once(self, *args))
        if len(sent) == 1:
            raise ServerUnavailable("the answer was lost")
        return sent[-1]

    monkeypatch.setattr(Transport, "once", lossy)
    receipt = await client.create_job("later", run_in="1d")
    assert len(sent) == 2
    assert sent[0].body == sent[1].body
    assert [job.job_id async for job in client.jobs()] == [receipt.job_id]


async def test_lengths_and_moments_in_a_query(client: AsyncClient) -> None:
    start, minute = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1), timedelta(minutes=1)
    receipt = await client.create_job("later", run_at=start + 90 * minute)
    stats = await client.get_stats(window=2 * minute)
    assert stats.step * len(stats.steps) == pytest.approx(120)
    with pytest.raises(InvalidInput, match="window"):
        await client.get_stats(window=-minute)
    fires = await client.list_fires(start=start, end=start + 180 * minute, step=60 * minute)
    assert [fire.at - start for fire in fires.items] == [60 * minute], fires
    with pytest.raises(TimeoutError):
        await client.wait(receipt.job_id, timedelta(0))


async def test_errors_are_duetimes_own(served: Served, client: AsyncClient) -> None:
    with pytest.raises(NotFound):
        await client.get_job("job_00000000000000000000000000")
    with pytest.raises(InvalidInput) as refused:
        await client.create_job("greet", cron="every full moon")
    assert refused.value.field == "cron"
    with pytest.raises(InvalidInput, match=r"^\[1\]\.run_in: .*'soon'.*; 1 of 2 jobs are not valid"):
        await client.create_jobs([{"task": "greet"}, {"task": "greet", "run_in": "soon"}])
    with pytest.raises(InvalidInput, match="timeout: '5x' is not a duration"):
        await client.wait("job_00000000000000000000000000", "5x")
    async with AsyncClient(served.url, await served.key(Role.VIEWER)) as viewer:
        with pytest.raises(AccessDenied):
            await viewer.create_job("greet")
    async with AsyncClient(served.url, "dt_live_nonsense") as nobody:
        with pytest.raises(AccessDenied):
            await nobody.list_jobs()
    async with AsyncClient("http://127.0.0.1:9", "x", tries=1) as nowhere:
        with pytest.raises(ServerUnavailable, match="cannot be reached"):
            await nowhere.list_jobs()
    async with AsyncClient("http://me:hunter2@127.0.0.1:9", tries=1) as nowhere:
        with pytest.raises(ServerUnavailable, match=r"^http://me:\*\*\*@127\.0\.0\.1:9 cannot be reached"):
            await nowhere.list_jobs()
    with pytest.raises(InvalidInput, match=r"^url: 'ftp://me:\*\*\*@example\.com'"):
        AsyncClient("ftp://me:hunter2@example.com")


async def test_a_name_cannot_lead_elsewhere(client: AsyncClient) -> None:
    with pytest.raises(NotFound):
        await client.get_job("../admin/keys")


async def test_the_blocking_client(app: App, served: Served) -> None:
    key = await served.key()

    def use() -> list[str]:
        with duetime.Client(served.url, key) as client:
            made = [client.create_job("later", run_in="1d").job_id for _ in range(3)]
            assert [job.job_id for job in client.jobs(page_size=2)] == made[::-1]
            client.cancel_job(made[0])
            with pytest.raises(TimeoutError):
                client.wait(made[1], 0.1)
            return made

    made = await asyncio.to_thread(use)
    assert (await app.job(made[0])).state is duetime.JobState.CANCELLED


@pytest.mark.parametrize(
    ("what", "role", "method"), [("wait", "lists", "list_runs"), ("watch_events", "events", "keep_listening")]
)
async def test_who_waits_for_a_blocking_client_hears_that_it_was_closed(
    served: Served, what: str, role: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, heard = asyncio.Event(), []
    real = getattr(getattr(served.service.store, role), method)

    async def seen(*args: Any) -> Any:
        asked.set()
        return await real(*args)

    monkeypatch.setattr(getattr(served.service.store, role), method, seen)
    client = Client(served.url, await served.key())
    job_id = (await served.post("/v1/jobs", {"task": "later", "run_in": "1d"})).json["job_id"]

    def use() -> None:
        try:
            client.wait(job_id) if what == "wait" else next(client.watch_events())
        except Closed as error:
            heard.append(str(error))

    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    await asyncio.wait_for(asked.wait(), 20)
    await asyncio.to_thread(client.close)
    await asyncio.to_thread(thread.join, 5)
    assert not thread.is_alive()
    assert len(heard) == 1 and "was closed" in heard[0]
    await asyncio.to_thread(client.close)


async def test_what_is_not_given_comes_from_the_environment(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key = await served.key()
    monkeypatch.setenv("DUETIME_KEY", key)
    assert await asyncio.to_thread(lambda: Client(served.url).get_me().role) == "root"
    monkeypatch.setenv("DUETIME_URL", served.url)
    client = AsyncClient()
    for _ in range(2):  # it is never closed: each event loop closes what was opened on it
        assert await asyncio.to_thread(asyncio.run, client.get_me()) is not None
    del client
    gc.collect()
    assert "Unclosed" not in caplog.text
    job_id = (await served.post("/v1/jobs", {"task": "later", "run_in": "1d"})).json["job_id"]
    async with App() as app:
        assert (await app.job(job_id)).task == "later"
    monkeypatch.setenv("DUETIME_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("DUETIME_KEY", "dt_live_nonsense")
    async with App(url=served.url, key=key) as app:
        assert (await app.job(job_id)).task == "later"
    with pytest.raises(AccessDenied):
        await AsyncClient(served.url).get_me()
    with pytest.raises(InvalidInput, match=r"^url: cannot be combined with `settings`"):
        App(url=served.url, settings=Settings())


async def test_a_blocking_client_that_is_closed_again_and_again_leaves_nobody_waiting(served: Served) -> None:
    client, over, answers = Client(served.url, await served.key()), threading.Event(), []

    def use() -> None:
        while not over.is_set():
            try:
                answers.append(client.get_me().role)
            except Closed:
                answers.append("closed")

    threads = [threading.Thread(target=use, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        before = len(answers)
        await eventually(lambda: len(answers) > before)  # noqa: B023
        await asyncio.to_thread(client.close)
    over.set()
    for thread in threads:
        await asyncio.to_thread(thread.join, 5)
    assert not any(thread.is_alive() for thread in threads)
    assert set(answers) <= {"root", "closed"} and "root" in answers
    await asyncio.to_thread(client.close)
