"""Erasures: every statement that removes rows runs with the one that records how many."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from duetime.errors import Conflict
from duetime.ids import new_id
from duetime.model.erasure import Erasure, ErasureProgress, ErasureStep, name_hash
from duetime.model.job import DEFAULT_TENANT
from duetime.model.tenant import Tenant, TenantState
from duetime.store.protocol.store import Claims, Hint
from duetime.store.rules.encrypted_columns import META
from duetime.store.rules.job_rows import from_row
from duetime.store.rules.tenant_tables import TENANT_TABLES
from duetime.store.shared.control import stop_runs
from duetime.store.shared.service_rows import FIRST_ID, no_tenant, stored_tenant
from duetime.store.shared.transaction import Row, SharedContext, SharedRole, Transaction, found

_ALL = 2**31 - 1
_counts = msgspec.json.Decoder(dict[str, int])
_progress = msgspec.json.Decoder(ErasureProgress)


class SharedErasures(SharedRole, ABC):
    def __init__(self, context: SharedContext, claims: Claims) -> None:
        super().__init__(context)
        self._claims = claims

    @abstractmethod
    async def compact(self) -> bool: ...

    async def plan_erasure(self, tenant_id: int, grace: timedelta, requested_by: str, key_id: UUID | None) -> Erasure:
        async def work(transaction: Transaction) -> Erasure:
            tenant = await _tenant(transaction, tenant_id)
            if tenant_id == DEFAULT_TENANT:
                raise Conflict(
                    "the tenant default cannot be deleted: every database has it",
                    field="tenant",
                    remedy="delete its jobs, or the database",
                )
            if tenant.state is TenantState.DELETING:
                raise Conflict(
                    "the tenant is already scheduled for deletion", field="tenant", remedy="wait until it is erased"
                )
            await transaction.execute(
                "plan_erasure",
                tenant_id=tenant_id,
                name_hash=name_hash(tenant_id, tenant.name),
                state_before=tenant.state,
                requested_by=requested_by,
                key_id=key_id,
                erase_at=await transaction.now() + grace,
                progress=_text(ErasureProgress()),
                removed="{}",
            )
            await transaction.execute("set_tenant_state", tenant_id=tenant_id, state=TenantState.DELETING)
            return _erasure(found(await transaction.row("lock_erasure", tenant_id=tenant_id)))

        planned = await self.transactions.run(work)
        await self._claims.rules()
        return planned

    async def withdraw_erasure(self, tenant_id: int) -> None:
        async def work(transaction: Transaction) -> None:
            tenant = await _tenant(transaction, tenant_id)
            row = await transaction.row("lock_erasure", tenant_id=tenant_id)
            if row is None or tenant.state is not TenantState.DELETING:
                raise Conflict("the tenant is not scheduled for deletion", field="tenant")
            if not await transaction.execute("withdraw_erasure", tenant_id=tenant_id):
                raise Conflict("the tenant is being erased already: its deletion cannot be undone", field="tenant")
            await transaction.execute("set_tenant_state", tenant_id=tenant_id, state=row["state_before"])

        await self.transactions.run(work)
        await self._claims.rules()

    async def erasures(
        self, tenant_id: int | None = None, before: int | None = None, limit: int = 100
    ) -> list[Erasure]:
        wanted = {"tenant_id": tenant_id, "before": _ALL if before is None else before, "limit": limit}
        return [_erasure(row) for row in await self.transactions.rows("list_erasures", **wanted)]

    async def take_erasure(self, holder: UUID, period: timedelta, now: datetime) -> Erasure | None:
        async def work(transaction: Transaction) -> Erasure | None:
            at = await transaction.now()
            row = await transaction.row("take_erasure", holder=holder, at=at, until=at + period, trusted=now)
            return None if row is None else _erasure(row)

        return await self.transactions.run(work)

    async def release_erasure(self, erasure: Erasure, holder: UUID, problem: str | None, period: timedelta) -> None:
        async def work(transaction: Transaction) -> None:
            until = await transaction.now() + period
            words = {"tenant_id": erasure.tenant_id, "holder": holder, "until": until, "problem": problem}
            await transaction.execute("release_erasure", **words)

        await self.transactions.run(work)

    async def begin_erasure(self, erasure: Erasure) -> Erasure:
        now = await self._now()
        return await self._change(
            erasure,
            lambda kept: (
                kept
                if kept.started_at is not None
                else msgspec.structs.replace(kept, step=ErasureStep.CANCELLING, started_at=now)
            ),
        )

    async def move_erasure(self, erasure: Erasure, step: ErasureStep) -> Erasure:
        now = await self._now()
        done = now if step is ErasureStep.DONE else None
        return await self._change(erasure, lambda kept: msgspec.structs.replace(kept, step=step, finished_at=done))

    async def stop_tenant(self, tenant_id: int, limit: int) -> int:
        async def work(transaction: Transaction) -> int:
            rows = await transaction.rows("running_of_tenant", tenant_id=tenant_id, limit=limit)
            await stop_runs(transaction, tenant_id, [row["id"] for row in rows if not row["cancel_requested"]])
            return len(rows)

        running = await self.transactions.run(work)
        if running:
            self.hints.give(Hint.CANCEL)
        return running

    async def erase_part(self, erasure: Erasure, batch: int, window: int) -> Erasure:
        async def work(transaction: Transaction) -> Erasure:
            kept = _erasure(found(await transaction.row("lock_erasure", tenant_id=erasure.tenant_id)))
            began = kept.progress.began or await transaction.now()
            kept = msgspec.structs.replace(kept, progress=msgspec.structs.replace(kept.progress, began=began))
            removed = 0
            while removed < batch and kept.progress.table < len(TENANT_TABLES):
                table, before = kept.progress.table, kept.progress.found
                kept = await _erase(transaction, kept, batch - removed, window)
                removed += kept.progress.found - before
                if kept.progress.table == table:
                    break
            await _put(transaction, kept)
            return kept

        return await self.transactions.run(work)

    async def note_removed(self, erasure: Erasure, kind: str, count: int) -> Erasure:
        def added(kept: Erasure) -> Erasure:
            place = msgspec.structs.replace(kept.progress, found=kept.progress.found + count)
            return _with_removed(msgspec.structs.replace(kept, progress=place), kind, count)

        return await self._change(erasure, added) if count else erasure

    async def next_pass(self, erasure: Erasure) -> Erasure:
        return await self._change(
            erasure,
            lambda kept: msgspec.structs.replace(kept, progress=ErasureProgress(passes=kept.progress.passes + 1)),
        )

    async def has_rows(self, tenant_id: int) -> bool:
        return await self.transactions.row("awake_of_tenant", tenant_id=tenant_id) is not None

    async def archiving(self) -> frozenset[UUID]:
        return frozenset([row["id"] for row in await self.transactions.rows("archiving_nodes")])

    async def end_tenant(self, erasure: Erasure) -> Erasure:
        async def work(transaction: Transaction) -> Erasure:
            kept = _erasure(found(await transaction.row("lock_erasure", tenant_id=erasure.tenant_id)))
            if await transaction.execute("drop_tenant", tenant_id=kept.tenant_id):
                await _forget_resealed(transaction, kept.tenant_id)
                await _forget_searched(transaction, kept.tenant_id)
                rows = sum(kept.removed.values())
                await transaction.execute(
                    "record_audit",
                    id=new_id(),
                    tenant_id=None,
                    key_id=kept.key_id,
                    actor=kept.requested_by,
                    action="tenants.erased",
                    object=f"tenant {kept.tenant_id}",
                    detail=f"{rows} rows, files and messages were removed",
                )
            changed = msgspec.structs.replace(kept, step=ErasureStep.COMPACTING)
            await _put(transaction, changed)
            return changed

        return await self.transactions.run(work)

    async def _now(self) -> datetime:
        return await self.transactions.run(lambda transaction: transaction.now())

    async def _change(self, erasure: Erasure, change: Callable[[Erasure], Erasure]) -> Erasure:
        async def work(transaction: Transaction) -> Erasure:
            kept = _erasure(found(await transaction.row("lock_erasure", tenant_id=erasure.tenant_id)))
            changed = change(kept)
            await _put(transaction, changed)
            return changed

        return await self.transactions.run(work)


async def _erase(transaction: Transaction, erasure: Erasure, batch: int, window: int) -> Erasure:
    """Remove rows of the current table; the next one follows when nothing is left in it."""
    place, table = erasure.progress, TENANT_TABLES[erasure.progress.table]
    whose = {"tenant_id": erasure.tenant_id}
    after: UUID | None = None
    if table.until is not None:
        part = {"after": place.after or FIRST_ID}
        after = await transaction.value(table.until, **part, window=window)
        count = await transaction.execute(table.erase, **whose, **part, until=after)
        ended = after is None
    elif table.name == "history":
        count = len(await transaction.rows(table.erase, **whose, batch=batch))
        ended = not count
    else:
        count = await transaction.execute(table.erase, **whose, batch=batch)
        ended = count < batch
    following = msgspec.structs.replace(place, table=place.table + ended, after=after, found=place.found + count)
    return _with_removed(msgspec.structs.replace(erasure, progress=following), table.name, count)


async def _forget_resealed(transaction: Transaction, tenant_id: int) -> None:
    """A re-encryption that was stopped keeps the key of a row, such as the name of a secret."""
    state = await transaction.value("find_meta", name=META)
    if state is None:
        return
    progress = msgspec.json.decode(state)
    after = progress.get("after")
    if after and len(after) > 1 and after[0] == tenant_id:
        # The rows of this tenant are gone: what follows is above any name.
        progress["after"] = [after[0], *("0" * 32 if len(str(part)) == 32 else type(part)() for part in after[1:])]
        await transaction.execute("put_meta", name=META, value=msgspec.json.encode(progress).decode())


async def _forget_searched(transaction: Transaction, tenant_id: int) -> None:
    """The search index keeps the last label that it has looked at."""
    body = await transaction.value("search_place")
    places = msgspec.json.decode(body) if body else {}
    if places.get("pruned", [0])[0] == tenant_id:
        del places["pruned"]
        await transaction.execute("put_search_place", body=msgspec.json.encode(places))


async def _tenant(transaction: Transaction, tenant_id: int) -> Tenant:
    row = await transaction.row("lock_tenant", tenant_id=tenant_id)
    if row is None:
        raise no_tenant(str(tenant_id))
    return stored_tenant(row)


async def _put(transaction: Transaction, erasure: Erasure) -> None:
    await transaction.execute(
        "put_erasure",
        tenant_id=erasure.tenant_id,
        step=erasure.step,
        started_at=erasure.started_at,
        finished_at=erasure.finished_at,
        progress=_text(erasure.progress),
        removed=msgspec.json.encode(erasure.removed, order="sorted").decode(),
    )


def _with_removed(erasure: Erasure, kind: str, count: int) -> Erasure:
    if not count:
        return erasure
    return msgspec.structs.replace(erasure, removed=erasure.removed | {kind: erasure.removed.get(kind, 0) + count})


def _erasure(row: Row) -> Erasure:
    return from_row(
        Erasure,
        row,
        state_before=TenantState(row["state_before"]),
        step=ErasureStep(row["step"]),
        progress=_progress.decode(row["plan"]),
        removed=_counts.decode(row["said"]),
    )


def _text(progress: ErasureProgress) -> str:
    return msgspec.json.encode(progress).decode()
