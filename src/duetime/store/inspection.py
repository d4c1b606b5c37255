"""Reading facts from a database without changing anything."""

import asyncio

import msgspec

from duetime.clock import SystemClock
from duetime.settings import Settings
from duetime.store.address import store_for


class Findings(msgspec.Struct, frozen=True):
    schema_version: int | None
    """None when an embedded file does not exist yet: the first process that starts creates it."""
    clock_offset: float
    """How many seconds the database's clock is ahead of this process's clock."""
    workers: int
    owner: str | None = None
    """The process that owns an embedded file now."""


async def inspect(settings: Settings) -> Findings:
    """Inspect the database. Raises `StoreError` when it cannot be used, including `SchemaMismatch`."""
    if settings.sqlite_file is not None:
        from duetime.store.sqlite.file_inspection import inspect_file

        found = await asyncio.to_thread(inspect_file, settings.sqlite_file)
        return Findings(found.schema_version, 0.0, found.workers, found.owner)
    store = store_for(settings)
    await store.open()
    try:
        version = await store.check_schema()
        apart = (await store.now() - SystemClock().now()).total_seconds()
        return Findings(version, apart, len(await store.leases.workers()))
    finally:
        await store.close()
