"""The answers of requests with idempotency keys, kept in the transaction of what they did."""

from typing import TypeVar
from uuid import UUID

import msgspec

from duetime.model.idempotency import KeyedRequest
from duetime.store.rules.caller_keys import IDEMPOTENCY, REPEAT, Repeated, answer_of, decode_answer
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity

T = TypeVar("T")


class AnswerRole(Role):
    async def begin_request(self, tenant_id: int, request: KeyedRequest) -> bytes | None:
        def work(connection: Connection, now: int) -> bytes | None:
            rows = connection.rows("find_answer", {"tenant_id": tenant_id, "kind": IDEMPOTENCY, "key": request.key})
            if rows:
                return answer_of(request, rows[0][1], rows[0][2])
            _put(connection, now, tenant_id, IDEMPOTENCY, request.key, None, request.fingerprint, None)
            return None

        return await self.database.run(work)

    async def end_request(self, tenant_id: int, request: KeyedRequest, answer: bytes | None) -> None:
        name = "drop_answer" if answer is None else "set_answer"
        this = {"tenant_id": tenant_id, "kind": IDEMPOTENCY, "key": request.key, "fingerprint": request.fingerprint}
        given = {} if answer is None else {"answer": answer}
        await self.database.run(lambda connection, _: connection.execute(name, {**this, **given}))


def first_answer(connection: Connection, tenant_id: int, request: KeyedRequest | None, kind: type[T]) -> T | None:
    """What this request was answered before; None when it is new. Raises `KeyReused`."""
    if request is None:
        return None
    rows = connection.rows("find_answer", {"tenant_id": tenant_id, "kind": IDEMPOTENCY, "key": request.key})
    return decode_answer(request, rows[0][1], rows[0][2], kind) if rows else None


def keep_answer(connection: Connection, now: int, tenant_id: int, request: KeyedRequest | None, answer: object) -> None:
    if request is not None:
        _put(
            connection, now, tenant_id, IDEMPOTENCY, request.key, None, request.fingerprint, msgspec.json.encode(answer)
        )


def repeated_by(connection: Connection, tenant_id: int, run_id: UUID) -> UUID | None:
    """The run that repeats this one."""
    rows = connection.rows("find_answer", {"tenant_id": tenant_id, "kind": REPEAT, "key": run_id.hex})
    return identity(rows[0][0]) if rows else None


def keep_repeats(connection: Connection, now: int, tenant_id: int, repeated: list[Repeated]) -> None:
    """Remember which runs were repeated, and by which."""
    for old, new in repeated:
        _put(connection, now, tenant_id, REPEAT, old.hex, new.bytes, b"", None)


def _put(
    connection: Connection,
    now: int,
    tenant_id: int,
    kind: str,
    key: str,
    run_id: bytes | None,
    fingerprint: bytes,
    answer: bytes | None,
) -> None:
    row = {"kind": kind, "key": key, "run_id": run_id, "fingerprint": fingerprint, "answer": answer}
    connection.execute("put_answers", {**row, "tenant_id": tenant_id, "now": now})
