"""Submit and complete inside the caller's transaction, on the caller's own connection to the file.

The caller may be any process: SQLite's locks keep it and the owner of the file apart. The calls use the statements of
the store, but nothing of what this process keeps in memory, which belongs to the store's thread. The owner finds the
new rows when it next looks.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from duetime.errors import InvalidInput, LeaseLost
from duetime.model.attempt import AttemptState, Completion
from duetime.model.defaults import Defaults
from duetime.model.job import NewJob
from duetime.model.retry import SUCCEED
from duetime.store.caller_connections import SQLITE, SqliteSession, caller_connection
from duetime.store.rules.caller_transactions import check_dialect, check_one_off
from duetime.store.rules.quotas import limits_of, over_quota
from duetime.store.shared.schema_version import check_versions
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID
from duetime.store.sqlite.completing import apply
from duetime.store.sqlite.connection import Connection, meaning
from duetime.store.sqlite.database import Database, Work
from duetime.store.sqlite.intake import IntakeRole
from duetime.store.sqlite.role import Context, Role
from duetime.store.sqlite.schema import VERSION
from duetime.store.sqlite.transaction import SqliteTransaction, at_once
from duetime.store.sqlite.values import stamp

T = TypeVar("T")


class CallerTransactionRole(Role):
    async def submit_within(self, connection: object, tenant_id: int, job: NewJob) -> UUID:
        check_one_off(job)

        def work(connection: Connection, now: int) -> UUID:
            _check_tenant(connection, tenant_id, job)
            (answer,) = at_once(
                self._intake().insert_any(SqliteTransaction(connection, now), tenant_id, [job]),
            )
            return answer.job_id

        return await self._within(connection, work)

    async def defaults_within(self, connection: object, tenant_id: int) -> Defaults:
        def work(connection: Connection, now: int) -> Defaults:
            (tenant,) = connection.records("find_tenant_by_id", {"tenant_id": tenant_id})
            defaults: Defaults = tenant["defaults"]
            return defaults

        return await self._within(connection, work)

    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        end = Completion(run_id, fence, SUCCEED, AttemptState.SUCCEEDED, result=result, logs=logs)
        if await self._within(connection, lambda connection, now: apply(connection, now, worker_id, [end])):
            raise LeaseLost("another worker holds this run now", remedy="roll back")

    def _intake(self) -> IntakeRole:
        """With a memory of its own, which ends with the call."""
        path = self.database.path
        context = Context(
            path or ":memory:",
            clock=self.database.clock,
            lanes_per_tenant=self.lane_book.most,
            serves=None,
            lock_timeout=0.0,
            database=Database,
        )
        return IntakeRole(context)

    async def _within(self, connection: object, work: Work[T]) -> T:
        known = caller_connection(connection)
        check_dialect(known.dialect, SQLITE)

        def call(session: SqliteSession) -> T:
            _check_file(session, self.database.path)
            now = stamp(self.database.clock.now())
            return _in_transaction(session, lambda: work(Connection.of_caller(session), now))

        try:
            return await known.in_sqlite(call)
        except Exception as error:
            found = meaning(error, self.database.shown)
            if found is error:
                raise
            raise found from error


def _in_transaction(session: SqliteSession, work: Callable[[], T]) -> T:
    """Inside the caller's transaction. If there is none, one begins, which ends here only if the connection commits
    each statement by itself. What fails leaves nothing behind."""
    begins = not session.in_transaction
    if begins:
        session.execute("begin immediate")
    session.execute("savepoint duetime_call")
    try:
        result = work()
    except BaseException:
        session.execute("rollback to duetime_call")
        session.execute("release duetime_call")
        if begins:
            session.execute("rollback")
        raise
    session.execute("release duetime_call")
    if begins and session.autocommits:
        session.execute("commit")
    return result


def _check_file(session: SqliteSession, path: Path | None) -> None:
    (found,) = [file for _, name, file in session.execute("pragma database_list").fetchall() if name == "main"]
    if path is None or not found or not path.exists() or not path.samefile(found):
        raise InvalidInput(
            f"this is a connection to {found or 'a database in memory'}, and the jobs are stored in"
            f" {path or 'a store in memory'}",
            field="connection",
            remedy="let duetime use the same file (DUETIME_DATABASE_URL=sqlite:///…), or omit connection=",
        )
    known = "select 1 from sqlite_master where name = 'schema_versions'"
    newest = "select version, oldest_code from schema_versions order by version desc limit 1"
    row = session.execute(newest).fetchone() if session.execute(known).fetchone() else None
    version, oldest_code = row or (0, 0)
    check_versions(found=version, oldest_code=oldest_code, code=VERSION, where=str(path))


def _check_tenant(connection: Connection, tenant_id: int, job: NewJob) -> None:
    (tenant,) = connection.records("find_tenant_by_id", {"tenant_id": tenant_id})
    if tenant["encrypt_args"]:
        raise InvalidInput(
            "the arguments of this tenant are encrypted, which is not possible in your transaction",
            field="connection",
            remedy="omit it",
        )
    limits = limits_of(tenant)
    rows = size = 0
    for name in ("count_jobs", "count_live_runs"):
        whole = {"tenant_id": tenant_id, "after": FIRST_ID.bytes, "until": LAST_ID.bytes}
        found = connection.row(name, whole) or (0, 0)
        rows, size = rows + found[0], size + found[1]
    if limits.stored_jobs is not None and rows >= limits.stored_jobs:
        raise over_quota("stored_jobs", limits.stored_jobs)
    if limits.stored_bytes is not None and size + len(job.args) > limits.stored_bytes:
        raise over_quota("stored_bytes", limits.stored_bytes)
