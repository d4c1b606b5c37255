"""How much a tenant, a key and an address may ask for."""

import asyncio
import re
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest

from duetime import AsyncClient
from duetime.api.table import ENDPOINTS
from duetime.api.usage_limits import _BY_NAME, LIMITS, limit_of
from duetime.client.transport import Response, Transport
from duetime.clock import monotonic, monotonic_from
from duetime.errors import RateLimited
from duetime.ids import new_id, show
from duetime.model.access import Role
from duetime.model.tenant import NO_LIMITS, TenantLimits
from duetime.wire.workers import TOKEN_HEADER
from tests.contract.hands import hand, job, submit
from tests.support.served import Answer, Served, served
from tests.support.waiting import eventually

FIELD = re.compile(r'"[a-z-]+"(;[a-z]+=([0-9]+|"[a-z-]+"))+(, "[a-z-]+"(;[a-z]+=([0-9]+|"[a-z-]+"))+)*')


def refused(answer: Answer) -> bool:
    if answer.status != 429:
        return False
    assert answer.code == "rate_limited"
    assert int(answer.headers["Retry-After"]) >= 1
    for name in ("RateLimit", "RateLimit-Policy"):
        assert FIELD.fullmatch(answer.headers[name]), answer.headers[name]
    return True


async def counted(api: Served, limit: str) -> float:
    page = (await api.get("/metrics")).body.decode()
    found = re.search(rf'^duetime_http_limited_total{{limit="{limit}"}} (\S+)$', page, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_every_endpoint_that_takes_a_key_counts_against_a_limit() -> None:
    assert {endpoint.name for endpoint in ENDPOINTS} >= set(_BY_NAME)
    by_limit = Counter(limit_of(endpoint) for endpoint in ENDPOINTS)
    assert set(by_limit) == {*LIMITS, None}
    for endpoint in ENDPOINTS:
        assert (limit_of(endpoint) is None) <= (endpoint.may is None), endpoint.name


async def test_reads_a_second_of_a_key_and_of_its_tenant(database_url: str) -> None:
    async with served(database_url, reads_per_second=5, key_share=60) as api:
        tenant = await api.tenant("acme")
        first, second = [await api.key(Role.VIEWER, tenant.id) for _ in range(2)]
        now = monotonic()
        with monotonic_from(lambda: now):
            answers = [await api.get("/v1/jobs", key=first) for _ in range(7)]
            assert [answer.status for answer in answers] == [200] * 6 + [429]
            assert answers[0].headers["RateLimit-Policy"] == '"key-reads";q=6;w=2, "tenant-reads";q=10;w=2'
            assert answers[0].headers["RateLimit"] == '"key-reads";r=5;t=1, "tenant-reads";r=9;t=1'
            assert refused(answers[-1]) and "key may send 3 requests that read" in answers[-1].json["detail"]
            answers = [await api.get("/v1/runs", key=second) for _ in range(5)]
            assert [answer.status for answer in answers] == [200] * 4 + [429]
            assert refused(answers[-1]) and "tenant may send 5" in answers[-1].json["detail"]
            assert (await api.get("/v1/jobs")).status == 200, "others, and the operator, are not concerned"
            operator = {"Duetime-Tenant": "acme"}
            assert (await api.get("/v1/jobs", headers=operator)).status == 200
            assert (await api.post("/v1/jobs", {"task": "t"}, headers=operator)).status == 201
            assert await counted(api, "reads") == 2
            now += 1.0
            assert (await api.get("/v1/jobs", key=first)).status == 200


async def test_changes_and_work_are_counted_apart(database_url: str) -> None:
    async with served(database_url, changes_per_second=1, worker_requests_per_second=1, key_share=100) as api:
        tenant = await api.tenant("acme")
        key = await api.key(Role.ADMIN, tenant.id)
        now = monotonic()
        with monotonic_from(lambda: now):
            changes = [await api.post("/v1/queues/q/pause", key=key) for _ in range(3)]
            work = [await api.post("/v1/workers", {"name": "w", "tasks": ["t"], "slots": 1}, key=key) for _ in range(3)]
            assert [answer.status for answer in changes] == [200, 200, 429] and refused(changes[-1])
            assert [answer.status for answer in work] == [201, 201, 429] and refused(work[-1])
            assert (await api.get("/v1/queues", key=key)).status == 200


async def test_event_streams_at_once(database_url: str) -> None:
    async with served(database_url, event_streams=4, key_share=50) as api, AsyncExitStack() as stack:
        tenant = await api.tenant("acme")
        first, second = [await api.key(Role.VIEWER, tenant.id) for _ in range(2)]

        async def watch(key: str) -> aiohttp.ClientResponse:
            headers = {"Authorization": f"Bearer {key}"}
            return await stack.enter_async_context(api.http.get(api.url + "/v1/events", headers=headers))

        streams = [await watch(key) for key in (first, first, second, second)]
        assert [stream.status for stream in streams] == [200] * 4
        assert streams[1].headers["RateLimit"] == '"key-streams";r=0, "tenant-streams";r=2'
        assert 'q=4;qu="concurrent-requests"' in streams[1].headers["RateLimit-Policy"]
        answer = await api.get("/v1/events", key=first)
        assert refused(answer) and "key may have 2 event streams open" in answer.json["detail"]
        third = await api.key(Role.VIEWER, tenant.id)
        answer = await api.get("/v1/events", key=third)
        assert refused(answer) and "tenant may have 4" in answer.json["detail"]
        assert await counted(api, "streams") == 2
        streams[0].close()

        async def room() -> bool:
            return (await watch(first)).status == 200

        await eventually(room)


async def test_long_polls_at_once(database_url: str) -> None:
    async with served(database_url, long_polls=2, key_share=100) as api:
        tenant = await api.tenant("acme")
        key = await api.key(Role.WORKER, tenant.id)
        made = await api.post("/v1/workers", {"name": "w", "tasks": ["t"], "slots": 9}, key=key)
        path, headers = f"/v1/workers/{made.json['worker_id']}/claim", {TOKEN_HEADER: made.json["token"]}

        async def claim(number: int, wait: float) -> Answer:
            return await api.post(path, {"claim_no": number, "room": 1, "wait": wait}, key=key, headers=headers)

        waiting = [asyncio.ensure_future(claim(number, 20.0)) for number in (1, 2)]
        await eventually(lambda: api.service.limits._open.get(("polls", tenant.id)) == 2)
        assert refused(await claim(3, 0.0))
        submitter = await api.key(Role.SUBMITTER, tenant.id)
        await api.post("/v1/jobs/batch", [{"task": "t"}] * 2, key=submitter)
        assert {answer.status for answer in await asyncio.gather(*waiting)} == {200}
        assert not api.service.limits._open
        assert (await claim(3, 0.0)).status == 200


async def test_failed_authentications_of_an_address(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(database_url, failed_logins=5) as api:
        tenant = await api.tenant("acme")
        good, unused = [await api.key(Role.VIEWER, tenant.id) for _ in range(2)]
        assert (await api.get("/v1/jobs", key=good)).status == 200
        assert await counted(api, "logins") == 0
        asked: list[Any] = []
        look = api.store.access.key_by_hash

        async def key_by_hash(hash: bytes) -> Any:
            asked.append(hash)
            return await look(hash)

        monkeypatch.setattr(api.store.access, "key_by_hash", key_by_hash)
        now = monotonic()
        with monotonic_from(lambda: now):
            assert (await api.get("/v1/jobs", key=None)).status == 401, "no key is no guess"
            wrong = [good[:-1] + ("0" if good[-1] != "0" else "1")] * 8
            answers = [await api.get("/v1/jobs", key=key) for key in wrong]
            assert [answer.status for answer in answers] == [401] * 5 + [429] * 3
            assert refused(answers[-1])
            before = len(asked)
            assert refused(await api.get("/v1/jobs", key=unused)), "nothing is looked up any more"
            assert len(asked) == before
            api.service.gate.forget()
            assert (await api.get("/v1/jobs", key=good)).status == 200, "what was valid before is looked up"
            answers = [await api.post("/login", {"key": "dt_live_x"}, key=None) for _ in range(6)]
            assert [answer.status for answer in answers] == [401] * 5 + [429], "logging in is counted apart"
            answers = [await api.get("/login?token=x", key=None, headers={"Accept": "text/html"}) for _ in range(2)]
            assert {answer.status for answer in answers} == {429}
            assert await counted(api, "logins") == 7
            now += 13.0
            assert (await api.get("/v1/jobs", key=unused)).status == 200


async def test_links_that_lead_nowhere_are_failed_logins(database_url: str) -> None:
    async with served(database_url, failed_logins=2) as api:
        browser = {"Accept": "text/html"}
        answers = [await api.get("/login?token=x", key=None, headers=browser) for _ in range(3)]
        assert [answer.status for answer in answers] == [303, 303, 429]


async def test_a_part_of_what_a_tenant_may_submit(database_url: str) -> None:
    async with served(database_url, key_submission_share=50) as api:
        tenant = await api.tenant("acme", limits=TenantLimits(submissions_per_second=0.02))
        first, second = [await api.key(Role.SUBMITTER, tenant.id) for _ in range(2)]
        assert (await api.post("/v1/jobs", {"task": "t"}, key=first)).status == 201
        answer = await api.post("/v1/jobs", {"task": "t"}, key=first)
        assert refused(answer) and "the key may submit 0.01 jobs" in answer.json["detail"]
        answer = await api.post("/v1/jobs", {"task": "t"}, key=second)
        assert refused(answer) and "the tenant may submit 0.02 jobs" in answer.json["detail"]
        assert await counted(api, "submissions") == 2


PAST = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:29:30Z"}
OFTEN = {"task": "t", "every": "1m", "start_at": "2026-01-01T00:00:00Z"}


async def test_runs_of_stored_jobs_count_as_submissions(api: Served) -> None:
    tenant = await api.tenant("acme", limits=TenantLimits(submissions_per_second=0.01))
    key = await api.key(Role.ADMIN, tenant.id)
    path = f"/v1/jobs/{(await api.post('/v1/jobs', OFTEN, key=key)).json['job_id']}"
    answer = await api.post(f"{path}/trigger", key=key)
    assert refused(answer) and "may submit 0.01 jobs a second" in answer.json["detail"]
    assert refused(await api.post(f"{path}/backfill", PAST, key=key))
    assert refused(await api.post("/v1/dead-letters/replay", {"task": "t"}, key=key))
    assert refused(await api.post(f"/v1/runs/{show('run', new_id())}/retry", key=key))
    assert (await api.post(f"{path}/pause", key=key)).status == 200, "it makes no run"
    assert await counted(api, "submissions") == 4


async def test_a_backfill_counts_as_its_runs(api: Served) -> None:
    tenant = await api.tenant("acme", limits=NO_LIMITS)
    key = await api.key(Role.ADMIN, tenant.id)
    path = f"/v1/jobs/{(await api.post('/v1/jobs', OFTEN, key=key)).json['job_id']}"
    limits = {"limits": {"submissions_per_second": 0.5}}
    assert (await api.ask("PATCH", "/v1/admin/tenants/acme", limits)).status == 200
    answer = await api.post(f"{path}/backfill", PAST, key=key)
    assert (answer.status, answer.json["runs"]) == (202, 30), "a full bucket goes into debt, as for a batch"
    answer = await api.post("/v1/jobs", {"task": "t"}, key=key)
    assert refused(answer) and int(answer.headers["retry-after"]) > 30


async def limited(api: Served, rate: float) -> tuple[str, str]:
    """A recurring job of a tenant that may submit this many a second, and a key of the tenant."""
    tenant = await api.tenant("acme", limits=NO_LIMITS)
    key = await api.key(Role.ADMIN, tenant.id)
    path = f"/v1/jobs/{(await api.post('/v1/jobs', OFTEN, key=key)).json['job_id']}"
    limits = {"limits": {"submissions_per_second": rate}}
    assert (await api.ask("PATCH", "/v1/admin/tenants/acme", limits)).status == 200
    return path, key


async def test_a_repeated_request_is_not_counted_and_not_refused(api: Served) -> None:
    path, key = await limited(api, 0.01)
    graph = {"nodes": {"a": {"task": "t"}}}
    for place, (at, body) in enumerate(
        [
            (f"{path}/backfill", PAST),
            (f"{path}/trigger", None),
            ("/v1/jobs", {"task": "t"}),
            ("/v1/jobs/batch", [{"task": "t"}, {"task": "t"}]),
            ("/v1/graphs", graph),
            ("/v1/dead-letters/replay", {"task": "t"}),
        ]
    ):
        limits = {"limits": {"submissions_per_second": None}}
        assert (await api.ask("PATCH", "/v1/admin/tenants/acme", limits)).status == 200
        again = {"Idempotency-Key": f"key-{place}"}
        first = await api.post(at, body, key=key, headers=again)
        assert first.status < 300, first.body
        limits = {"limits": {"submissions_per_second": 0.01}}
        assert (await api.ask("PATCH", "/v1/admin/tenants/acme", limits)).status == 200
        if place == 0:
            assert (await api.post("/v1/jobs", {"task": "t"}, key=key)).status == 201
        assert refused(await api.post(at, body, key=key)), "nothing is left for a new request"
        for _ in range(3):
            repeated = await api.post(at, body, key=key, headers=again)
            assert repeated.status == first.status, repeated.body
            assert repeated.headers["idempotency-replayed"] == "true"


async def test_a_repeated_request_gives_back_what_it_was_counted_as(api: Served) -> None:
    path, key = await limited(api, 1.5)
    again = {"Idempotency-Key": "once"}
    for _ in range(9):
        answer = await api.post(f"{path}/trigger", key=key, headers=again)
        assert answer.status == 201, answer.body


async def test_a_refused_backfill_counts_as_one(api: Served) -> None:
    path, key = await limited(api, 1.9)
    assert (await api.post(f"{path}/cancel", key=key)).status == 200
    assert (await api.post(f"{path}/backfill", PAST, key=key)).status == 409
    assert (await api.post("/v1/jobs", {"task": "t"}, key=key)).status == 201


async def test_a_replay_counts_as_the_runs_that_it_makes(api: Served) -> None:
    """More than it was known to make are a debt."""
    _, key = await limited(api, 0.5)
    tenant_id = (await api.store.tenants.tenant("acme")).id
    await submit(api.store, *[job(tenant_id=tenant_id) for _ in range(30)], tenant_id=tenant_id)
    worker = await hand(api.store)
    for run in await worker.claim():
        await worker.fail(run)
    answer = await api.post("/v1/dead-letters/replay", {"task": "greet"}, key=key)
    assert len(answer.json["runs"]) == 30
    answer = await api.post("/v1/jobs", {"task": "t"}, key=key)
    assert refused(answer) and int(answer.headers["retry-after"]) > 30


async def test_submissions_are_limited_across_servers(migrated: str) -> None:
    """Two servers on one database let as many in as one: not twice as many."""
    rate, seconds = 40.0, 1.5
    async with served(migrated) as one, served(migrated) as two:
        tenant = await one.tenant("acme", limits=TenantLimits(submissions_per_second=rate))
        key = await one.key(Role.SUBMITTER, tenant.id)
        began = monotonic()
        accepted = 0

        async def submit(api: Served) -> None:
            nonlocal accepted
            while monotonic() - began < seconds:
                answer = await api.post("/v1/jobs", {"task": "t"}, key=key)
                assert answer.status == 201 or refused(answer), answer.body
                accepted += answer.status == 201

        await asyncio.gather(*(submit(api) for api in (one, two) for _ in range(4)))
        elapsed = monotonic() - began
    assert accepted <= rate * (elapsed + 2.0)
    assert accepted >= 0.5 * rate * elapsed


async def test_a_client_waits_as_long_as_it_is_told(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = await api.tenant("acme", limits=TenantLimits(submissions_per_second=0.01))
    tries: list[float | None] = []
    once = Transport.once

    async def hurried(self: Transport, *args: Any) -> Response:
        try:
            return await once(self, *args)
        except RateLimited as error:
            tries.append(error.retry_after)
            if len(tries) < 3:
                error.retry_after = 0.01
            raise

    monkeypatch.setattr(Transport, "once", hurried)
    async with AsyncClient(api.url, await api.key(Role.ADMIN, tenant.id)) as client:
        await client.create_job("t")
        with pytest.raises(RateLimited, match="may submit"):
            await client.create_job("t")
    assert len(tries) == 3, "what can be waited for is repeated; the last was too long to wait for"
    assert all(wished is not None and 50 <= wished <= 100 for wished in tries)
