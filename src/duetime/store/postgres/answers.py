"""The answers of requests with idempotency keys, kept in the transaction of what they did."""

from typing import TypeVar
from uuid import UUID

import msgspec

from duetime.model.idempotency import KeyedRequest
from duetime.store.postgres.database import SQL, Connection, columns
from duetime.store.postgres.intake import try_lock_keys
from duetime.store.postgres.role import Role
from duetime.store.rules.caller_keys import IDEMPOTENCY, REPEAT, Repeated, answer_of, decode_answer

T = TypeVar("T")


class AnswerRole(Role):
    async def begin_request(self, tenant_id: int, request: KeyedRequest) -> bytes | None:
        async with self.database.acting_for(tenant_id) as connection:
            await try_lock_keys(connection, tenant_id, [(IDEMPOTENCY, request.key)])
            row = await connection.fetchrow(SQL["find_answer"], tenant_id, IDEMPOTENCY, request.key)
            if row is not None:
                return answer_of(request, row["fingerprint"], row["answer"])
            await connection.execute(
                SQL["put_answers"], tenant_id, IDEMPOTENCY, [request.key], [None], request.fingerprint, None
            )
        return None

    async def end_request(self, tenant_id: int, request: KeyedRequest, answer: bytes | None) -> None:
        statement = SQL["drop_answer"] if answer is None else SQL["set_answer"]
        given = () if answer is None else (answer,)
        async with self.database.acting_for(tenant_id) as connection:
            await connection.execute(statement, tenant_id, IDEMPOTENCY, request.key, request.fingerprint, *given)


async def first_answer(connection: Connection, tenant_id: int, request: KeyedRequest | None, kind: type[T]) -> T | None:
    """What this request was answered before; None when it is new. Raises `KeyReused`, and `KeyInFlight` without
    waiting."""
    if request is None:
        return None
    await try_lock_keys(connection, tenant_id, [(IDEMPOTENCY, request.key)])
    row = await connection.fetchrow(SQL["find_answer"], tenant_id, IDEMPOTENCY, request.key)
    return None if row is None else decode_answer(request, row["fingerprint"], row["answer"], kind)


async def keep_answer(connection: Connection, tenant_id: int, request: KeyedRequest | None, answer: object) -> None:
    if request is not None:
        encoded = msgspec.json.encode(answer)
        await connection.execute(
            SQL["put_answers"], tenant_id, IDEMPOTENCY, [request.key], [None], request.fingerprint, encoded
        )


async def repeated_by(connection: Connection, tenant_id: int, run_id: UUID) -> UUID | None:
    """The run that repeats this one; held against others who would repeat it."""
    await connection.execute(SQL["lock_repeat"], tenant_id, run_id.hex)
    row = await connection.fetchrow(SQL["find_answer"], tenant_id, REPEAT, run_id.hex)
    return None if row is None else row["run_id"]


async def keep_repeats(connection: Connection, tenant_id: int, repeated: list[Repeated]) -> None:
    """Remember which runs were repeated, and by which."""
    if repeated:
        old, new = columns(repeated, 2)
        await connection.execute(SQL["put_answers"], tenant_id, REPEAT, [each.hex for each in old], new, b"", None)
