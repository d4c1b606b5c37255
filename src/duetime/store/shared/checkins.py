"""Jobs that run elsewhere and report here."""

from datetime import timedelta

from duetime.errors import NotFound
from duetime.model.checkin import CheckIn, Ping, StoredCheckIn, decode_checkin, encode_checkin
from duetime.store.rules.job_rows import Fields, from_row
from duetime.store.shared.notification_rows import encode, message_of
from duetime.store.shared.transaction import SharedRole, Transaction


class CheckInRole(SharedRole):
    async def put_checkin(self, tenant_id: int, check: CheckIn, token_hash: bytes, *, paused: bool) -> bool:
        wanted = {"tenant_id": tenant_id, "name": check.name, "body": encode_checkin(check), "paused": paused}

        async def work(transaction: Transaction) -> bool:
            if await transaction.execute("add_checkin", **wanted, hash=token_hash):
                return True
            await transaction.execute("change_checkin", **wanted)
            return False

        return await self.transactions.run(work)

    async def checkins(self, tenant_id: int, name: str | None = None) -> list[StoredCheckIn]:
        rows = await self.transactions.rows("list_checkins", tenant_id=tenant_id, name=name)
        return [_checkin_of(row) for row in rows]

    async def checkin(self, tenant_id: int, name: str) -> StoredCheckIn:
        found = await self.checkins(tenant_id, name)
        if not found:
            raise _missing(name)
        return found[0]

    async def pause_checkin(self, tenant_id: int, name: str, *, paused: bool) -> StoredCheckIn:
        if not await self.transactions.execute("pause_checkin", tenant_id=tenant_id, name=name, paused=paused):
            raise _missing(name)
        return await self.checkin(tenant_id, name)

    async def rotate_checkin(self, tenant_id: int, name: str, token_hash: bytes) -> StoredCheckIn:
        if not await self.transactions.execute("rotate_checkin", tenant_id=tenant_id, name=name, hash=token_hash):
            raise _missing(name)
        return await self.checkin(tenant_id, name)

    async def delete_checkin(self, tenant_id: int, name: str) -> None:
        if not await self.transactions.execute("delete_checkin", tenant_id=tenant_id, name=name):
            raise _missing(name)

    async def has_checkin(self, token_hash: bytes) -> bool:
        return await self.transactions.value("has_checkin", hash=token_hash) is not None

    async def ping(self, token_hash: bytes, ping: Ping, exit_code: int | None, note: str | None) -> bool:
        wanted = {"hash": token_hash, "ping": ping, "exit_code": exit_code, "note": note}
        return await self.transactions.execute("ping_checkin", **wanted) > 0

    async def take_checkins(self, period: timedelta, limit: int = 100) -> list[StoredCheckIn]:
        return [_checkin_of(row) for row in await self.transactions.rows("take_checkins", period=period, limit=limit)]

    async def keep_checkin(self, stored: StoredCheckIn, seen: int) -> bool:
        kept = await self.transactions.execute(
            "keep_checkin",
            tenant_id=stored.tenant_id,
            name=stored.check.name,
            open=stored.open,
            reason=stored.reason,
            changed_at=stored.changed_at,
            version=stored.version,
            message=None if stored.message is None else encode(stored.message),
            counts_from=stored.counts_from,
            started_at=stored.started_at,
            judge_at=stored.judge_at,
            revision=stored.revision,
            seen=seen,
        )
        return kept > 0

    async def mark_checkin_notified(self, stored: StoredCheckIn) -> None:
        await self.transactions.execute(
            "mark_checkin_notified",
            tenant_id=stored.tenant_id,
            name=stored.check.name,
            version=stored.version,
            revision=stored.revision,
            judge_at=stored.judge_at,
        )


def _checkin_of(row: Fields) -> StoredCheckIn:
    return from_row(StoredCheckIn, row, check=decode_checkin(row["body"]), message=message_of(row))


def _missing(name: str) -> NotFound:
    return NotFound(f"there is no check-in {name!r}", field="checkin")
