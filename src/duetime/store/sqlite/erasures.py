"""Erasures on SQLite. Free pages, and free space within pages, keep what was there, so the file is rewritten at the
end."""

from duetime.store.protocol.store import Claims
from duetime.store.shared.erasures import SharedErasures
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Context


class ErasureRole(SharedErasures):
    def __init__(self, context: Context, claims: Claims) -> None:
        super().__init__(context, claims)
        self._database = context.database

    async def compact(self) -> bool:
        return await self._database.run_outside(_rewrite)


def _rewrite(connection: Connection) -> bool:
    # The index of a search keeps removed terms until its parts are merged.
    connection.raw.execute("insert into term_grams (term_grams) values ('optimize')")
    connection.raw.execute("vacuum")
    # The log has the pages as they were, too. It is emptied unless another connection reads it.
    (busy, *_), *_ = connection.raw.execute("pragma wal_checkpoint(truncate)").fetchall()
    return not busy
