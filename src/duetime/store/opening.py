"""Which store a database's address means. Only that one is loaded."""

from typing import Any

from duetime.clock import Clock, SystemClock
from duetime.sealing import Sealer
from duetime.settings import Settings
from duetime.store.protocol import Store


def store_for(settings: Settings) -> Store:
    """A store that is not open yet."""
    file = settings.sqlite_file
    # Without keys too: then what others have sealed is known for what it is.
    sealer = Sealer(settings.sealing_keys)
    if file is not None:
        from duetime.store.sealed_sqlite import SealedSqliteStore

        return SealedSqliteStore(sealer, file)
    assert settings.database_url is not None
    how: dict[str, Any] = {"pool_size": settings.pool_size, "prepared": settings.prepared_statements == "on"}
    from duetime.store.sealed_postgres import SealedPostgresStore

    return SealedPostgresStore(sealer, settings.database_url, **how)


def store_in_memory(clock: Clock | None = None) -> Store:
    """A store that is gone when it is closed, for tests."""
    from duetime.store.sqlite import SqliteStore

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
