"""The store on SQLite: everything in one file that belongs to one process."""

from duetime.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
