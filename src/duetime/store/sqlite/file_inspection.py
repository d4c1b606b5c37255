"""Looking at a file without touching it: nothing is made, migrated or locked, whoever else has it open."""

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
    """None when there is no schema, or no file, yet."""
    workers: int
    owner: str | None
    """The process that has the file open."""


def inspect_file(path: Path) -> FileFindings:
    """What is found; raises `SchemaMismatch` for a schema that is newer than this code can bear."""
    if not path.exists():
        _check_folder(path)
        return FileFindings(None, 0, None)
    try:
        with closing(_connect(path)) as connection:
            version, oldest_code, workers = _read(connection)
    except sqlite3.Error as error:
        raise meaning(error, str(path)) from error
    if version is not None:
        # An older one is brought up to date by whoever opens the file next.
        check_versions(found=max(version, VERSION), oldest_code=oldest_code, code=VERSION, where=str(path))
    owner = owner_of(path)
    return FileFindings(version, workers, None if owner is None else owner.process)


def _connect(path: Path) -> sqlite3.Connection:
    # A file that nobody has open has no log beside it; even reading would make one, unless told that nothing changes.
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
    """Whether the file could be made when it is needed."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise StoreError(f"the file {path} cannot be made: {folder} is not a folder that can be written to")
