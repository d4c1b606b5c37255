"""Submit and complete inside the caller's transaction, on the caller's connection: asyncpg or psycopg 3, async or not.

Two schema-qualified functions do the work, so that the caller's role needs no rights on the tables.
"""

import inspect
from typing import Any
from uuid import UUID

from duetime.errors import InvalidInput, KeyInFlight, KeyReused, LeaseLost
from duetime.model.job import NewJob
from duetime.model.schedule import Once
from duetime.store.postgres.database import OVER_QUOTA, TOO_MANY_LANES
from duetime.store.postgres.role import Role
from duetime.store.rules.labels import labels_of, payload_of
from duetime.store.rules.limit_scopes import too_many_lanes
from duetime.store.rules.quotas import REFUSED, over_quota

_SUBMIT = (
    "select duetime.submit_job({id}::uuid, {tenant_id}::integer, {task}::text, {queue}::text, {tier}::smallint,"
    " {run_at}::timestamptz, {delay}::interval, {args}::bytea, {options}::bytea, {timeout_ms}::integer,"
    " {idempotency_key}::text, {fingerprint}::bytea, {label_kinds}::text[], {label_values}::text[],"
    " {payload_ref}::uuid, {lanes_per_tenant}::integer)"
)
_COMPLETE = (
    "select duetime.complete_run({run_id}::uuid, {fence}::integer, {worker_id}::uuid, {result}::bytea, {logs}::bytea)"
)
_INVALID, _IN_FLIGHT, _REUSED = "DT400", "DT409", "DT422"


class CallerTransactionRole(Role):
    async def submit_within(self, connection: object, tenant_id: int, job: NewJob) -> UUID:
        schedule = job.schedule
        if not isinstance(schedule, Once) or job.key is not None or job.depends_on is not None:
            raise InvalidInput(
                "only one-off jobs without key= and depends_on= can be submitted inside a transaction",
                field="connection",
                remedy="omit connection=, or submit without cron=, every=, key= and depends_on=",
            )
        labels = labels_of(job)
        try:
            job_id = await _call(
                connection,
                _SUBMIT,
                id=job.id,
                tenant_id=tenant_id,
                task=job.lane.task,
                queue=job.lane.queue,
                tier=int(job.lane.tier),
                run_at=schedule.at,
                delay=schedule.delay,
                args=job.args,
                options=job.options,
                timeout_ms=job.timeout_ms,
                idempotency_key=job.idempotency_key,
                fingerprint=job.fingerprint,
                label_kinds=[kind for kind, _ in labels],
                label_values=[value for _, value in labels],
                payload_ref=payload_of(job),
                lanes_per_tenant=self.lanes_per_tenant,
            )
        except Exception as error:
            state = getattr(error, "sqlstate", None)
            if state == _INVALID:
                field, _, message = _message(error).partition(": ")
                raise InvalidInput(message, field=field) from error
            if state == TOO_MANY_LANES:
                raise too_many_lanes(_message(error)) from error
            if state == OVER_QUOTA:
                raise over_quota(_message(error).removeprefix(REFUSED), int(_detail(error))) from error
            if state == _IN_FLIGHT:
                raise KeyInFlight("another request holds this idempotency key", field="idempotency_key") from error
            if state == _REUSED:
                raise KeyReused("this key was used for another request", field="idempotency_key") from error
            raise
        return UUID(str(job_id))

    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        if not await _call(
            connection, _COMPLETE, run_id=run_id, fence=fence, worker_id=worker_id, result=result, logs=logs
        ):
            raise LeaseLost("another worker holds this run now", remedy="roll back")


async def _call(connection: Any, statement: str, **given: object) -> object:
    """One value from the caller's connection. The caller sees its driver's own exceptions."""
    if hasattr(connection, "fetchval"):
        numbered = statement.format(**{name: f"${number}" for number, name in enumerate(given, 1)})
        return await connection.fetchval(numbered, *given.values())
    if type(connection).__module__.partition(".")[0] in ("psycopg", "psycopg_pool"):
        # The caller's connection may have any row factory; this cursor returns tuples.
        cursor = connection.cursor(row_factory=lambda _: tuple)
        named = statement.format(**{name: f"%({name})s" for name in given})
        executed = cursor.execute(named, {name: _plain(item) for name, item in given.items()})
        if inspect.isawaitable(executed):
            await executed
            return (await cursor.fetchone())[0]
        return cursor.fetchone()[0]
    raise InvalidInput(
        f"{type(connection).__module__}.{type(connection).__qualname__} is not a supported connection",
        field="connection",
        remedy="pass an open asyncpg or psycopg 3 connection to duetime's database",
    )


def _message(error: Exception) -> str:
    """The server's message, without the text that drivers add."""
    found: str | None = getattr(error, "message", None) or getattr(
        getattr(error, "diag", None), "message_primary", None
    )
    return found or str(error)


def _detail(error: Exception) -> str:
    found: str = getattr(error, "detail", None) or error.diag.message_detail  # type: ignore[attr-defined]
    return found


def _plain(item: object) -> object:
    """psycopg adapts by exact type, and asyncpg returns UUIDs of its own subclass."""
    return UUID(str(item)) if isinstance(item, UUID) else item
