"""Rows of callers: `submit_job` checks them, and the scanner sets aside what it cannot process."""

import random
import string
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from duetime.engine.reaper import judge
from duetime.engine.scanner import Scanner
from duetime.errors import InvalidInput
from duetime.ids import new_id
from duetime.model.job import JobState
from duetime.model.run import RunState
from duetime.model.schedule import Every, Once, encode_schedule
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import PlanFires, Scan
from tests.contract.hands import GRACE, TENANT, fire, hand, job, submit
from tests.contract.worlds import PostgresTime, PostgresWorld, execute

Session = asyncpg.Connection
_SUBMIT = "select duetime.submit_job($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
_GOOD: dict[str, Any] = {
    "job_id": None,
    "tenant_id": TENANT,
    "task": "greet",
    "queue": "default",
    "tier": 1,
    "due_at": None,
    "delay": None,
    "args": b"{}",
    "options": None,
    "timeout_ms": None,
    "idempotency_key": None,
    "fingerprint": b"",
}


async def _submit(session: "Session[asyncpg.Record]", **changed: Any) -> UUID:
    given = {**_GOOD, "job_id": new_id(), **changed}
    found: UUID = await session.fetchval(_SUBMIT, *given.values())
    return found


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("job_id", None),
        ("job_id", UUID(int=2**128 - 1)),
        ("job_id", UUID("ffffffff-ffff-7fff-bfff-ffffffffffff")),
        ("tenant_id", None),
        ("tenant_id", 77),
        ("task", None),
        ("task", ""),
        ("task", "two words"),
        ("task", "t" * 201),
        ("queue", None),
        ("queue", "line\nbreak"),
        ("queue", "q" * 9000),
        ("tier", None),
        ("tier", 3),
        ("tier", -1),
        ("due_at", datetime(9999, 12, 31, tzinfo=UTC)),
        ("args", None),
        ("args", b"[1]"),
        ("args", b"null"),
        ("options", b"1"),
        ("options", b" " * 70_000 + b"{}"),
        ("options", b'{"concurrency_key":""}'),
        ("options", b'{"concurrency_key":"' + b"k" * 256 + b'"}'),
        ("options", b'{"rate_key":7,"rate":"1/s"}'),
        ("options", b'{"breaker_key":"tab\\there"}'),
        ("options", b'{"concurrency_key":"k","concurrency":0}'),
        ("options", b'{"concurrency_key":"k","concurrency":99999999999}'),
        ("options", b'{"concurrency_key":"k","concurrency":1.5}'),
        ("options", b'{"rate_key":"m","rate":"100 per minute"}'),
        ("options", b'{"rate_key":"m","rate":"0/m"}'),
        ("options", b'{"rate_key":"m","rate":"1/99999d"}'),
        ("options", b'{"rate_key":"m","rate":"1/0s"}'),
        ("timeout_ms", 0),
        ("timeout_ms", 604_800_001),
        ("idempotency_key", ""),
        ("idempotency_key", "k" * 256),
        ("idempotency_key", "tab\there"),
        ("fingerprint", None),
        ("fingerprint", b"f" * 65),
    ],
)
async def test_what_a_guest_gives_is_checked(
    store: PostgresStore, session: "Session[asyncpg.Record]", field: str, value: object
) -> None:
    with pytest.raises(asyncpg.PostgresError, match=f"^{field}: ") as caught:
        await _submit(session, **{field: value})
    assert caught.value.sqlstate == "DT400"
    assert (await store.reads.counts()).jobs == 0


@pytest.mark.parametrize("field", ["args", "options"])
@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"{\x00}", b"{} {}"])
async def test_what_is_no_json_is_refused(
    store: PostgresStore, session: "Session[asyncpg.Record]", field: str, body: bytes
) -> None:
    with pytest.raises(asyncpg.DataError):
        await _submit(session, **{field: body})
    assert (await store.reads.counts()).jobs == 0


