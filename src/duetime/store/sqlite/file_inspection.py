"""Reading facts from a database file without creating, migrating or locking anything, even if a process has it open."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from duetime.errors import StoreError
from duetime.store.shared.schema_version import check_versions
from duetime.store.sqlite.connection import meaning
from duetime.store.sqlite.ownership import owner_of
from duetime.store.sqlite.schema import VERSION


class FileFindings(NamedTuple):
    schema_version: int | None
    """None when there is no schema or no file yet."""
    workers: int
    owner: str | None
    """The process that has the file open."""


def inspect_file(path: Path) -> FileFindings:
    """Inspect a file. Raises `SchemaMismatch` for a schema that is too new for this code."""
    if not path.exists():
        _check_folder(path)
        return FileFindings(None, 0, None)
    try:
        with closing(_connect(path)) as connection:
            version, oldest_code, workers = _read(connection)
    except sqlite3.Error as error:
        raise meaning(error, str(path)) from error
    if version is not None:
        # The next process that opens the file migrates an older schema.
        check_versions(found=max(version, VERSION), oldest_code=oldest_code, code=VERSION, where=str(path))
    owner = owner_of(path)
    return FileFindings(version, workers, None if owner is None else owner.process)


def _connect(path: Path) -> sqlite3.Connection:
    # A file that no process has open has no WAL. Reading would create one, except with `immutable`.
    how = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=5)


def _read(connection: sqlite3.Connection) -> tuple[int | None, int, int]:
    if not connection.execute("select 1 from sqlite_master where name = 'schema_versions'").fetchone():
        return None, 0, 0
    newest = "select version, oldest_code from schema_versions order by version desc limit 1"
    version, oldest_code = connection.execute(newest).fetchone() or (None, 0)
    workers: int = connection.execute("select count(*) from workers").fetchone()[0] if version else 0
    return version, oldest_code, workers


def _check_folder(path: Path) -> None:
    """Check that the file can be created."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(f"the file {path} cannot be created: {folder} is not a writable folder")
