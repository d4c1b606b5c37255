"""A store whose reads continue into the archive.

The database is read first, then the index of files: a day that is removed in between is in the index. A run that is in
both is shown once, as the database has it.
"""

import asyncio
import copy
from typing import TypeVar
from uuid import UUID

import msgspec

from duetime.archive.part_reader import PartReader
from duetime.archive.storage import Storage, storage_of
from duetime.errors import NotFound
from duetime.model.attempt import Run
from duetime.model.lists import Page, RunFilter, RunItem
from duetime.settings import Settings
from duetime.store.protocol.service import Lists
from duetime.store.protocol.store import Reads, Store
from duetime.store.rules.job_rows import MOST_ATTEMPTS, ended_run
from duetime.store.rules.list_pages import Source, make_page
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID
from duetime.store.wrappers.content import Sealing
from duetime.store.wrappers.overlay import overlay

S = TypeVar("S", bound=Store)

MOST_FILES = 64
"""Files that a page looks into."""


def archived(store: S, storage: Storage) -> S:
    """This store, with reads that continue into the archive."""
    files = ArchivedRuns(store, storage)
    made = copy.copy(store)
    made.lists = overlay(store.lists, ArchivedLists(store.lists, files))
    made.reads = overlay(store.reads, ArchivedReads(store.reads, files))
    return made


def with_archive(store: S, settings: Settings) -> S:
    """The same, if the settings name an archive."""
    storage = storage_of(settings)
    return store if storage is None else archived(store, storage)


class ArchivedRuns:
    """Runs in files, by the index of the store."""

    def __init__(self, store: Store, storage: Storage) -> None:
        self._archives = store.archives
        self._reader = PartReader(storage)
        sealer = store.sealer
        self._sealing = None if sealer is None else Sealing(store.tenants, store.claims, sealer, alone=False)

    async def page(
        self,
        tenant_id: int,
        filter: RunFilter,
        lowest: UUID,
        before: UUID,
        limit: int,
        day: int | None = None,
    ) -> Source:
        """Ended runs in files from `lowest` up to `before`. With `day`: of this day, also while the database has it."""
        if filter.state is not None and not filter.state.is_end:
            return Source(())
        most, unread = MOST_FILES, None
        while True:
            parts = await self._archives.parts_between(tenant_id, lowest, before, most + 1, day=day)
            if not parts:
                return Source(())
            if len(parts) <= most:
                break
            unread = parts.pop().last_run
            if unread < before:
                break
            most, unread = 2 * most, None  # more files than usual reach across this place
        page = await asyncio.to_thread(self._reader.page, parts, unread, filter, lowest, before, limit)
        items = [item for _, item in page.items]
        if self._sealing is not None:
            items = await self._sealing.errors(tenant_id, items)
        return Source([(item.id, item) for item in items], page.horizon)

    async def run(self, tenant_id: int, run_id: UUID) -> Run | None:
        after = UUID(int=min(run_id.int + 1, LAST_ID.int))
        parts = await self._archives.parts_between(tenant_id, run_id, after, MOST_FILES)
        rows = await asyncio.to_thread(self._reader.rows, parts, run_id) if parts else []
        # Two passes may have written the same row, if a restored day was archived while its files were unreadable.
        attempts = list({(row["fence"], row["attempt_state"], row["finished_at"]): row for row in rows}.values())
        attempts.sort(key=lambda row: (row["fence"], row["end_state"] is not None, row["finished_at"]))
        if not attempts or attempts[-1]["end_state"] is None:
            return None
        run = msgspec.structs.replace(ended_run(attempts[-MOST_ATTEMPTS - 1 :], MOST_ATTEMPTS), archived=True)
        return run if self._sealing is None else await self._sealing.run(run)


class ArchivedLists:
    def __init__(self, inner: Lists, files: ArchivedRuns) -> None:
        self._inner = inner
        self._files = files

    async def list_runs(
        self, tenant_id: int, filter: RunFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[RunItem]:
        page = await self._inner.list_runs(tenant_id, filter, before, limit)
        if filter.within is not None:
            return page  # files do not say whose job it is now
        cold = await self._files.page(tenant_id, filter, page.next or FIRST_ID, before or LAST_ID, limit)
        if not cold.items and cold.horizon is None:
            return page
        hot = {item.id for item in page.items}
        extra = [(run_id, item) for run_id, item in cold.items if run_id not in hot]
        both = make_page(
            [Source([(item.id, item) for item in page.items], page.next), Source(extra, cold.horizon)], limit
        )
        return msgspec.structs.replace(both, archived=any(item.archived for item in both.items))


class ArchivedReads:
    def __init__(self, inner: Reads, files: ArchivedRuns) -> None:
        self._inner = inner
        self._files = files

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        try:
            return await self._inner.run(tenant_id, run_id)
        except NotFound:
            found = await self._files.run(tenant_id, run_id)
            if found is None:
                raise
            return found
