"""Responses to requests with idempotency keys, stored in the transaction of their effects."""

from collections.abc import Sequence
from typing import Any, TypeVar
from uuid import UUID

import msgspec

from duetime.errors import KeyInFlight
from duetime.model.idempotency import KeyedRequest
from duetime.store.rules.caller_keys import IDEMPOTENCY, KEY, NO_JOB, REPEAT, Repeated, answer_of, decode_answer
from duetime.store.shared.transaction import Row, SharedRole, Transaction

T = TypeVar("T")


class AnswerRole(SharedRole):
    async def begin_request(self, tenant_id: int, request: KeyedRequest) -> bytes | None:
        async def work(transaction: Transaction) -> bytes | None:
            row = await find_answer(transaction, tenant_id, request.key)
            if row is not None:
                return answer_of(request, row["fingerprint"], row["answer"])
            await transaction.execute("put_answer", **answer_row(tenant_id, request, None))
            return None

        return await self.transactions.of(tenant_id).run(work)

    async def end_request(self, tenant_id: int, request: KeyedRequest, answer: bytes | None) -> None:
        name = "drop_answer" if answer is None else "set_answer"
        await self.transactions.of(tenant_id).execute(name, **answer_row(tenant_id, request, answer))


async def try_lock_keys(transaction: Transaction, tenant_id: int, keys: Sequence[tuple[str, str]]) -> None:
    """Lock every key without waiting, in the same order in all transactions. The transaction's end releases them."""
    if not keys:
        return
    kinds, names = [kind for kind, _ in keys], [key for _, key in keys]
    held = await transaction.lock("try_lock_keys", tenant_id=tenant_id, kinds=kinds, keys=names)
    if held is not None:
        field = "key" if held["kind"] == KEY else "idempotency_key"
        message = f"another request with the key {held['key']!r} has not finished"
        raise KeyInFlight(message, field=field, remedy="retry in a moment")


async def first_answer(
    transaction: Transaction, tenant_id: int, request: KeyedRequest | None, kind: type[T]
) -> T | None:
    """The stored response to this request; None when it is new. Raises `KeyReused`, and `KeyInFlight` without
    waiting."""
    if request is None:
        return None
    row = await find_answer(transaction, tenant_id, request.key)
    return None if row is None else decode_answer(request, row["fingerprint"], row["answer"], kind)


async def keep_answer(transaction: Transaction, tenant_id: int, request: KeyedRequest | None, answer: object) -> None:
    if request is not None:
        await transaction.execute("put_answer", **answer_row(tenant_id, request, msgspec.json.encode(answer)))


async def repeated_by(transaction: Transaction, tenant_id: int, run_id: UUID) -> UUID | None:
    """The run that replays this one. Locks out other transactions that would replay it."""
    await transaction.lock("lock_repeat", tenant_id=tenant_id, key=run_id.hex)
    row = await transaction.row("find_answer", tenant_id=tenant_id, kind=REPEAT, key=run_id.hex)
    return None if row is None else row["run_id"]


async def keep_repeats(transaction: Transaction, tenant_id: int, repeated: Sequence[Repeated]) -> None:
    """Store which runs were replayed, and by which."""
    same = {"tenant_id": tenant_id, "kind": REPEAT, "job_id": NO_JOB, "fingerprint": b"", "answer": None}
    await transaction.many("put_answer", [{**same, "key": old.hex, "run_id": new} for old, new in repeated])


async def find_answer(transaction: Transaction, tenant_id: int, key: str) -> Row | None:
    """What an idempotency key leads to. Raises `KeyInFlight`."""
    await try_lock_keys(transaction, tenant_id, [(IDEMPOTENCY, key)])
    return await transaction.row("find_answer", tenant_id=tenant_id, kind=IDEMPOTENCY, key=key)


def answer_row(
    tenant_id: int, request: KeyedRequest, answer: bytes | None = None, job_id: UUID = NO_JOB
) -> dict[str, Any]:
    return {
        "tenant_id": tenant_id,
        "kind": IDEMPOTENCY,
        "key": request.key,
        "job_id": job_id,
        "run_id": None,
        "fingerprint": request.fingerprint,
        "answer": answer,
    }
