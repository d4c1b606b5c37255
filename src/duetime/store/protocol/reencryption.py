"""Walking over everything that is encrypted, to encrypt it with another key."""

from collections.abc import Sequence
from typing import Protocol

from duetime.store.rules.encrypted_columns import Key, Resealed, SealedRows, SealedTable


class Reencryption(Protocol):
    async def sealed_rows(self, table: SealedTable, after: Key, head: bytes, text_head: str, window: int) -> SealedRows:
        """Of the next `window` rows above a key, those with values that are encrypted with another key than the one
        whose seals begin with `head`; up to the table's batch size."""

    async def reseal_rows(self, table: SealedTable, rows: Sequence[Resealed]) -> None:
        """Replace values by their re-encrypted form, unless they have changed."""

    async def reencryption(self) -> str | None:
        """The stored progress of a re-encryption."""

    async def keep_reencryption(self, state: str) -> None:
        """Store the progress of a re-encryption."""
