"""The archive of a store: days are written, compared before the database may remove them, restored and deleted.

No step needs a leader. A day is written under a claim with a lease. Every other step may run on several nodes at once:
it compares, or deletes what the index no longer needs.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from duetime.archive.archived_store import ArchivedRuns
from duetime.archive.columns import to_restore
from duetime.archive.day_writer import LEASE, DayWriter, put_manifest
from duetime.archive.names import date_of, file_path, tenant_folder
from duetime.archive.part_reader import PartReader
from duetime.archive.part_writer import PART_ROWS, problem_of
from duetime.archive.retention import ColdRetention
from duetime.archive.storage import Storage, storage_of
from duetime.clock import monotonic
from duetime.errors import LeaseLost, NotFound, reason_of
from duetime.ids import new_id
from duetime.model.lists import Page, RunFilter, RunItem
from duetime.model.microseconds import EPOCH
from duetime.settings import Settings
from duetime.store.protocol.archives import ArchiveDay
from duetime.store.protocol.store import Store
from duetime.store.rules.list_pages import make_page
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID

log = logging.getLogger("duetime.archive")

_DAY = timedelta(days=1)
_EXPIRED_AT_ONCE = 100
_RESTORED_AT_ONCE = 1000
_TENANTS_AT_ONCE = 1000


class Restored(msgspec.Struct, frozen=True):
    """How far a restore has come."""

    rows: int
    """Rows that were put back by this step."""
    after: tuple[int, int] | None
    """The file and the row in it to continue from; None: done."""


class Archive:
    def __init__(
        self,
        store: Store,
        storage: Storage,
        *,
        retention: timedelta = timedelta(days=365),
        archive_after: timedelta = timedelta(hours=1),
        part_rows: int = PART_ROWS,
    ) -> None:
        self._store = store
        self._archives = store.archives
        self.storage = storage
        self._retention = retention
        self._after = archive_after
        self._part_rows = part_rows
        self._reader = PartReader(storage)
        self._runs = ArchivedRuns(store, storage)

    async def days_to_write(self, now: datetime) -> list[int]:
        """The days that are due to be archived, oldest first."""
        days = await self._archives.days_in_history(now - self._after)
        restored = {
            each.day
            for each in await self._archives.archive_days()
            if each.restored_until is not None and each.restored_until > now
        }
        return [day for day in days if day not in restored]

    async def write_day(self, day: int, seen_at: datetime, report: Callable[[int], None] = lambda rows: None) -> bool:
        """Archive a day; False if another node does, or if it must be repeated. Raises what went wrong."""
        claim = await self._archives.claim_day(day, new_id(), LEASE, seen_at)
        if claim is None:
            return False
        writer = DayWriter(
            self._store,
            self.storage,
            ColdRetention(self._retention, await self._own("archive_days")),
            part_rows=self._part_rows,
            report=report,
        )
        began = monotonic()
        try:
            rows = await writer.write(claim)
        except LeaseLost:
            return False
        except asyncio.CancelledError:
            await self._archives.give_up_day(claim, "it was interrupted")
            raise
        except Exception as error:
            await self._archives.give_up_day(claim, reason_of(error)[:500])
            raise
        if rows is None:
            await self._archives.give_up_day(claim, "rows were added while it was archived")
            return False
        log.info("archived %s: %d rows in %.1f s", date_of(day), rows, monotonic() - began)
        return True

    async def release(self, trusted: datetime, retention: timedelta) -> list[str]:
        """Compare the files of archived days of which rows are past their retention, and let the database remove these
        rows. `retention`: that of all tenants and jobs without their own. Returns what is wrong; the days at fault
        stay, and are archived again."""
        problems = []
        now = await self._store.now()
        tenants = (await self._own("history_days")).values()
        shortest = min([retention, *(timedelta(days=days) for days in tenants)])
        of_jobs = await self._store.pruning.retentions_of_jobs()
        for each in await self._archives.archive_days():
            kept = min([shortest, *(timedelta(days=days) for days in of_jobs.get(each.day, ()))])
            if each.archived_at is None or each.released_at is not None or end_of(each.day) >= trusted - kept:
                continue
            if each.restored_until is not None and each.restored_until > now:
                continue
            problem = await self._compare(each)
            if problem is not None:
                problems.append(problem)
        return problems

    async def _compare(self, day: ArchiveDay) -> str | None:
        parts = await self._archives.parts_of_day(day.day)
        bad, first = [], None
        for part in parts:
            problem = await asyncio.to_thread(problem_of, self.storage, part)
            if problem is not None:
                bad.append(part)
                first = first or f"{file_path(part)}: {problem}"
        if not bad:
            await self._archives.release_day(day.day, day.pass_no)
            return None
        text = f"{date_of(day.day)} is not removed from the database, because {len(bad)} files are not whole: {first}"
        await self._archives.reopen_day(day.day, bad, text)
        return text

    async def runs_of_day(self, tenant_id: int, day: int, before: UUID | None, limit: int) -> Page[RunItem]:
        """Runs that ended on an archived day, newest first, as the files have them. Raises `NotFound`."""
        if not await self._archives.parts_of_day(day, tenant_id):
            raise _not_archived(day)
        found = await self._runs.page(tenant_id, RunFilter(), FIRST_ID, before or LAST_ID, limit, day=day)
        return msgspec.structs.replace(make_page([found], limit), archived=True)

    async def expire(self, now: datetime) -> int:
        """Delete files past their retention; returns how many."""
        parts = await self._archives.expired_parts((now - EPOCH) // _DAY, _EXPIRED_AT_ONCE)
        for part in parts:
            await asyncio.to_thread(self.storage.delete, file_path(part))
        await self._archives.forget_parts(parts)
        for tenant_id, day in {(part.tenant_id, part.day) for part in parts}:
            left = await self._archives.parts_of_day(day, tenant_id)
            await asyncio.to_thread(put_manifest, self.storage, tenant_id, day, left)
        return len(parts)

    async def erase(self, tenant_id: int) -> int:
        """Delete all files of a tenant; returns how many."""
        paths = await asyncio.to_thread(self.storage.names, tenant_folder(tenant_id))
        for path in paths:
            await asyncio.to_thread(self.storage.delete, path)
        while days := await self._archives.tenant_days(tenant_id, 2**31 - 1, _TENANTS_AT_ONCE):
            for each in days:
                await self._archives.forget_parts(await self._archives.parts_of_day(each.day, tenant_id))
        return len(paths)

    async def restore(
        self,
        day: int,
        tenant_id: int | None,
        until: datetime,
        after: tuple[int, int] = (0, 0),
        most: Callable[[], bool] = lambda: False,
    ) -> Restored:
        """Put rows of a day back into the database, where they stay until a time. `most` says when to stop; another
        call continues."""
        parts = await self._archives.parts_of_day(day, tenant_id)
        if not parts or not await self._archives.begin_restore(day, until):
            raise _not_archived(day)
        rows, (number, start) = 0, after
        while number < len(parts):
            part = parts[number]
            batches = self._reader.batches(part, start, _RESTORED_AT_ONCE)
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                rows += await self._archives.restore_rows(part.tenant_id, to_restore(batch, part.tenant_id))
                start += len(batch)
                if most():
                    return Restored(rows, (number, start))
            number, start = number + 1, 0
        return Restored(rows, None)

    async def _own(self, limit: str) -> dict[int, int]:
        """The tenants that have a retention of their own, and how many days it is."""
        of_tenants: dict[int, int] = {}
        last = 0
        while found := await self._store.tenants.tenants(last, _TENANTS_AT_ONCE):
            last = found[-1].id
            for tenant in found:
                if (days := getattr(tenant.limits, limit)) is not None:
                    of_tenants[tenant.id] = days
        return of_tenants


def archive_of(store: Store, settings: Settings) -> Archive | None:
    """The archive that the settings name; None: history is not archived."""
    storage = storage_of(settings)
    if storage is None:
        return None
    return Archive(store, storage, retention=settings.archive_retention, archive_after=settings.archive_after)


def _not_archived(day: int) -> NotFound:
    return NotFound(f"{date_of(day)} is not archived", remedy="`duetime archive list` shows what is")


def end_of(day: int) -> datetime:
    return EPOCH + (day + 1) * _DAY
