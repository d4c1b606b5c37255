"""Everything that a database holds, as the holder of a copy sees it."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import psycopg


def dumped(database_url: str) -> Iterator[tuple[str, str, bytes]]:
    """Every value of every row of every table, with its table and column."""
    _, is_sqlite, path = database_url.partition("sqlite:///")
    yield from _sqlite(path) if is_sqlite else _postgres(database_url)


def places_of(marker: str, database_url: str) -> set[str]:
    """The columns that hold a text as it is."""
    wanted = marker.encode()
    return {f"{table}.{column}" for table, column, value in dumped(database_url) if wanted in value}


def _sqlite(path: str) -> Iterator[tuple[str, str, bytes]]:
    connection = sqlite3.connect(path)
    try:
        for (table,) in connection.execute("select name from sqlite_master where type = 'table'").fetchall():
            found = connection.execute(f'select * from "{table}"')
            yield from _values(table, [column[0] for column in found.description], found.fetchall())
    finally:
        connection.close()


def _postgres(dsn: str) -> Iterator[tuple[str, str, bytes]]:
    columns = (
        "select relname, array_agg(attname order by attnum), array_agg(atttypid = 'bytea'::regtype order by attnum)"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on attrelid = c.oid"
        " where nspname = 'duetime' and relkind in ('r', 'p') and not relispartition and attnum > 0"
        " and not attisdropped group by relname"
    )
    with psycopg.connect(dsn) as connection:
        for table, names, binary in connection.execute(columns).fetchall():
            # As text: psycopg cannot read an endless time.
            shown = [
                f'"{name}"' if is_bytes else f'"{name}"::text' for name, is_bytes in zip(names, binary, strict=True)
            ]
            found = connection.execute(f"select {', '.join(shown)} from duetime.{table}".encode())
            yield from _values(table, names, found.fetchall())


def _values(table: str, columns: list[str], rows: list[tuple[Any, ...]]) -> Iterator[tuple[str, str, bytes]]:
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            if value is not None:
                yield table, column, value if isinstance(value, bytes) else str(value).encode()
