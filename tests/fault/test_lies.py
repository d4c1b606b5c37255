"""Success seen as error, at every method of the store: clients, servers and workers go on, nothing is lost, and nothing
is there twice."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
import pytest

from chaos.real.lies import methods
from duetime import App, AsyncClient, Context
from duetime.api.data_folder import make_root_key
from duetime.archive.names import date_of, day_of
from duetime.client import (
    admin_requests,
    archive_requests,
    graph_requests,
    job_requests,
    run_requests,
    transport,
    usage_requests,
)
from duetime.engine.alarm import Alarm, CheckInAlarm
from duetime.engine.archiver import Archiver
from duetime.engine.eraser import Eraser
from duetime.engine.pruner import Pruner
from duetime.engine.usage_counter import UsageCounter
from duetime.errors import KeyInFlight, NotFound, ServerUnavailable, StoreUnavailable
from duetime.ids import new_id, parse, show
from duetime.model.lists import JobStatus
from duetime.model.notification import QUEUE as MESSAGES
from duetime.store.address import open_ready, store_for
from duetime.store.postgres import PostgresStore
from duetime.store.sqlite import SqliteStore
from duetime.wire.notifications import FigureName
from duetime.wire.workers import Compare, HandBack
from tests.integration.conftest import database_url, migrated
from tests.support.brokers import running
from tests.support.lying import Lies
from tests.support.old_history import add_ended
from tests.support.receiver import receiving
from tests.support.redis_server import RedisServer
from tests.support.served import ENCRYPTION
from tests.support.signing import ISSUER, jwks, token
from tests.support.tour import Tour
from tests.support.waiting import eventually
from tests.support.working import node, quick_settings, remote_worker

__all__ = ["database_url", "migrated"]

T = TypeVar("T")

WHERE = ("near", "far")
LONG_AGO = day_of((datetime.now(UTC) - timedelta(days=60)).date())
UNSERVED = "nobody.has.this"
SUBJECTS: tuple[tuple[FigureName, float, str], ...] = (
    ("no_success", 1e6, "all"),
    ("no_success", 1e6, "tag"),
    ("not_started", 0, "all"),
    ("not_started", 1e6, "job"),
    ("overtime", 100, "all"),
    ("overtime", 100, "job"),
)
"""Rules that read everything that rules about jobs can read."""
ELSEWHERE = {
    "submit_within": "inside of the caller's transaction, which an error takes back: test_transactional.py",
    "defaults_within": "the same: test_tenant_defaults.py",
    "complete_within": "the same: test_completing_within.py",
    "held_in_transactions": "asked for where a task completes its run in such a transaction: test_completing_within.py",
    "counts": "asked for by tests alone",
    "claim_announced": "asked for by tests alone, which repeat it under its number: test_ready.py",
    "tenants_of_runs": "asked for where content is encrypted: test_encryption.py",
    "add_data_key": "asked for where a key provider wraps keys: test_key_providers.py",
    "rewrap_data_key": "the same",
    "reseal_rows": "asked for where something is encrypted with another key: test_reencryption.py",
    "renew_day": "asked for after a quarter of a lease: test_archive.py",
    "reopen_day": "asked for where a file was damaged: test_archive.py",
    "keep_rewind": "asked for after the database went back: test_rewind.py",
    "retire_stream": "asked for two minutes after a change: test_carried.py",
}
"""What is not asked for over HTTP."""


@pytest.mark.timeout(240)
async def test_every_method_of_the_store_lies(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = msgspec.structs.replace(
        quick_settings(database_url),
        encryption_keys=(ENCRYPTION,),
        allowed_networks=("127.0.0.0/8",),
        canary=timedelta(seconds=1),
        lease=timedelta(seconds=30),
        heartbeat=timedelta(seconds=1),
        port=0,
        archive_url=f"file://{tmp_path}/archive",
    )
    store = store_for(settings)
    await open_ready(store, migrate=True)
    key = (await make_root_key(store, "root")).text
    await add_ended(store, LONG_AGO, 30)
    await store.close()
    monkeypatch.setattr(transport, "retry_after", lambda headers: 0.01)  # the database is not really away
    # A look at the figures that is lied to is not repeated before the next one.
    monkeypatch.setitem(Alarm.__init__.__kwdefaults__, "every", timedelta(seconds=0.5))
    # An archiver that does not know that it holds a day waits for the end of its lease.
    monkeypatch.setitem(Archiver.__init__.__kwdefaults__, "interval", timedelta(seconds=0.5))
    monkeypatch.setattr("duetime.archive.archive.LEASE", timedelta(seconds=2))
    monkeypatch.setitem(Pruner.__init__.__kwdefaults__, "interval", timedelta(seconds=0.5))
    # So does an alarm that does not know which check-ins it holds, and an eraser.
    monkeypatch.setitem(CheckInAlarm.__init__.__kwdefaults__, "held", timedelta(seconds=2))
    monkeypatch.setattr("duetime.engine.eraser._LEASE", timedelta(seconds=2))
    for name in ("interval", "quiet", "cancel_timeout"):
        monkeypatch.setitem(Eraser.__init__.__kwdefaults__, name, timedelta(seconds=0.1))
    monkeypatch.setitem(UsageCounter.__init__.__kwdefaults__, "interval", timedelta(seconds=0.5))
    monkeypatch.setattr("duetime.engine.bulk_runner._LEASE", timedelta(seconds=2))
    monkeypatch.setattr("duetime.engine.search_indexer._LEASE", timedelta(seconds=2))
    monkeypatch.setattr("duetime.engine.search_indexer._KEEP_EVERY", 1.0)
    monkeypatch.setattr("duetime.engine.search_indexer._PRUNE_EVERY", 0.5)
    # A client's jobs go to a stream from then on.
    monkeypatch.setattr("duetime.engine.stream_intake.SETTLED", 0.0)
    lies = Lies()
    lies.corrupt(monkeypatch, SqliteStore(":memory:") if store.embedded else PostgresStore("postgresql:///none"))

    def missing() -> set[str]:
        return set(methods()) - set(lies.told) - set(ELSEWHERE)

    began: Counter[str] = Counter()
    near, far = App(settings=settings), App(settings=settings)
    for where, app in (("near", near), ("far", far)):
        add_tasks(app, where, began)
    async with receiving() as receiver, node(settings, near) as url, AsyncClient(url, key, tries=20) as client:
        tour = Tour(client, key, near, receiver, lies)
        async with remote_worker(far, url, key) as worker:
            tour.tokens = worker._source._sessions._tokens  # type: ignore[attr-defined]
            for part in PARTS:
                await part(tour)
            held = await tour.job("far.work")
            await tour.running(held)
        # The worker was told to stop, and handed back what it held.
        assert [run.status for run in await tour.runs(held)] == ["PENDING"]
        await client.cancel_job(held)
        await tour.ended(held, "CANCELLED")
        with contextlib.suppress(AssertionError):
            await eventually(lambda: not missing())
        assert not missing(), lies.calls
        [unserved] = [job async for job in client.walk(job_requests.list_jobs(task=UNSERVED))]
        assert (await client.cancel_job(unserved.job_id)).status == JobStatus.CANCELLED
        lies.over = True
        jobs = [job async for job in client.walk(job_requests.list_jobs())]
        assert {job.job_id for job in jobs if job.queue != MESSAGES} == tour.jobs
        assert len(jobs) == len({job.job_id for job in jobs})
        told = [each.json["type"] for each in receiver.requests[tour.told_from :]]
        assert sorted(each for each in told if each != "test") == ["run.dead", "workers.none"], "each once"
        assert set(began.values()) == {1}, "no attempt began twice"
        assert {attempt.partition(" ")[2] for attempt in began} == {"1 0"}, "no attempt was lost or spent for a lie"


async def again(ask: Callable[[], Awaitable[T]]) -> T:
    """Who uses the SDK asks again."""
    while True:
        with contextlib.suppress(StoreUnavailable):
            return await ask()


def attempt_of(ctx: Context) -> str:
    return f"{ctx.run_id} {ctx.attempt} {ctx.lost}"


def add_tasks(app: App, where: str, began: Counter[str]) -> None:
    """The same for the worker inside of the node, and for the one that speaks to it over HTTP."""

    @app.task(name=f"{where}.greet")
    async def greet(ctx: Context, to: str = "you") -> str:
        began[attempt_of(ctx)] += 1
        return f"hello {to}"

    @app.task(name=f"{where}.fail")
    async def fail(ctx: Context) -> None:
        began[attempt_of(ctx)] += 1
        raise ValueError("no good")

    @app.task(name=f"{where}.work")
    async def work(ctx: Context) -> None:
        began[attempt_of(ctx)] += 1
        ctx.progress(0.5, "half of it")
        await ctx.checkpoint({"half": True})
        await asyncio.sleep(60)

    @app.task(name=f"{where}.sum_up")
    async def sum_up(ctx: Context) -> list[Any]:
        began[attempt_of(ctx)] += 1
        return sorted(parent.value for parent in await ctx.parents())


async def tenants_and_keys(tour: Tour) -> None:
    client = tour.client

    async def tenant_is_there() -> bool:
        return "acme" in [tenant.name async for tenant in client.walk(admin_requests.list_tenants())]

    await tour.once(lambda: client.create_tenant("acme", weight=2), tenant_is_there)
    assert (await client.change_tenant("acme", weight=3)).weight == 3
    assert (await client.get_tenant("acme")).weight == 3
    assert (await client.change_defaults(warn_after="1h")).warn_after == "1h"
    assert (await client.set_defaults()).warn_after is None
    await client.change_tenant(
        "default", limits={"stored_jobs": 1000, "submissions_per_second": 1000}
    )  # counted from here on

    async def named(name: str) -> list[Any]:
        return [key async for key in client.walk(admin_requests.list_keys()) if key.name == name]

    await tour.once(lambda: client.create_key("worker", "first"), lambda: named("first"))
    [first] = await named("first")
    await tour.once(lambda: client.rotate_key(first.key_id, name="second"), lambda: named("second"))
    [second] = await named("second")
    assert (await client.revoke_key(second.key_id)).revoked_at is not None


async def sessions(tour: Tour) -> None:
    """Who logs in by a link that was used up meanwhile asks for another one."""
    client = tour.client
    links: list[str] = []

    async def made() -> bool:
        return bool(links)

    async def ask_for_link() -> None:
        links.append((await client.create_login_link()).path)

    async with aiohttp.ClientSession() as http:
        status = 0
        while status != 303:
            links.clear()
            await tour.once(ask_for_link, made)
            async with http.get(client.url + links[0], allow_redirects=False) as answer:
                status, cookies = answer.status, answer.cookies
                assert status in (303, 401, 503)
        cookie = {"Cookie": "; ".join(f"{name}={each.value}" for name, each in cookies.items())}
        status = 0
        while status != 200:
            async with http.get(client.url + "/v1/sessions", headers=cookie) as answer:
                status, found = answer.status, await answer.json()
                assert status in (200, 503)
        assert [each["current"] for each in found["items"]].count(True) == 1
        status = 0
        while status != 200:
            async with http.post(client.url + "/logout", headers=cookie) as answer:
                status = answer.status
                assert status in (200, 503)
        async with http.get(client.url + "/v1/me", headers=cookie) as answer:
            assert answer.status in (401, 503)
    for session in [each async for each in client.walk(admin_requests.list_sessions())]:
        await tour.gone(lambda id=session.session_id: client.revoke_session(id))  # type: ignore[misc]
    assert [each async for each in client.walk(admin_requests.list_sessions())] == []


async def jobs(tour: Tour) -> None:
    client = tour.client
    for where in WHERE:
        for number in range(5):
            run = await tour.ended(await tour.job(f"{where}.greet", args={"to": f"{number}"}))
            assert run.result == f"hello {number}"
        many = await client.create_jobs([{"task": f"{where}.greet", "args": {"to": "all"}} for _ in range(20)])
        ids = {item.job.job_id for item in many.items}
        assert len(ids) == 20
        tour.jobs |= ids
        for job_id in ids:
            await tour.ended(job_id)
        for number in range(2):
            job_id = await tour.job(f"{where}.work")
            await tour.running(job_id)
            if number:
                await client.cancel_job(job_id)
            else:
                await client.cancel_run((await tour.runs(job_id))[0].run_id)
            await tour.ended(job_id, "CANCELLED")

    greet = tour.app.tasks["near.greet"]
    by_sdk = await again(lambda: greet.options(idempotency_key="by the SDK").submit(to="the SDK"))
    tour.jobs.add(by_sdk.job_id)
    await tour.ended(by_sdk.job_id)
    assert len(await again(lambda: tour.app.runs(by_sdk))) == 1

    twice: dict[str, Any] = {"args": {"to": "the same"}, "idempotency_key": "asked again"}
    first = await tour.job("near.greet", **twice)
    await client.change_tenant("default", limits={"stored_jobs": 0})
    for _ in range(5):
        assert await tour.job("near.greet", **twice) == first, "what is there already needs no room"
    await client.change_tenant("default", limits={"stored_jobs": 1000})

    hourly = await tour.job("near.greet", every="1h", start_at=datetime(2030, 1, 1, tzinfo=UTC))
    assert (await client.change_job(hourly, every="2h")).version >= 2
    assert (await client.pause_job(hourly)).status == JobStatus.PAUSED
    assert (await client.resume_job(hourly)).status == JobStatus.ACTIVE
    await tour.once(lambda: client.trigger_job(hourly), lambda: tour.many(hourly, 1))
    await tour.ended(hourly)
    start = datetime.now(UTC) - timedelta(hours=10, minutes=30)
    daily = await tour.job("near.greet", every="1h", start_at=start, misfire="skip")
    before = len(await tour.runs(daily))
    await tour.once(
        lambda: client.backfill_job(daily, start, start + timedelta(hours=3), rate=1000),
        lambda: tour.many(daily, before + 3),
    )
    assert len(await tour.runs(daily)) == before + 3
    await client.cancel_job(daily)
    removed = await tour.job("near.greet", run_at=datetime(2030, 1, 1, tzinfo=UTC))
    await tour.gone(lambda: client.delete_job(removed))
    tour.jobs.remove(removed)


async def mending(tour: Tour) -> None:
    client = tour.client
    failed = [await tour.job(f"{where}.fail", retries=0) for where in WHERE for _ in range(3)]
    for job_id in failed:
        await tour.ended(job_id, "FAILED")
    assert [group.count for group in (await client.group_dead_letters()).groups] == [6]
    run = (await tour.runs(failed[0]))[0]
    await tour.once(lambda: client.retry_run(run.run_id), lambda: tour.many(failed[0], 2))
    # Each dead letter is replayed once, whichever caller asks, and however often.
    await tour.once(lambda: client.replay_dead_letters(job_id=failed[1]), lambda: tour.many(failed[1], 2))
    for job_id in failed[:2]:
        await tour.ended(job_id, "FAILED")
        assert len(await tour.runs(job_id)) == 2

    async def none_left() -> bool:
        return not [letter async for letter in client.walk(run_requests.list_dead_letters())]

    await tour.once(lambda: client.discard_dead_letters(), none_left)
    assert await none_left()


async def graphs(tour: Tour) -> None:
    client = tour.client
    for where in WHERE:
        nodes = {
            "one": {"task": f"{where}.greet", "args": {"to": "one"}},
            "two": {"task": f"{where}.greet", "args": {"to": "two"}},
            "sum": {"task": f"{where}.sum_up", "depends_on": ["one", "two"], "retries": 0},
            "no": {"task": f"{where}.fail", "depends_on": ["sum"], "retries": 0},
        }
        graph = await client.create_graph(nodes, name=where)
        tour.jobs |= {node.job_id for node in graph.nodes}
        by_name = {node.name: node for node in graph.nodes}
        assert (await tour.ended(by_name["sum"].job_id)).result == ["hello one", "hello two"]
        await tour.ended(by_name["no"].job_id, "FAILED")
        summed = by_name["sum"].run_id
        parents = [parent.name async for parent in client.walk(graph_requests.list_parents(summed))]
        assert sorted(parents) == ["one", "two"]
        failed = by_name["no"].job_id
        await tour.once(lambda: client.rerun_graph(graph.graph_id), lambda: tour.many(failed, 2))  # noqa: B023
        await tour.ended(failed, "FAILED")
        assert len(await tour.runs(failed)) == 2
    never = await client.create_graph({"later": {"task": "near.greet", "run_in": "1h"}})
    tour.jobs |= {node.job_id for node in never.nodes}
    assert (await client.cancel_graph(never.graph_id)).counts == {"CANCELLED": 1}
    assert (await client.get_graph(never.graph_id)).counts == {"CANCELLED": 1}
    assert len([graph async for graph in client.walk(graph_requests.list_graphs())]) == 3


async def settings_of_a_tenant(tour: Tour) -> None:
    client = tour.client
    await client.put_calendar("holidays", ["2030-01-01"])
    job_id = await tour.job("near.greet", cron="0 9 * * *", exclude={"calendars": ["holidays"]})
    assert [each.name for each in (await client.list_calendars()).items] == ["holidays"]
    await client.put_calendar("holidays", ["2030-01-01", "2030-01-02"])
    assert len((await client.get_calendar("holidays")).dates) == 2
    await client.cancel_job(job_id)
    await client.put_calendar("spare", ["2030-01-01"])
    await tour.gone(lambda: client.delete_calendar("spare"))

    await client.put_queue("slow", running=1, rate="100/s")
    assert (await client.pause_queue("slow")).paused
    held = await tour.job("near.greet", queue="slow")
    assert not (await client.resume_queue("slow")).paused
    await tour.ended(held)
    assert (await client.get_queue("slow")).name == "slow"
    assert "slow" in [queue.name for queue in (await client.list_queues()).items]

    await client.put_secret("token", "s3cret-value", hosts=[f"127.0.0.1:{tour.receiver.port}"])
    assert [each.name for each in (await client.list_secrets()).items] == ["token"]

    async def signs() -> tuple[Any, ...]:
        return (await client.list_signing_secrets()).items

    await tour.once(lambda: client.rotate_signing_secret(), signs)
    while not (await client.re_encrypt()).done:
        pass
    assert (await client.get_encryption()).resealed == 0
    assert len(await signs()) == 1


async def keyed_requests(tour: Tour) -> None:
    """A key that was taken without an answer stays taken: who is told so asks with another one."""
    client = tour.client
    ask = run_requests.create_payload(b"once")

    async def stored(key: str) -> str:
        keyed = ask._replace(headers={**ask.headers, "Idempotency-Key": key})
        for _ in range(20):
            with contextlib.suppress(ServerUnavailable):
                return (await client.send(keyed)).payload_ref
        raise AssertionError("never answered")

    for number in range(20):
        with contextlib.suppress(KeyInFlight):
            assert await stored(f"key {number}") == await stored(f"key {number}")
            return
    raise AssertionError("every key stays taken")


async def payloads_and_targets(tour: Tour) -> None:
    client, receiver = tour.client, tour.receiver
    stored: list[Any] = []

    async def store() -> None:
        stored.append(await client.create_payload(b'{"to": "the payload"}'))

    async def no() -> bool:
        return False  # a caller that does not know its name stores it again; nothing refers to the first

    await tour.once(store, no)
    ref = stored[-1].payload_ref
    assert await client.get_payload(ref) == b'{"to": "the payload"}'
    job_id = await tour.job("far.work", payload_ref=ref)
    await tour.running(job_id)
    [run] = await tour.runs(job_id)
    for worker in (await client.list_workers()).items:
        if worker.worker_id != run.worker_id:
            with contextlib.suppress(NotFound):  # it is not for the API to speak for the node's own worker
                assert (await client.hand_back_runs(worker.worker_id, "x", HandBack())).handed_back == 0
    token = tour.tokens[parse("wrk", run.worker_id)]
    stranger = HandBack(not_held=[show("run", new_id())])
    assert (await client.hand_back_runs(run.worker_id, token, stranger)).handed_back == 0
    assert (await client.compare_runs(run.worker_id, token, Compare([1], []))).runs in ([], [run.run_id])
    assert await client.get_held_payload(run.worker_id, token, ref) == b'{"to": "the payload"}'
    await client.cancel_job(job_id)
    await tour.ended(job_id, "CANCELLED")
    await tour.gone(lambda: client.erase_payload(ref))

    calls = len(receiver.requests)
    header = {"authorization": {"secret": "token"}}
    job_id = await tour.job(None, target={"type": "http", "url": receiver.url, "headers": header})
    await tour.ended(job_id)
    assert [each.headers["authorization"] for each in receiver.requests[calls:]] == ["s3cret-value"]
    await tour.gone(lambda: client.delete_secret("token"))

    receiver.answers = [(202, {}, b"")]
    job_id = await tour.job(None, target={"type": "http", "url": receiver.url, "finish_within": "1h"})
    link = (await receiver.got(calls + 2))[-1].headers["duetime-completion"]
    await client.complete_run(link.rpartition("/")[2], result={"rows": 7})
    assert (await tour.ended(job_id)).result == {"rows": 7}
    receiver.answers = [(200, {}, b"")]
    breakers = (await client.list_breakers()).items
    assert [each.target for each in breakers]
    await client.reset_breaker(breakers[0].target)


async def notifications(tour: Tour) -> None:
    client, receiver = tour.client, tour.receiver
    before = len(receiver.requests)
    await client.put_subscription("ops", {"type": "webhook", "url": receiver.url}, ["run.dead", "workers.none"])
    assert [each.name for each in (await client.list_subscriptions()).items] == ["ops"]

    async def told(kind: str) -> None:
        await eventually(lambda: kind in [each.json["type"] for each in receiver.requests[before:]])

    for _ in range(20):
        with contextlib.suppress(KeyInFlight):  # as in `keyed_requests`
            assert (await client.test_subscription("ops")).run_id
            break
    await told("test")
    figures: tuple[FigureName, ...] = ("dead_letters", "free_slots", "backlog")
    await tour.ended(await tour.job("near.fail", retries=0), "FAILED")
    await told("run.dead")
    await tour.job(UNSERVED)
    await client.put_alert("unserved", "unserved", 0)
    await told("workers.none")
    await tour.gone(lambda: client.delete_alert("unserved"))
    await tour.gone(lambda: client.delete_subscription("ops"))
    for figure in figures:
        await client.put_alert(figure, figure, 1e6)
    job_id = await tour.job("near.greet", every="1h")
    for index, (figure, threshold, subject) in enumerate(SUBJECTS):
        given = {"job_id": job_id} if subject == "job" else {"tag": "money"} if subject == "tag" else {}
        await client.put_alert(f"rule-{index}", figure, threshold, **given)
    assert len((await client.list_alerts()).items) == 3 + len(SUBJECTS)
    tour.told_from = before


async def checkins(tour: Tour) -> None:
    client = tour.client
    await client.put_checkin("backup", every=60)
    await client.pause_checkin("backup")
    await client.resume_checkin("backup")
    await client.put_checkin("stays", every=60)
    for name in ("backup", "stays"):
        url = (await client.rotate_checkin(name)).ping_url
        assert url is not None
        await client.ping_event(url.rpartition("/")[2], "fail")

    async def is_open() -> bool:
        return (await client.get_checkin("backup")).open

    await eventually(is_open)
    assert [each.last_ping for each in (await client.list_checkins()).items] == ["fail", "fail"]
    await tour.gone(lambda: client.delete_checkin("backup"))


async def figures(tour: Tour) -> None:
    client = tour.client
    watching = asyncio.create_task(anext(client.watch_events()))
    job_id = await tour.job("near.greet", every="1s")
    assert (await asyncio.wait_for(watching, 30)).kind
    await client.cancel_job(job_id)
    assert [job async for job in client.walk(job_requests.list_jobs(page_size=10))]
    assert (await client.get_me()).role == "root"
    assert (await client.get_stats()).jobs.kind == "exact"
    await client.list_fires()
    assert (await client.get_demand("default")).queue == "default"
    assert len((await client.get_trends()).steps) == 60
    assert (await client.list_jobs(order="name")).items
    for ahead in ("1h", "14s"):  # without a run, and with one
        job_id = await tour.job("near.greet", run_in=ahead)
        await client.explain_job(job_id)
        await client.cancel_job(job_id)
    moment = datetime.now(UTC)
    await client.list_jobs(fires_from=moment, fires_until=moment + timedelta(hours=1))
    assert (await client.list_jobs(order="name")).items  # the job of the search has one
    assert (await client.get_trends()).steps
    some = sorted(tour.jobs)[:20]
    assert len((await client.list_recent_runs(some)).items) == 20
    assert [run async for run in client.walk(run_requests.list_runs())]
    assert (await client.list_workers()).items
    assert (await client.list_tasks()).items
    assert [entry async for entry in client.walk(admin_requests.list_audit())]
    assert (await client.preview_schedule("every day at 9")).fires
    assert b"duetime_" in await client.metrics()


async def archive(tour: Tour) -> None:
    client, day = tour.client, date_of(LONG_AGO)

    async def removed() -> bool:
        await client.run_archive()  # again, as an operator would
        return any(each.day == day and each.removed_at is not None for each in (await client.get_archive()).days)

    await eventually(removed)
    assert [each.rows async for each in client.walk(archive_requests.list_archive())] == [30]
    assert len([run async for run in client.walk(archive_requests.list_archived_runs(day))]) == 30
    cursor: str | None = ""
    restored = 0
    while cursor is not None:
        answer = await client.restore_archive(day, cursor=cursor or None)
        restored, cursor = restored + answer.rows, answer.next_cursor
    assert restored <= 30
    await client.erase_archive()
    assert [each async for each in client.walk(archive_requests.list_archive())] == []
    await client.stop_archive()


async def streams(tour: Tour) -> None:
    """Runs that a stream carries, and one that comes out of it into the store because it failed."""
    client, redis = tour.client, running(RedisServer)
    await client.put_queue("carried", stream={"address": redis.address})
    # The remote worker's first: the node's own worker leaves a stream to others unless it had runs of its own lately.
    for where in reversed(WHERE):
        carried = 0
        async with asyncio.timeout(60):  # the servers learn of the stream when they next read the queues
            # A server that serves remote workers reads the stream, too, and stores what it takes.
            while carried < 5 or (where == "near" and "end_carried" not in tour.lies.told):
                receipt = await client.create_job(f"{where}.greet", args={"to": f"{carried}"}, queue="carried")
                tour.jobs.add(receipt.job_id)
                assert (await tour.ended(receipt.job_id)).result == f"hello {carried}"
                carried += receipt.via == "stream"
        await tour.ended(await tour.job(f"{where}.fail", queue="carried", retries=0), "FAILED")
    await client.put_queue("carried", stream=None)


async def sources(tour: Tour) -> None:
    """Each message becomes one job."""
    client, redis = tour.client, running(RedisServer)
    assert isinstance(redis, RedisServer)
    broker = {"type": "redis", "address": f"127.0.0.1:{redis.port}", "stream": "lied-about", "tls": False}
    job = {"task": "near.greet", "args": {"to": {"$from": "body.to"}}, "queue": "from-messages"}
    redis.client().delete("lied-about")
    await client.put_source("greetings", broker, job)
    for number in range(5):
        redis.client().xadd("lied-about", {"body": f'{{"to": "{number}"}}'})
    query = job_requests.list_jobs(queue="from-messages")

    async def all_there() -> list[str]:
        found = [each.job_id async for each in client.walk(query)]
        return found if len(found) == 5 else []

    tour.jobs |= set(await eventually(all_there))
    assert (await client.pause_source("greetings")).status == "paused"
    assert (await client.resume_source("greetings")).status != "paused"
    assert (await client.get_source("greetings")).name == "greetings"
    assert [each.name for each in (await client.list_sources()).items] == ["greetings"]
    await tour.gone(lambda: client.delete_source("greetings"))


async def issuers(tour: Tour) -> None:
    client = tour.client
    await client.put_issuer("app", issuer=ISSUER, jwks=jwks(), role="operator")
    assert [each.name for each in (await client.list_issuers()).items] == ["app"]
    assert (await client.get_issuer("app")).issuer == ISSUER
    async with AsyncClient(client.url, token("ann"), tries=20) as ann:
        assert (await ann.get_me()).key_name == "app: ann"
        receipt = await ann.create_job("near.greet")
        tour.jobs.add(receipt.job_id)
        await tour.ended(receipt.job_id)
        [run] = [each async for each in ann.walk(run_requests.list_runs())]
        assert (await ann.get_run(run.run_id)).job_id == receipt.job_id
        watching = asyncio.create_task(anext(ann.watch_events()))
        hers = (await ann.create_job("near.greet", every="1s")).job_id
        tour.jobs.add(hers)
        async with asyncio.timeout(30):
            assert (await watching).kind
        await ann.cancel_job(hers)
    await tour.gone(lambda: client.delete_issuer("app"))


async def bulk_actions(tour: Tour) -> None:
    """Each object is handled once, and an extra run is made once for each job."""
    client = tour.client
    later = datetime(2030, 1, 1, tzinfo=UTC)
    ids = [await tour.job("near.greet", every="1h", start_at=later, queue="in-bulk") for _ in range(5)]

    async def carried_out(action: Any, **conditions: Any) -> Any:
        begun = await client.create_bulk_action(action, **conditions, idempotency_key=f"bulk {action}")

        async def end() -> Any:
            found = await client.get_bulk_action(begun.bulk_id)
            return found if found.status == "done" else None

        return await eventually(end)

    of_queue = {"queue": "in-bulk"}
    assert (await client.preview_bulk_action("run", jobs=of_queue)).affected == 5
    await carried_out("run", jobs=of_queue, rate=2.0)
    for job_id in ids:
        await tour.ended(job_id)
        assert len(await tour.runs(job_id)) == 1
    await carried_out("pause", jobs=of_queue)
    assert {(await client.get_job(job_id)).status for job_id in ids} == {JobStatus.PAUSED}
    slow = await client.create_bulk_action("run", jobs=of_queue, rate=0.1, idempotency_key="bulk, slowly")
    assert (await client.stop_bulk_action(slow.bulk_id)).status == "stopped"
    await carried_out("cancel", jobs=of_queue)
    assert {(await client.get_job(job_id)).status for job_id in ids} == {JobStatus.CANCELLED}
    assert len((await client.list_bulk_actions()).items) == 4


async def searching(tour: Tour) -> None:
    client = tour.client
    job_id = await tour.job("near.greet", name="needle in a stack", run_at=datetime(2030, 1, 1, tzinfo=UTC))

    async def found() -> bool:
        return [each.job_id for each in (await client.list_jobs(search="eedle")).items] == [job_id]

    await eventually(found)
    await client.cancel_job(job_id)


async def usage_and_export(tour: Tour) -> None:
    client = tour.client

    async def counted() -> Any:
        return (await client.get_usage()).items

    assert (await eventually(counted))[0].runs > 0
    assert [each async for each in client.walk(usage_requests.list_usage())]
    for section in (await client.begin_export()).sections:
        cursor: str | None = ""
        while cursor is not None:
            cursor = (await client.export_section(section, cursor=cursor or None)).next_cursor


async def erasure(tour: Tour) -> None:
    """A tenant that is to be deleted, is not after all, and then is."""
    client = tour.client
    number = (await client.get_tenant("acme")).number

    async def planned() -> list[int]:
        return [each.number async for each in client.walk(admin_requests.list_erasures(name="acme"))]

    async with AsyncClient(client.url, tour.key, tenant="acme", tries=20) as acme:
        for hour in range(5):
            await acme.create_job("near.greet", run_in=f"{hour + 1}h")
        await tour.once(lambda: client.delete_tenant("acme", confirm="acme", grace="1h"), planned)

        async def taken_back() -> bool:
            return (await client.get_tenant("acme")).state == "ACTIVE"

        await tour.once(lambda: client.undelete_tenant("acme"), taken_back)
        assert await planned() == []
    await tour.once(lambda: client.delete_tenant("acme", confirm="acme", grace="0s"), planned)

    async def done() -> bool:
        return (await client.get_erasure(number)).status == "DONE"

    await eventually(done, within=60)
    assert (await client.get_erasure(number)).removed["jobs"] == 5
    assert "acme" not in [each.name async for each in client.walk(admin_requests.list_tenants())]


PARTS = (
    tenants_and_keys,
    sessions,
    jobs,
    mending,
    graphs,
    settings_of_a_tenant,
    keyed_requests,
    payloads_and_targets,
    notifications,
    checkins,
    archive,
    streams,
    sources,
    issuers,
    bulk_actions,
    searching,
    usage_and_export,
    erasure,
    figures,
)
