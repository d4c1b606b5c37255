"""What stands around jobs: limits, quotas, payloads, queues, events, and a database that falls behind."""

import asyncio
import itertools
import json
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

import psycopg
import pytest

from chaos.real.disk import can_be_filled, fill, make_room, small_disk
from duetime.clock import monotonic_from
from duetime.engine import submit_batcher
from duetime.errors import StoreUnavailable
from duetime.ids import parse
from duetime.model.access import Role
from duetime.model.job import DEFAULT_TENANT
from duetime.model.tenant import TenantLimits
from duetime.sdk.app import App
from tests.support.lying import Lie
from tests.support.served import ENCRYPTION, OTHER_KEY, Served, served
from tests.support.waiting import eventually
from tests.support.working import quick_settings, working


async def test_submissions_a_second(api: Served) -> None:
    tenant = await api.tenant("slow", limits=TenantLimits(submissions_per_second=0.01))
    key = await api.key(Role.ADMIN, tenant.id)
    first = await api.post("/v1/jobs", {"task": "t"}, key=key)
    assert (first.status, first.headers["RateLimit-Policy"], first.headers["RateLimit"]) == (
        201,
        '"tenant-submissions";q=1;w=100',
        '"tenant-submissions";r=0;t=100',
    )
    answer = await api.post("/v1/jobs", {"task": "t"}, key=key)
    assert (answer.status, answer.code) == (429, "rate_limited")
    assert 50 <= int(answer.headers["Retry-After"]) <= 100 and ";r=0;" in answer.headers["RateLimit"]
    assert (await api.get("/v1/jobs", key=key)).status == 200, "reading is not submitting"
    assert (await api.post("/v1/jobs", {"task": "t"})).status == 201, "others are not concerned"


async def test_a_batch_is_paid_for_after_it(api: Served) -> None:
    tenant = await api.tenant("slow", limits=TenantLimits(submissions_per_second=1))
    key = await api.key(Role.ADMIN, tenant.id)
    assert (await api.post("/v1/jobs/batch", [{"task": "t"}] * 100, key=key)).status == 200
    answer = await api.post("/v1/jobs/batch", [{"task": "t"}], key=key)
    assert answer.status == 429 and int(answer.headers["Retry-After"]) >= 60


async def test_a_quota_of_stored_jobs(api: Served) -> None:
    tenant = await api.tenant("small", limits=TenantLimits(stored_jobs=3))
    key = await api.key(Role.ADMIN, tenant.id)
    made = [await api.post("/v1/jobs", {"task": "t", "every": "1h"}, key=key) for _ in range(3)]
    answer = await api.post("/v1/jobs", {"task": "t"}, key=key)
    assert (answer.status, answer.code) == (403, "quota_exceeded")
    assert (await api.post("/v1/jobs/batch", [{"task": "t"}] * 2, key=key)).code == "quota_exceeded"
    await api.ask("DELETE", f"/v1/jobs/{made[0].json['job_id']}", key=key)

    async def room() -> bool:
        return (await api.post("/v1/jobs", {"task": "t"}, key=key)).status == 201

    await eventually(room)


async def test_a_database_that_falls_behind(migrated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit_batcher, "LONGEST_WAIT", 0.2)
    async with served(migrated) as api:
        await api.post("/v1/jobs", {"task": "t"})
        with psycopg.connect(migrated) as blocking:
            blocking.execute("lock table duetime.runs in access exclusive mode")
            stuck = asyncio.create_task(api.post("/v1/jobs", {"task": "t"}))
            waiting = "select 1 from pg_locks where not granted and relation = 'duetime.runs'::regclass"
            await eventually(lambda: blocking.execute(waiting).fetchone(), what="the first one waits for the table")

            async def refused() -> Any:
                answer = await asyncio.wait_for(api.post("/v1/jobs/batch", [{"task": "t"}]), 5)
                return answer if answer.status == 503 else None

            await asyncio.sleep(0.3)
            answer = await eventually(refused)
            assert (answer.code, answer.headers["Retry-After"]) == ("overloaded", "1")
            blocking.rollback()
        assert (await stuck).status == 201
        assert (await api.post("/v1/jobs", {"task": "t"})).status == 201


