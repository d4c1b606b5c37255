"""Inside the caller's own transaction, on the caller's own connection: asyncpg or psycopg 3, async or not.

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
    "select duetime.submit_job({}::uuid, {}::integer, {}::text, {}::text, {}::smallint,"
    " {}::timestamptz, {}::interval, {}::bytea, {}::bytea, {}::integer, {}::text, {}::bytea,"
    " {}::text[], {}::text[], {}::uuid, {}::integer)"
)
_COMPLETE = "select duetime.complete_run({}::uuid, {}::integer, {}::uuid, {}::bytea, {}::bytea)"
_INVALID, _IN_FLIGHT, _REUSED = "DT400", "DT409", "DT422"


class CallerTransactionRole(Role):
    async def submit_within(self, connection: object, tenant_id: int, job: NewJob) -> UUID:
        schedule = job.schedule
        if not isinstance(schedule, Once) or job.key is not None or job.depends_on is not None:
            raise InvalidInput(
                "only one-off jobs without key= and depends_on= can be submitted inside a transaction",
                field="connection",
                remedy="leave out connection=, or give run_at=, run_in= or nothing",
            )
        labels = labels_of(job)
        try:
            job_id = await _call(
                connection,
                _SUBMIT,
                job.id,
                tenant_id,
                job.lane.task,
                job.lane.queue,
                int(job.lane.tier),
                schedule.at,
                schedule.delay,
                job.args,
                job.options,
                job.timeout_ms,
                job.idempotency_key,
                job.fingerprint,
                [kind for kind, _ in labels],
                [value for _, value in labels],
                payload_of(job),
                self.lanes_per_tenant,
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
                raise KeyReused("this key came with another request before", field="idempotency_key") from error
            raise
        return UUID(str(job_id))

    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        if not await _call(connection, _COMPLETE, run_id, fence, worker_id, result, logs):
            raise LeaseLost("the run belongs to another worker by now", remedy="roll back")


async def _call(connection: Any, statement: str, *arguments: object) -> object:
    """One value from the caller's connection; its own exceptions are the caller's to see."""
    holes = statement.count("{}")
    if hasattr(connection, "fetchval"):
        numbered = statement.format(*(f"${number}" for number in range(1, holes + 1)))
        return await connection.fetchval(numbered, *arguments)
    if type(connection).__module__.partition(".")[0] in ("psycopg", "psycopg_pool"):
        # Whatever rows look like on the caller's connection, ours is a tuple.
        cursor = connection.cursor(row_factory=lambda _: tuple)
        executed = cursor.execute(statement.format(*["%s"] * holes), [_plain(item) for item in arguments])
        if inspect.isawaitable(executed):
            await executed
            return (await cursor.fetchone())[0]
        return cursor.fetchone()[0]
    raise InvalidInput(
        f"{type(connection).__module__}.{type(connection).__qualname__} is not a connection that can be used",
        field="connection",
        remedy="an open asyncpg or psycopg 3 connection to the database of duetime",
    )


def _message(error: Exception) -> str:
    """What the server said, without what the drivers put around it."""
    found: str | None = getattr(error, "message", None) or getattr(
        getattr(error, "diag", None), "message_primary", None
    )
    return found or str(error)


def _detail(error: Exception) -> str:
    found: str = getattr(error, "detail", None) or error.diag.message_detail  # type: ignore[attr-defined]
    return found


def _plain(item: object) -> object:
    """Drivers adapt by exact type, and asyncpg's ids are of a type of its own."""
    return UUID(str(item)) if isinstance(item, UUID) else item
