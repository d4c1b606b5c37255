"""Erasures on PostgreSQL."""

from duetime.store.shared.erasures import SharedErasures


class ErasureRole(SharedErasures):
    async def compact(self) -> bool:
        """Autovacuum reuses the space of removed rows; the server's files are not rewritten."""
        return True