async def test_a_key_that_no_database_can_keep_is_refused(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    with pytest.raises(asyncpg.DataError):
        await _submit(session, options=b'{"concurrency_key":"\\u0000"}')
    assert (await store.reads.counts()).jobs == 0


async def test_limits_that_can_be_kept_to_are_taken(store: PostgresStore, session: "Session[asyncpg.Record]") -> None:
    for options in (
        b'{"concurrency_key":"customer 42","concurrency":1000000,"rate_key":null}',
        b'{"rate_key":"m","rate":"100/m"}',
        b'{"rate_key":"m","rate":"1/7d","breaker_key":"mail.example"}',
    ):
        await _submit(session, options=options)
    assert (await store.reads.counts()).jobs == 3


async def test_times_that_no_scanner_could_read_are_refused(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    for moment in ("infinity", "20000-01-01"):
        with pytest.raises(asyncpg.PostgresError, match="due_at"):
            await session.fetchval(
                f"select duetime.submit_job($1, 1, 'greet', 'default', 1::smallint, '{moment}', null, '{{}}', null, 1)",
                new_id(),
            )
    assert (await store.reads.counts()).jobs == 0


async def test_a_refusal_names_the_field_to_whoever_submits_in_python(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    with pytest.raises(InvalidInput, match="no such tenant") as caught:
        await store.caller_transactions.submit_within(session, 77, job())
    assert caught.value.field == "tenant_id"


async def test_arguments_that_shall_be_encrypted_are_not_stored_as_they_are(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    await session.execute("update duetime.tenants set encrypt_args = true where id = $1", TENANT)
    with pytest.raises(InvalidInput, match="arguments of this tenant are encrypted") as caught:
        await store.caller_transactions.submit_within(session, TENANT, job())
    assert caught.value.field == "connection"
    assert (await store.reads.counts()).jobs == 0


async def test_a_good_submission_is_read_back_and_runs(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    worker = await hand(store)
    body = b'{"text": "with a \\u0000 and an \xc3\xa4"}'
    soon = await _submit(session, args=body, options=b'{"tags":["a"]}', timeout_ms=1000)
    later = await _submit(session, delay=timedelta(hours=2))
    assert (await store.reads.job(TENANT, soon)).schedule == Once(at=time.now)
    assert (await store.reads.job(TENANT, later)).next_run == time.now + timedelta(hours=2)
    assert (await fire(store)).fired == 1
    claimed = await worker.claim_one()
    assert (claimed.job_id, claimed.args, claimed.timeout_ms) == (soon, body, 1000)


_WRITE = """
insert into duetime.jobs (id, tenant_id, task, queue, tier, schedule, recurring, args, options, created_at)
values (%s, 1, 'greet', %s, %s, %s, %s, '{}', %s, duetime.now())"""
_WRITE_CURSOR = "insert into duetime.cursors (job_id, scan_at, next_fire_at) values (%s, %s, %s)"
_EVERY = encode_schedule(Every(timedelta(seconds=1), datetime(2026, 3, 2, tzinfo=UTC)))
_LONG = "".join(random.Random(7).choices(string.ascii_letters, k=9000))


@pytest.mark.parametrize(
    ("queue", "tier", "schedule", "recurring", "state"),
    [
        ("default", 1, b"not a schedule", True, JobState.PAUSED),
        # What a newer release or time zone database may know is left to it.
        ("default", 1, b'{"type":"cron","line":"99 * * * *"}', True, JobState.ACTIVE),
        ("default", 1, b'{"type":"cron","line":"* * * * *","zone":"Mars/Phobos"}', True, JobState.ACTIVE),
        ("default", 99, _EVERY, True, JobState.ACTIVE),
        ("default", -1, encode_schedule(Once()), False, JobState.ACTIVE),
        (_LONG, 1, encode_schedule(Once()), False, JobState.PAUSED),
    ],
    ids=["unreadable", "no cron line", "no zone", "no tier", "no tier, once", "too long for an index"],
)
async def test_a_row_that_cannot_be_processed_stops_no_other(
    store: PostgresStore,
    world: PostgresWorld,
    time: PostgresTime,
    session: "Session[asyncpg.Record]",
    queue: str,
    tier: int,
    schedule: bytes,
    recurring: bool,
    state: JobState,
) -> None:
    worker = await hand(store, timedelta(days=1))
    bad = new_id()
    execute(world.dsn, _WRITE, bad, queue, tier, schedule, recurring, b"\x00 not options")
    execute(
        world.dsn,
        "insert into duetime.cursors (job_id, scan_at, next_fire_at) values (%s, %s, %s)",
        bad,
        *[time.now] * 2,
    )
    good = [await submit(store, job(Once(delay=timedelta(seconds=20)))) for _ in range(5)]
    time.advance(seconds=20)
    scanner = Scanner(store)
    for _ in range(15):
        await scanner.tick()
    assert {run.job_id for run in await worker.claim()} == {answer.job_id for answer in good}
    [found] = await session.fetch(
        "select j.state, j.problem is not null, c.next_fire_at, c.scan_at > duetime.now() from duetime.jobs j "
        "join duetime.cursors c on c.job_id = j.id where j.id = $1",
        bad,
    )
    held = state is JobState.PAUSED
    assert tuple(found) == (state, held, time.now - timedelta(seconds=20), held)


async def test_options_that_cannot_be_read_hurt_only_their_own_run(
    store: PostgresStore, world: PostgresWorld, time: PostgresTime
) -> None:
    await submit(store, job())
    execute(world.dsn, "update duetime.runs set options = %s", b"\x00 not options")
    worker = await hand(store)
    run = await worker.claim_one()
    time.advance(seconds=31)
    assert await store.reaping.reap(10, judge, GRACE) == 1
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.FAILED


async def test_a_job_that_comes_first_meanwhile_is_not_taken_for_the_one_that_was_refused(
    store: PostgresStore, world: PostgresWorld, time: PostgresTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bad row was refused alone, and is to be set aside; then another client's job comes before it."""
    bad = new_id()
    execute(world.dsn, _WRITE, bad, _LONG, 1, encode_schedule(Once()), False, None)
    execute(world.dsn, _WRITE_CURSOR, bad, time.now, time.now)
    healthy: list[UUID] = []
    fire_due = store.firing.fire_due

    async def with_another_before(limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
        if "refuse" in plan.__qualname__ and not healthy:
            healthy.append((await submit(store, job(Every(timedelta(seconds=1), time.now)))).job_id)
            cursor = "update duetime.cursors set scan_at = %s, next_fire_at = %s where job_id = %s"
            execute(world.dsn, cursor, time.now - timedelta(seconds=1), time.now, healthy[0])
        return await fire_due(limit, plan, without)

    monkeypatch.setattr(store.firing, "fire_due", with_another_before)
    scanner = Scanner(store, batch=4)
    for _ in range(10):
        await scanner.tick()
    (healthy_id,) = healthy
    found = await store.reads.job(TENANT, healthy_id)
    assert (found.state, found.problem, found.made > 0) == (JobState.ACTIVE, None, True)
    assert (await store.reads.job(TENANT, bad)).state is JobState.PAUSED
