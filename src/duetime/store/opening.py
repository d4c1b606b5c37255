"""Which store a database's address means."""

from duetime.clock import Clock, SystemClock
from duetime.settings import Settings
from duetime.store.postgres import PostgresStore
from duetime.store.protocol import Store
from duetime.store.sqlite import SqliteStore


def store_for(settings: Settings) -> Store:
    """A store that is not open yet."""
    file = settings.sqlite_file
    if file is not None:
        return SqliteStore(file)
    assert settings.database_url is not None
    prepared = settings.prepared_statements == "on"
    return PostgresStore(settings.database_url, pool_size=settings.pool_size, prepared=prepared)


def store_in_memory(clock: Clock | None = None) -> Store:
    """A store that is gone when it is closed, for tests."""
    return SqliteStore(":memory:", clock=clock or SystemClock())


async def open_ready(store: Store, *, migrate: bool = False) -> None:
    """Open a store and make sure of its schema. An embedded file is brought up to date by whoever opens it; a shared
    database only when that is asked for."""
    await store.open()
    try:
        if migrate or store.embedded:
            await store.migrate()
        await store.check_schema()
    except BaseException:
        await store.close()
        raise