async def test_what_one_tenant_waits_for_is_not_held_against_another(
    migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit_batcher, "MOST_OF_ONE", 3)
    monkeypatch.setattr(submit_batcher, "LONGEST_WAIT", 60)
    async with served(migrated) as api:
        slow = await api.tenant("slow")
        key, really = await api.key(Role.ADMIN, slow.id), api.store.intake.submit
        under_way, may_answer = asyncio.Event(), asyncio.Event()

        async def submit(tenant_id: int, jobs: Any) -> Any:
            if tenant_id == slow.id:
                under_way.set()
                await may_answer.wait()
            return await really(tenant_id, jobs)

        monkeypatch.setattr(api.store.intake, "submit", submit)
        first = asyncio.create_task(api.post("/v1/jobs", {"task": "t"}, key=key))
        await under_way.wait()
        asked = [asyncio.create_task(api.post("/v1/jobs", {"task": "t"}, key=key)) for _ in range(6)]
        await eventually(lambda: sum(each.done() for each in asked) == 3, what="as many wait as may")
        monkeypatch.setattr(submit_batcher, "LONGEST_WAIT", 0)
        assert (await api.post("/v1/jobs", {"task": "t"})).status == 201
        assert (await api.post("/v1/jobs/batch", [{"task": "t"}])).status == 200
        assert (await api.post("/v1/jobs/batch", [{"task": "t"}], key=key)).code == "overloaded"
        may_answer.set()
        answers = await asyncio.gather(first, *asked)
        assert sorted(each.status for each in answers) == [201] * 4 + [503] * 3


async def test_a_database_that_does_not_answer(migrated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit_batcher, "ANSWER_TIMEOUT", 0.2)
    async with served(migrated) as api:
        await api.post("/v1/jobs", {"task": "t"})
        with psycopg.connect(migrated) as blocking:
            blocking.execute("lock table duetime.runs in access exclusive mode")
            answer = await asyncio.wait_for(api.post("/v1/jobs", {"task": "t"}, headers={"Idempotency-Key": "one"}), 10)
            assert (answer.status, answer.code) == (503, "overloaded")
            blocking.rollback()

        async def known() -> bool:
            again = await api.post("/v1/jobs", {"task": "t"}, headers={"Idempotency-Key": "one"})
            return again.status == 201

        await eventually(known)
        assert (await api.store.reads.counts()).runs == 2, "what was begun went on, and is found by its key"


async def test_payloads(api: Served, database_url: str) -> None:
    body = bytes(range(256)) * 100
    made = await api.ask("POST", "/v1/payloads", raw=body, headers={"Content-Type": "image/png"})
    ref = made.json["payload_ref"]
    assert (made.status, made.json["size"], ref[:4]) == (201, len(body), "pay_")
    assert (await api.get(f"/v1/payloads/{ref}")).body == body
    stored = await api.store.payloads.payload(1, parse("pay", ref))
    assert body[:64] not in stored, "it is encrypted where it lies"
    assert (await api.get(f"/v1/payloads/{ref}", key=await api.key(Role.WORKER))).status == 403
    other = await api.key(Role.ADMIN, (await api.tenant("other")).id)
    assert (await api.get(f"/v1/payloads/{ref}", key=other)).status == 404
    assert (await api.ask("DELETE", f"/v1/payloads/{ref}", key=await api.key(Role.OPERATOR))).status == 403
    assert (await api.ask("DELETE", f"/v1/payloads/{ref}")).json == {"deleted": True}
    assert (await api.get(f"/v1/payloads/{ref}")).status == 404


async def test_keys_of_payloads_rotate(database_url: str) -> None:
    async with served(database_url) as api:
        ref = (await api.ask("POST", "/v1/payloads", raw=b"secret")).json["payload_ref"]
        root = api.root
    async with served(database_url, encryption_keys=(OTHER_KEY, ENCRYPTION)) as api:
        assert (await api.get(f"/v1/payloads/{ref}", key=root)).body == b"secret"
        new = (await api.ask("POST", "/v1/payloads", raw=b"new")).json["payload_ref"]
    async with served(database_url, encryption_keys=(OTHER_KEY,)) as api:
        assert (await api.get(f"/v1/payloads/{new}")).body == b"new"
        assert (await api.get(f"/v1/payloads/{ref}")).code == "encryption_key_unknown", "its key is gone"
    async with served(database_url, encryption_keys=()) as api:
        answer = await api.ask("POST", "/v1/payloads", raw=b"x")
        assert (answer.status, answer.code) == (409, "encryption_key_missing") and "encryption_keys" in answer.json[
            "remedy"
        ]


