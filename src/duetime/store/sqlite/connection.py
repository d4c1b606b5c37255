"""One connection, its named statements, and the translation of SQLite's errors."""

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from duetime.errors import DuetimeError, SchemaMismatch, StoreError, StoreRejected, StoreUnavailable
from duetime.store.caller_connections import SqliteSession
from duetime.store.rules.quotas import QUOTAS, REFUSED, limits_of, over_quota
from duetime.store.shared.statements import shared_statements, statements
from duetime.store.shared.transaction import NotUnique
from duetime.store.sqlite.dialect import translated
from duetime.store.sqlite.values import Reader

OLDEST_SQLITE = (3, 38, 0)
_PRAGMAS = (
    "pragma busy_timeout = 5000",
    "pragma journal_mode = wal",
    "pragma synchronous = full",
    "pragma cache_size = -65536",
    "pragma temp_store = memory",
    "pragma wal_autocheckpoint = 4000",
)
_TRY_AGAIN = frozenset(
    {
        "SQLITE_BUSY",
        "SQLITE_LOCKED",
        "SQLITE_FULL",
        "SQLITE_IOERR",
        "SQLITE_CANTOPEN",
        "SQLITE_READONLY",
        "SQLITE_NOMEM",
        "SQLITE_PROTOCOL",
        "SQLITE_INTERRUPT",
    }
)
_NOT_UNIQUE = frozenset({"SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY"})
_REFUSED = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    OverflowError,
    UnicodeEncodeError,
)


def split(script: str) -> tuple[str, ...]:
    """The statements of a script; `sqlite3` executes one at a time."""
    parts, rest = [], ""
    for line in script.splitlines(keepends=True):
        rest += line
        if sqlite3.complete_statement(rest):
            parts.append(rest.strip())
            rest = ""
    if rest.strip():
        parts.append(rest.strip())
    return tuple(parts)


# A statement of PostgreSQL may write to several tables. Here it is several statements under one name.
SQL = {
    **{name: split(translated(body)) for name, body in shared_statements().items()},
    **{name: split(body) for name, body in statements("duetime.store.sqlite").items()},
}

Parameters = Mapping[str, Any]


class Connection:
    """Runs named statements. Only the store's own thread uses it."""

    ends_noted = False
    """Whether the end of a run with dependents was recorded since the last commit."""

    def __init__(self, path: Path | None) -> None:
        self._readers: dict[str, Reader] = {}
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreError(
                f"this Python comes with SQLite {sqlite3.sqlite_version}, which is too old",
                remedy="use a Python with SQLite 3.38 or newer, or PostgreSQL (DUETIME_DATABASE_URL)",
            )
        self.raw = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, cached_statements=256)
        try:
            for pragma in _PRAGMAS:
                self.raw.execute(pragma)
        except BaseException:
            self.raw.close()
            raise

    @classmethod
    def of_caller(cls, session: SqliteSession) -> "Connection":
        """The same statements, on a caller's connection."""
        made = cls.__new__(cls)
        made._readers = {}
        made.raw = cast(sqlite3.Connection, session)  # it has the methods that are used here
        return made

    def run(self, statement: str, parameters: Parameters) -> sqlite3.Cursor:
        try:
            return self.raw.execute(statement, parameters)
        except sqlite3.IntegrityError as error:
            kind = str(error).removeprefix(REFUSED)
            if kind not in QUOTAS:
                raise
            (tenant,) = self.records("find_tenant_by_id", {"tenant_id": parameters["tenant_id"]})
            raise over_quota(kind, getattr(limits_of(tenant), kind)) from None

    def rows(self, name: str, parameters: Parameters) -> list[tuple[Any, ...]]:
        """Run a statement. If it has several parts, returns the rows of all."""
        found: list[tuple[Any, ...]] = []
        for statement in SQL[name]:
            found += self.run(statement, parameters).fetchall()
        return found

    def row(self, name: str, parameters: Parameters) -> tuple[Any, ...] | None:
        found = self.rows(name, parameters)
        return found[0] if found else None

    def value(self, name: str, parameters: Parameters) -> Any:
        found = self.rows(name, parameters)
        return found[0][0] if found else None

    def records(self, name: str, parameters: Parameters) -> list[dict[str, Any]]:
        """Rows with named columns, and values with the types that `columns.py` declares."""
        found: list[dict[str, Any]] = []
        for statement in SQL[name]:
            cursor = self.run(statement, parameters)
            if cursor.description is not None:
                reader = self._readers.get(statement)
                if reader is None:
                    reader = self._readers[statement] = Reader([column[0] for column in cursor.description], name)
                found += reader.read(cursor.fetchall())
        return found

    def execute(self, name: str, parameters: Parameters) -> int:
        """Run a statement; returns how many rows its last part changed."""
        count = 0
        for statement in SQL[name]:
            count = self.run(statement, parameters).rowcount
        return count

    def many(self, name: str, rows: Sequence[Parameters] | Sequence[tuple[Any, ...]]) -> None:
        """Run a statement for each row: its first part for all rows, then the next part."""
        for statement in SQL[name]:
            self.raw.executemany(statement, rows)


def meaning(error: Exception, shown: str) -> Exception:
    """Translate an exception; duetime's own exceptions stay as they are."""
    if isinstance(error, DuetimeError):
        return error
    if isinstance(error, sqlite3.IntegrityError) and error.sqlite_errorname in _NOT_UNIQUE:
        return NotUnique.because(error)
    if isinstance(error, _REFUSED):
        return StoreRejected.because(error)
    if not isinstance(error, sqlite3.Error):
        return error
    name = _primary(error)
    if name in _TRY_AGAIN:
        return StoreUnavailable(f"the database {shown} cannot be used now: {error}")
    if name == "SQLITE_NOTADB":
        return StoreError(f"the file {shown} is not a duetime database: {error}", remedy="name another file")
    if name == "SQLITE_CORRUPT":
        return StoreError(f"the database {shown} is damaged: {error}", remedy="restore it from a backup")
    if str(error).startswith("no such"):
        return SchemaMismatch(
            f"the database {shown} has no duetime schema, or an older one: {error}", remedy="run: duetime migrate"
        )
    return StoreError(f"the database refused: {error}")


def _primary(error: sqlite3.Error) -> str:
    """The primary result code: SQLITE_IOERR of SQLITE_IOERR_WRITE."""
    name: str = getattr(error, "sqlite_errorname", None) or ""
    return "_".join(name.split("_")[:2])
