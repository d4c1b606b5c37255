"""What a database did for a piece of work: the plans it logged, and what its counters say was read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from duetime.ids import new_id
from duetime.store.postgres import PostgresStore
from tests.support.postgres import Server
from tests.support.waiting import eventually


@contextmanager
def explained_database(server: Server) -> Iterator[str]:
    """A new database. The plan of every statement on it is written to the server's log."""
    name = f"plans_{new_id().hex}"
    dsn = server.create_database(name)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for setting in ("log_min_duration = 0", "log_nested_statements = on"):
                connection.execute(f"load 'auto_explain'; alter database {name} set auto_explain.{setting}")
            connection.execute(f"alter database {name} set session_preload_libraries = auto_explain")
        yield dsn
    finally:
        server.drop_database(name)


class PlanLog:
    """The plans that the server wrote to its log since this was made, those of statements inside functions too."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._start = log.stat().st_size

    def plans(self) -> list[str]:
        with self._log.open("rb") as file:
            file.seek(self._start)
            text = file.read().decode()
        entries = (entry for entry in text.split("LOG:  duration:") if " plan:" in entry)
        # The driver's look at the types, and this test's at the counters, are not duetime's.
        return [entry for entry in entries if "typeinfo" not in entry and "pg_stat" not in entry]


class Reads:
    """What the database says that a piece of work has read and written."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    async def now(self) -> dict[str, int]:
        async with self._store.database.connection() as connection:
            await connection.execute("select pg_stat_force_next_flush()")
            await connection.execute("select 1")
            tables = await connection.fetch(
                "select relname, seq_scan, n_tup_upd, n_tup_hot_upd from pg_stat_user_tables"
                " where schemaname = 'duetime'"
            )
            indexes = await connection.fetch(
                "select indexrelname, idx_tup_read from pg_stat_user_indexes where schemaname = 'duetime'"
            )
        found: dict[str, int] = {}
        for name, seq_scan, updated, heap_only in tables:
            found |= {f"{name} scanned": seq_scan, f"{name} updated": updated, f"{name} heap-only": heap_only}
        return found | {f"{name} read": read or 0 for name, read in indexes}

    async def since(self, before: dict[str, int], marker: str) -> dict[str, int]:
        """What has been added to the counters, once the one that must have moved has moved."""

        async def difference() -> dict[str, int] | None:
            now = await self.now()
            delta = {key: value - before.get(key, 0) for key, value in now.items()}
            return delta if delta[marker] else None

        found = await eventually(difference)
        assert found is not None
        return found
