"""Archiving one day: tenant by tenant, part by part.

Killed half-way, the next claimant continues after the last part that the store has recorded. Files that were written
and not recorded are deleted before a tenant's manifest is written. A pass leaves out rows that earlier passes wrote.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from duetime.archive.arrow import arrow
from duetime.archive.columns import to_table
from duetime.archive.names import MANIFEST, date_of, day_folder, file_path, manifest_path
from duetime.archive.part_writer import PART_ROWS, PartWriter
from duetime.archive.retention import ColdRetention
from duetime.archive.storage import Storage
from duetime.errors import LeaseLost, StoreUnavailable
from duetime.store.protocol.archives import ArchivePart, DayClaim, HistoryRows
from duetime.store.protocol.store import Store

LEASE = timedelta(seconds=60)
BATCH_ROWS = 50_000
_BATCH_BYTES = 32 * 1024**2
_FEW_ROWS = 50_000
"""Tenants with fewer rows are archived several at a time: most of their time is waiting for storage."""
_AT_ONCE = 8
_KEY = ("run_id", "fence", "attempt_status", "finished_at")

Report = Callable[[int], None]


class DayWriter:
    def __init__(
        self,
        store: Store,
        storage: Storage,
        retention: ColdRetention,
        *,
        part_rows: int = PART_ROWS,
        report: Report = lambda rows: None,
    ) -> None:
        self._archives = store.archives
        self._storage = storage
        self._retention = retention
        self._part_rows = part_rows
        self._report = report
        self._reading = asyncio.Lock()
        self._lanes: dict[int, Any] = {}

    async def write(self, claim: DayClaim) -> int | None:
        """Archive the day; returns how many rows it has, or None if the day changed meanwhile. Raises `LeaseLost` when
        another node has taken over."""
        try:
            async with self._held(claim):
                tenants = await self._archives.tenants_of_day(claim.day)
                few = asyncio.Semaphore(_AT_ONCE)
                many = asyncio.Lock()

                async def one(tenant_id: int, rows: int) -> int:
                    async with few, many if rows > _FEW_ROWS else _nothing():
                        return await self._write_tenant(claim, tenant_id)

                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(one(*tenant)) for tenant in tenants]
                rows = sum(task.result() for task in tasks)
                return rows if await self._archives.finish_day(claim, rows) else None
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors
        finally:
            await self._archives.end_reading()

    async def _write_tenant(self, claim: DayClaim, tenant_id: int) -> int:
        known = await self._archives.parts_of_day(claim.day, tenant_id)
        earlier = [part for part in known if part.pass_no != claim.pass_no]
        mine = [part for part in known if part.pass_no == claim.pass_no]
        read = sum(part.read for part in mine)
        after = max((part.last_run for part in mine), default=None)
        writer = PartWriter(self._storage, claim, tenant_id, self._part_rows)
        batch = await self._read(claim.day, tenant_id, after)
        while batch.count:
            last_run, count, following = batch.last_run, batch.count, None
            if batch.more:
                following = asyncio.create_task(self._read(claim.day, tenant_id, last_run))
            try:
                lanes = await self._lanes_of(batch)
                tables = await asyncio.to_thread(self._sorted_by_end, batch, lanes, claim.day, tenant_id, earlier)
                if await asyncio.to_thread(writer.add, tables, count, last_run):
                    await self._record(claim, await asyncio.to_thread(writer.end))
            except BaseException:
                if following is not None:
                    following.cancel()
                    with suppress(BaseException):
                        await following
                raise
            read += count
            self._report(count)
            if following is None:
                break
            batch = await following
        await self._record(claim, await asyncio.to_thread(writer.end))
        await self._write_manifest(claim, tenant_id)
        return read

    async def _read(self, day: int, tenant_id: int, after: UUID | None) -> HistoryRows:
        async with self._reading:
            most = min(BATCH_ROWS, self._part_rows)
            return await self._archives.read_day(day, tenant_id, after, most, _BATCH_BYTES)

    async def _lanes_of(self, batch: HistoryRows) -> dict[int, Any]:
        wanted = set(batch.numbers["lane_id"])
        if missing := [lane for lane in wanted if lane not in self._lanes]:
            self._lanes |= await self._archives.lanes_of_rows(sorted(missing))
        return {lane: self._lanes[lane] for lane in wanted if lane in self._lanes}

    def _sorted_by_end(
        self, batch: HistoryRows, lanes: dict[int, Any], day: int, tenant_id: int, earlier: Sequence[ArchivePart]
    ) -> list[tuple[int, Any]]:
        table = to_table(batch, lanes)
        if earlier:
            table = self._without(table, batch, earlier)
        return self._retention.split(table, day, tenant_id)

    def _without(self, table: Any, batch: HistoryRows, earlier: Sequence[ArchivePart]) -> Any:
        """The rows that no earlier file holds."""
        first, last = UUID(bytes=batch.ids["run_id"][:16]), batch.last_run
        known: set[tuple[Any, ...]] = set()
        for part in earlier:
            if part.first_run <= last and first <= part.last_run:
                with self._storage.open(file_path(part)) as file:
                    found = arrow.parquet.read_table(file, columns=list(_KEY))
                known.update(zip(*(found.column(name).to_pylist() for name in _KEY), strict=True))
        rows = zip(*(table.column(name).to_pylist() for name in _KEY), strict=True)
        return table.filter(arrow.core.array([row not in known for row in rows], arrow.core.bool_()))

    async def _record(self, claim: DayClaim, parts: Sequence[ArchivePart]) -> None:
        if parts and not await self._archives.add_parts(claim, parts):
            raise LeaseLost(f"another node archives {date_of(claim.day)}")

    async def _write_manifest(self, claim: DayClaim, tenant_id: int) -> None:
        parts = await self._archives.parts_of_day(claim.day, tenant_id)
        if not await self._archives.renew_day(claim, LEASE):
            raise LeaseLost(f"another node archives {date_of(claim.day)}")
        await asyncio.to_thread(put_manifest, self._storage, tenant_id, claim.day, parts)

    @asynccontextmanager
    async def _held(self, claim: DayClaim) -> AsyncIterator[None]:
        """Renew the claim while the block runs; a block that has lost it is cancelled."""
        lost = False
        block = asyncio.current_task()
        assert block is not None

        async def renew() -> None:
            nonlocal lost
            held = True
            while held:
                await asyncio.sleep(LEASE.total_seconds() / 4)
                with suppress(StoreUnavailable):  # the next try may still be in time
                    held = await self._archives.renew_day(claim, LEASE)
            lost = True
            block.cancel()

        renewing = asyncio.create_task(renew())
        try:
            yield
        except asyncio.CancelledError:
            if lost:
                block.uncancel()
                raise LeaseLost(f"another node archives {date_of(claim.day)}") from None
            raise
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing


def put_manifest(storage: Storage, tenant_id: int, day: int, parts: Sequence[ArchivePart]) -> None:
    """Say which files a tenant's day has, and delete others; without files, delete the manifest too."""
    folder = day_folder(tenant_id, day)
    wanted = {file_path(part) for part in parts} | {f"{folder}/{MANIFEST}"}
    if parts:
        body = {
            "version": 1,
            "tenant": tenant_id,
            "day": date_of(day).isoformat(),
            "rows": sum(part.rows for part in parts),
            "files": [
                {
                    "name": part.name,
                    "rows": part.rows,
                    "bytes": part.bytes,
                    "sha256": part.checksum,
                    "first_run": str(part.first_run),
                    "last_run": str(part.last_run),
                    "expires": date_of(part.expires).isoformat(),
                    "encryption_keys": list(part.keys),
                }
                for part in parts
            ],
        }
        storage.put(manifest_path(tenant_id, day), msgspec.json.format(msgspec.json.encode(body), indent=2))
    else:
        wanted = set()
    for name in storage.names(folder):
        if name not in wanted:
            storage.delete(name)


@asynccontextmanager
async def _nothing() -> AsyncIterator[None]:
    yield


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