async def test_arguments_of_a_tenant_that_asks_for_it_are_encrypted(api: Served, database_url: str) -> None:
    assert (await api.ask("PATCH", "/v1/admin/tenants/default", {"encrypt_args": True})).json["encrypt_args"]
    app = App(settings=quick_settings(database_url))
    seen = []

    @app.task(name="charge")
    async def charge(card: str) -> None:
        seen.append(card)

    job = {"task": "charge", "args": {"card": "4111-1111"}, "key": "one"}
    made = (await api.post("/v1/jobs", job)).json
    again = (await api.post("/v1/jobs", job)).json
    assert (again["job_id"], again["created"]) == (made["job_id"], False), "the same request is known for the same"
    assert (await api.get(f"/v1/jobs/{made['job_id']}")).json["args"] == job["args"]
    assert b"4111" not in await stored_args(api, database_url)
    with app.using_store(api.store):
        async with working(app):
            await eventually(lambda: seen)
            await eventually(lambda: over(api, made["run_id"]))
    run = (await api.get(f"/v1/runs/{made['run_id']}")).json
    assert (seen, run["args"]) == (["4111-1111"], job["args"])


async def test_whatever_is_done_to_an_encrypted_job_shows_its_arguments(api: Served, database_url: str) -> None:
    await api.ask("PATCH", "/v1/admin/tenants/default", {"encrypt_args": True})
    job = {"task": "charge", "args": {"card": "4111-1111"}, "every": "1h"}
    job_id = parse("job", (await api.post("/v1/jobs", job)).json["job_id"])
    store = api.store
    triggered = await store.control.trigger_job(1, job_id, b"nonce")
    cancelled = await store.control.cancel_run(1, triggered.id)
    again = await store.replay.retry_run(1, triggered.id, b"again")
    assert [run.arguments for run in (triggered, cancelled, again)] == [job["args"]] * 3
    for act in (store.control.pause_job, store.control.resume_job, store.control.cancel_job):
        assert json.loads((await act(1, job_id)).args) == job["args"]


async def over(api: Served, run_id: str) -> bool:
    return bool((await api.get(f"/v1/runs/{run_id}")).json["status"] == "SUCCEEDED")


async def stored_args(api: Served, database_url: str) -> bytes:
    if database_url.startswith("postgresql"):
        with psycopg.connect(database_url) as connection:
            [(args,)] = connection.execute("select args from duetime.runs").fetchall()
            return bytes(args)
    database: Any = api.store.database  # type: ignore[attr-defined]
    [(args,)] = await database.run(lambda connection, _: connection.raw.execute("select args from runs").fetchall())
    return bytes(args)


async def test_queues(api: Served) -> None:
    await api.post("/v1/jobs", {"task": "t", "queue": "mail/eu", "priority": "HIGH"})
    [queue] = (await api.get("/v1/queues")).json["items"]
    assert (queue["name"], queue["paused"], queue["depth"]["high"]) == ("mail/eu", False, 1)
    assert (await api.post("/v1/queues/mail/eu/pause")).json["paused"] is True
    assert (await api.get("/v1/queues/mail/eu")).json["paused"] is True
    assert (await api.ask("PUT", "/v1/queues/mail/eu", {"paused": False})).json["paused"] is False
    assert (await api.get("/v1/queues/not%20a%20name")).status == 404


async def test_dead_letters(api: Served, database_url: str) -> None:
    app = App(settings=quick_settings(database_url))
    fails = True

    @app.task(name="flaky", retries=0)
    async def flaky() -> None:
        if fails:
            raise ValueError("broken")

    with app.using_store(api.store):
        async with working(app):
            job_id = (await api.post("/v1/jobs", {"task": "flaky", "retries": 0})).json["job_id"]

            async def dead() -> Any:
                return (await api.get("/v1/dead-letters")).json["items"]

            [letter] = await eventually(dead)
            assert (letter["job_id"], letter["failure"]) == (job_id, "error") and "broken" in letter["error"]
            fails = False
            assert (await api.post("/v1/dead-letters/replay", {"task": "other"})).json == {"runs": [], "more": False}
            [replayed] = (await api.post("/v1/dead-letters/replay", {"error": "broken"})).json["runs"]
            assert replayed["replays"] == letter["run_id"]
            await eventually(lambda: over(api, replayed["run_id"]))
            assert (await api.get("/v1/dead-letters")).json["items"] == []


