"""Choosing the store by the database's address. Only that store is imported."""

from pathlib import Path

from duetime.clock import Clock, SystemClock
from duetime.crypto.envelope import Envelope
from duetime.crypto.key_providers import provider_of
from duetime.crypto.sealer import Sealer
from duetime.settings import Settings
from duetime.store.protocol.store import Store
from duetime.store.wrappers.sealed import sealed


def store_for(settings: Settings, *, serves: bool = False, lock_timeout: float = 0.0) -> Store:
    """A store that is not open yet. A store that `serves` keeps its embedded file; `lock_timeout` is how many seconds
    to wait for a file that another process uses for a moment."""
    # Also without keys: then encrypted values are recognized as such.
    provider = provider_of(settings)
    envelope = None if provider is None else Envelope(provider)
    sealer = Sealer(settings.sealing_keys, envelope)
    store = _store_for(settings, serves=serves, lock_timeout=lock_timeout)
    if envelope is not None:
        envelope.keep_on(store.secrets)
    return sealed(store, sealer)


def _store_for(settings: Settings, *, serves: bool, lock_timeout: float) -> Store:
    file = settings.sqlite_file
    if file is not None:
        from duetime.store.sqlite import SqliteStore

        folder = settings.data_dir if serves else None
        return SqliteStore(file, serves=folder, lock_timeout=lock_timeout, lanes_per_tenant=settings.lanes_per_tenant)
    assert settings.database_url is not None
    from duetime.store.postgres import PostgresStore

    return PostgresStore(
        settings.database_url,
        pool_size=settings.pool_size,
        prepared=settings.prepared_statements == "on",
        direct=settings.direct_database_url,
        lanes_per_tenant=settings.lanes_per_tenant,
    )


def replica_for(settings: Settings, store: Store) -> Store | None:
    """The replica of the store's database that the settings name, not open yet."""
    if settings.replica_url is None:
        return None
    from duetime.store.postgres import PostgresStore

    replica = PostgresStore(
        settings.replica_url,
        pool_size=settings.pool_size,
        prepared=settings.prepared_statements == "on",
        lanes_per_tenant=settings.lanes_per_tenant,
        target="standby",
    )
    return sealed(replica, sealer_of(store, settings))


def sealer_of(store: Store, settings: Settings) -> Sealer:
    """The sealer of the store, so that the whole process uses the same keys."""
    return store.sealer or Sealer(settings.sealing_keys)


def is_wanted(file: Path) -> bool:
    """Whether another process waits for an embedded file."""
    from duetime.store.sqlite.ownership import is_wanted

    return is_wanted(file)


def is_kept_by_server(file: Path) -> bool:
    """Whether another process serves an embedded file."""
    from duetime.store.sqlite.ownership import owner_of

    owner = owner_of(file)
    return owner is not None and owner.serves


def store_in_memory(clock: Clock | None = None) -> Store:
    """A store in memory, for tests."""
    from duetime.store.sqlite import SqliteStore

    return SqliteStore(":memory:", clock=clock or SystemClock())


async def open_ready(store: Store, *, migrate: bool = False) -> None:
    """Open a store and check its schema. An embedded file is always migrated; a shared database only with `migrate`."""
    await store.open()
    try:
        if migrate or store.embedded:
            await store.migrate()
        await store.check_schema()
    except BaseException:
        await store.close()
        raise
