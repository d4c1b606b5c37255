"""Submit and complete inside the caller's transaction, on the caller's connection.

Schema-qualified functions do the work, so that the caller's role needs no rights on the tables.
"""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from duetime.errors import InvalidInput, KeyInFlight, KeyReused, LeaseLost
from duetime.model.defaults import Defaults
from duetime.model.job import NewJob
from duetime.model.tenant import TenantState
from duetime.store.caller_connections import POSTGRES, caller_connection
from duetime.store.postgres.database import NOT_ACTIVE, OVER_QUOTA, TOO_MANY_LANES
from duetime.store.postgres.role import Role
from duetime.store.rules.caller_transactions import check_dialect, check_one_off
from duetime.store.rules.labels import labels_of, payload_of
from duetime.store.rules.limit_scopes import too_many_lanes
from duetime.store.rules.quotas import REFUSED, over_quota
from duetime.store.rules.tenant_states import may_not_submit

_SUBMIT = (
    "select duetime.submit_job({id}::uuid, {tenant_id}::integer, {task}::text, {queue}::text, {tier}::smallint,"
    " {run_at}::timestamptz, {delay}::interval, {args}::bytea, {options}::bytea, {timeout_ms}::integer,"
    " {idempotency_key}::text, {fingerprint}::bytea, {label_kinds}::text[], {label_values}::text[],"
    " {payload_ref}::uuid, {lanes_per_tenant}::integer)"
)
_DEFAULTS = "select duetime.tenant_defaults({tenant_id}::integer)"
_COMPLETE = (
    "select duetime.complete_run({run_id}::uuid, {fence}::integer, {worker_id}::uuid, {result}::bytea, {logs}::bytea)"
)
_INVALID, _IN_FLIGHT, _REUSED = "DT400", "DT409", "DT422"
_NO_SCHEMA = frozenset({"3F000", "42883"})


class CallerTransactionRole(Role):
    async def submit_within(self, connection: object, tenant_id: int, job: NewJob) -> UUID:
        schedule = check_one_off(job)
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
                fingerprint=job.fingerprint if job.request_fingerprint is None else job.request_fingerprint,
                label_kinds=[kind for kind, _ in labels],
                label_values=[value for _, value in labels],
                payload_ref=payload_of(job),
                lanes_per_tenant=self.lanes_per_tenant,
            )
        except Exception as error:
            raise _meaning(error) from error
        return UUID(str(job_id))

    async def defaults_within(self, connection: object, tenant_id: int) -> Defaults:
        try:
            found: Any = await _call(connection, _DEFAULTS, tenant_id=tenant_id)
        except Exception as error:
            raise _meaning(error) from error
        return None if found is None else bytes(found)

    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        if not await _call(
            connection, _COMPLETE, run_id=run_id, fence=fence, worker_id=worker_id, result=result, logs=logs
        ):
            raise LeaseLost("another worker holds this run now", remedy="roll back")


async def _call(connection: object, statement: str, **given: object) -> object:
    """One value from the caller's connection. The caller sees its library's own exceptions."""
    known = caller_connection(connection)
    check_dialect(known.dialect, POSTGRES)
    return await known.value(statement, given)


def _meaning(error: Exception) -> Exception:
    """The error itself, if its SQLSTATE is not one of `submit_job`."""
    for cause in reversed(list(_causes(error))):
        state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        if state == _INVALID:
            field, _, message = _message(cause).partition(": ")
            return InvalidInput(message, field=field)
        if state == TOO_MANY_LANES:
            return too_many_lanes(_message(cause))
        if state == OVER_QUOTA and (detail := _detail(cause)) is not None:
            return over_quota(_message(cause).removeprefix(REFUSED), int(detail))
        if state == NOT_ACTIVE and (detail := _detail(cause)) is not None:
            return may_not_submit(TenantState(int(detail)))
        if state == _IN_FLIGHT:
            return KeyInFlight("another request holds this idempotency key", field="idempotency_key")
        if state == _REUSED:
            return KeyReused("this key was used for another request", field="idempotency_key")
        if state in _NO_SCHEMA:
            return InvalidInput(
                f"its database has no duetime schema: {_message(cause)}",
                field="connection",
                remedy="connect to the database in DUETIME_DATABASE_URL, or run: duetime migrate",
            )
    return error


def _causes(error: BaseException | None) -> Iterator[Any]:
    """The error and what it wraps: Django and SQLAlchemy wrap the driver's error."""
    while error is not None:
        yield error
        error = error.__cause__


def _message(error: Any) -> str:
    """The server's message, without the text that drivers add."""
    found: str | None = getattr(error, "message", None) or getattr(
        getattr(error, "diag", None), "message_primary", None
    )
    return found or str(error)


def _detail(error: Any) -> str | None:
    found: str | None = getattr(error, "detail", None) or getattr(getattr(error, "diag", None), "message_detail", None)
    return found