async def test_events(api: Served) -> None:
    other = await api.key(Role.ADMIN, (await api.tenant("other")).id)
    headers = {"Authorization": f"Bearer {api.root}"}
    async with api.http.get(f"{api.url}/v1/events", headers=headers) as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        assert b"listening" in await stream.content.readuntil(b"\n\n")
        await api.post("/v1/jobs", {"task": "theirs"}, key=other)
        made = (await api.post("/v1/jobs", {"task": "t", "args": {"card": "4111"}})).json
        first = await asyncio.wait_for(stream.content.readuntil(b"\n\n"), 20)
    told = dict(line.split(": ", 1) for line in first.decode().strip().splitlines())
    assert told["event"] == "submitted" and json.loads(told["data"])["job_ids"] == [made["job_id"]]
    assert b"4111" not in first

    second = (await api.post("/v1/jobs", {"task": "t"})).json
    async with api.http.get(f"{api.url}/v1/events", headers=headers | {"Last-Event-ID": told["id"]}) as stream:
        await stream.content.readuntil(b"\n\n")
        missed = await asyncio.wait_for(stream.content.readuntil(b"\n\n"), 20)
    assert second["job_id"].encode() in missed and made["job_id"].encode() not in missed


async def test_a_stream_of_events_says_where_it_begins(api: Served) -> None:
    """What happens between a break and the next request is not missed, even if nothing had happened before."""
    headers = {"Authorization": f"Bearer {api.root}"}
    async with api.http.get(f"{api.url}/v1/events", headers=headers) as stream:
        place = id_of(await asyncio.wait_for(stream.content.readuntil(b"\n\n"), 20))
    made = [(await api.post("/v1/jobs", {"task": "t"})).json["job_id"] for _ in range(2)]
    async with api.http.get(f"{api.url}/v1/events", headers=headers | {"Last-Event-ID": place}) as stream:
        begin = id_of(await stream.content.readuntil(b"\n\n"))
        cursors = await api.service.cursors.of_events(DEFAULT_TENANT)
        assert cursors.read(begin) == cursors.read(place), "what was missed is still to come"
        for job_id in made:
            assert job_id.encode() in await asyncio.wait_for(stream.content.readuntil(b"\n\n"), 20)


