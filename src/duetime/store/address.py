"""Which store a database's address means. Only that one is loaded."""

from pathlib import Path

from duetime.clock import Clock, SystemClock
from duetime.crypto.envelope import Envelope
from duetime.crypto.key_providers import provider_of
from duetime.crypto.sealer import Sealer
from duetime.settings import Settings
from duetime.store.protocol.store import Store
from duetime.store.wrappers.sealed import sealed


def store_for(settings: Settings, *, serves: bool = False, patience: float = 0.0) -> Store:
    """A store that is not open yet. An embedded file is kept by one that `serves`; `patience` is how many seconds to
    wait for a file that another process has for a moment."""
    # Without keys too: then what others have sealed is known for what it is.
    provider = provider_of(settings)
    envelope = None if provider is None else Envelope(provider)
    sealer = Sealer(settings.sealing_keys, envelope)
    store = _store_for(settings, serves=serves, patience=patience)
    if envelope is not None:
        envelope.keep_on(store.secrets)
    return sealed(store, sealer)


def _store_for(settings: Settings, *, serves: bool, patience: float) -> Store:
    file = settings.sqlite_file
    if file is not None:
        from duetime.store.sqlite import SqliteStore

        return SqliteStore(file, serves=serves, patience=patience, lanes_per_tenant=settings.lanes_per_tenant)
    assert settings.database_url is not None
    from duetime.store.postgres import PostgresStore

    return PostgresStore(
        settings.database_url,
        pool_size=settings.pool_size,
        prepared=settings.prepared_statements == "on",
        direct=settings.direct_database_url,
        lanes_per_tenant=settings.lanes_per_tenant,
    )


def sealer_of(store: Store, settings: Settings) -> Sealer:
    """What a process seals and opens with: that of its store, so that all of it has the same keys."""
    return store.sealer or Sealer(settings.sealing_keys)


def is_wanted(file: Path) -> bool:
    """Whether another process waits for an embedded file."""
    from duetime.store.sqlite.ownership import is_wanted

    return is_wanted(file)


def is_kept_by_server(file: Path) -> bool:
    """Whether an embedded file belongs to another process that serves it."""
    from duetime.store.sqlite.ownership import owner_of

    owner = owner_of(file)
    return owner is not None and owner.serves


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
