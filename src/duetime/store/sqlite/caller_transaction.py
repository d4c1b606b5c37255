"""A file belongs to one process, so callers cannot have their own transactions in it."""

from typing import NoReturn
from uuid import UUID

from duetime.errors import InvalidInput
from duetime.model.job import NewJob
from duetime.store.sqlite.role import Role


class CallerTransactionRole(Role):
    async def submit_within(self, connection: object, tenant_id: int, job: NewJob) -> UUID:
        _refuse()

    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        _refuse()


def _refuse() -> NoReturn:
    raise InvalidInput(
        "the embedded database cannot take part in your transaction",
        field="connection",
        remedy="omit connection=, or use PostgreSQL (DUETIME_DATABASE_URL)",
    )