async def test_a_quiet_stream_of_events_says_how_far_it_is(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes back has nothing to catch up with of what others did."""
    monkeypatch.setattr("duetime.api.routes.events.HEARTBEAT", 0.0)
    key, other = await api.key(Role.VIEWER), await api.key(Role.ADMIN, (await api.tenant("other")).id)
    async with api.http.get(f"{api.url}/v1/events", headers={"Authorization": f"Bearer {key}"}) as stream:
        begin = id_of(await stream.content.readuntil(b"\n\n"))
        await api.post("/v1/jobs", {"task": "theirs"}, key=other)

        async def moved() -> bool:
            block = await asyncio.wait_for(stream.content.readuntil(b"\n\n"), 20)
            assert b": still here" in block and b"data" not in block
            return cursors.read(id_of(block)) != cursors.read(begin)

        cursors = await api.service.cursors.of_events(DEFAULT_TENANT)
        await eventually(moved)


async def test_ids_of_events_tell_nothing_about_other_tenants(api: Served) -> None:
    """Places in the stream count the events of all tenants: a tenant sees neither the count nor whether it changes."""
    mine, other = await api.tenant("mine"), await api.tenant("other")
    key, theirs = await api.key(Role.ADMIN, mine.id), await api.key(Role.ADMIN, other.id)
    headers = {"Authorization": f"Bearer {key}"}
    ids = []
    async with api.http.get(f"{api.url}/v1/events", headers=headers) as stream:
        ids.append(id_of(await stream.content.readuntil(b"\n\n")))
        for count in (1, 20):
            for _ in range(count):
                await api.post("/v1/jobs", {"task": "theirs"}, key=theirs)
            await api.post("/v1/jobs", {"task": "t"}, key=key)
            ids.append(id_of(await asyncio.wait_for(stream.content.readuntil(b"\n\n"), 20)))
    cursors = await api.service.cursors.of_events(mine.id)
    marks = [cursors.read(each) for each in ids]
    assert None not in marks and marks == sorted(marks), "the server knows their order"  # type: ignore[type-var]
    assert all(len(each) == 43 for each in ids), "of one length, whatever the count"
    raw = [urlsafe_b64decode(each + "=") for each in ids]
    for one, another in itertools.combinations(raw, 2):
        # By chance, 16 of 256 bits would have to be the same at every place.
        assert sum((a ^ b).bit_count() for a, b in zip(one, another, strict=True)) > 60
    assert cursors.write(marks[-1]) == ids[-1], "an event has one id"  # type: ignore[arg-type]
    assert len({cursors.write(marks[-1], fresh=True) for _ in range(5)}) == 5  # type: ignore[arg-type]
    foreign = await api.service.cursors.of_events(other.id)
    assert [foreign.read(each) for each in (*ids, "1", "", "x" * 300, ids[0][:-1] + "Ü")] == [None] * 7


def id_of(block: bytes) -> str:
    (found,) = (line[4:] for line in block.decode().splitlines() if line.startswith("id: "))
    return found


async def test_health(api: Served) -> None:
    for path in ("/livez", "/readyz"):
        answer = await api.get(path, key=None)
        assert (answer.status, answer.json) == (200, {"status": "ok"})
    assert b"duetime_http_answers_total" in (await api.get("/metrics")).body
    page = await api.get("/docs", key=None)
    assert page.status == 200 and b"/v1/jobs" in page.body


async def test_callers_share_what_readiness_costs(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anyone may ask. Be the database there or not, it is asked once, and written to once."""
    looks, writes, now = 0, 0, 1000.0
    check, put = api.store.lifecycle.check_schema, api.store.payloads.put_payload
    is_away = False

    async def look() -> int:
        nonlocal looks, now
        looks += 1
        now += 0.1  # the longer it takes, the longer the result is remembered
        await asyncio.sleep(0.01)
        if is_away:
            raise StoreUnavailable("away: secret.internal")
        return await check()

    async def write(*args: Any) -> None:
        nonlocal writes
        writes += 1
        await put(*args)

    async def ask(expected: int) -> None:
        for answer in await asyncio.gather(*(api.get("/readyz", key=None) for _ in range(30))):
            assert answer.status == expected and b"secret" not in answer.body

    monkeypatch.setattr(api.store.lifecycle, "check_schema", look)
    monkeypatch.setattr(api.store.payloads, "put_payload", write)
    with monotonic_from(lambda: now):
        for at, away, expected, looked, wrote in (
            (0.0, False, 200, 1, 1),
            (0.0, True, 200, 1, 1),
            (1.2, True, 503, 2, 1),
            (1.3, False, 503, 2, 1),
            (2.4, False, 200, 3, 1),
            (10.0, False, 200, 4, 2),
        ):
            now, is_away = 1000.0 + at, away
            await ask(expected)
            assert (looks, writes) == (looked, wrote), at


async def test_a_server_is_not_ready_on_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path, "8m") as disk:
        if not can_be_filled(disk):
            pytest.skip("no disk may be mounted here: run the tests as root, with CAP_SYS_ADMIN")
        async with served(f"sqlite:///{disk}/duetime.db") as api:
            assert (await api.get("/readyz", key=None)).status == 200
            fill(disk)
            api.service.readiness.forget()
            answer = await api.get("/readyz", key=None)
            assert (answer.status, answer.code) == (503, "unavailable")
            assert answer.json["detail"] == "the database is not writable"
            make_room(disk)
            api.service.readiness.forget()
            assert (await api.get("/readyz", key=None)).status == 200


async def test_a_server_is_not_ready_on_a_database_that_takes_no_writes(migrated: str) -> None:
    async with served(migrated) as api:
        assert (await api.get("/readyz", key=None)).status == 200
        with psycopg.connect(migrated, autocommit=True) as connection:
            connection.execute(
                "do $$ begin execute format('alter database %I set default_transaction_read_only = on',"
                " current_database()); end $$"
            )
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
        api.service.readiness.forget()

        async def is_refused() -> bool:
            answer = await api.get("/readyz", key=None)
            return answer.status == 503 and answer.json.get("detail") == "the database is not writable"

        await eventually(is_refused)


async def test_a_stream_of_events_ends_in_good_order_when_the_store_is_away(api: Served) -> None:
    Lie(api.store, "keep_listening")
    headers = {"Authorization": f"Bearer {api.root}"}
    async with api.http.get(f"{api.url}/v1/events", headers=headers) as stream:
        assert (await stream.read()).startswith(b"retry: 1000")
    async with api.http.get(f"{api.url}/v1/events", headers=headers) as stream:
        await stream.content.readline()
        await api.post("/v1/jobs", {"task": "t"})
        while not (await asyncio.wait_for(stream.content.readline(), 20)).startswith(b"event: "):
            pass
