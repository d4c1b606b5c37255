"""Re-encryption: encrypts everything under older keys with the current key, while normal work goes on.

It proceeds table by table, a few rows per transaction, and records its position in the database. A killed process loses
nothing, and any other process continues from there. Rows move between tables and are written by others meanwhile, so a
round that found something is followed by another, until one finds nothing. Only then is it certain which keys are no
longer in use.
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import msgspec

from duetime.clock import monotonic
from duetime.crypto.sealer import Sealer, head_of, key_name_of, prefix_of, text_head_of
from duetime.errors import SealBroken
from duetime.store.protocol.store import Store
from duetime.store.rules.encrypted_columns import SEALED_TABLES, Key, Resealed, SealedRow, SealedTable

_WINDOW = 1000
_MOST_ROUNDS = 20
_LONGEST = 0.5
"""Seconds that one step may take."""
_PAUSE = 0.002
"""Seconds between two transactions, so that other writers get their turn."""


class Progress(msgspec.Struct, frozen=True):
    """The progress of a re-encryption."""

    key: str
    """The key that everything is encrypted with afterwards."""
    round: int = 1
    table: int = 0
    """The index of the current table."""
    after: tuple[str | int, ...] | None = None
    """The key of the last row that was read; None at the beginning of a table."""
    looked_at: int = 0
    resealed: int = 0
    found: dict[str, int] = {}
    """Rows that this round re-encrypted, by their previous key."""
    left: dict[str, int] = {}
    """Rows that this round could not decrypt, by their key."""
    done: bool = False

    @property
    def table_name(self) -> str:
        return SEALED_TABLES[min(self.table, len(SEALED_TABLES) - 1)].name

    @property
    def in_use(self) -> frozenset[str]:
        """Once done: the keys, other than the current one, that are still in use."""
        return frozenset(self.left) | frozenset(self.found)


class Reencryption:
    def __init__(self, store: Store, sealer: Sealer) -> None:
        self._store = store
        self._sealer = sealer
        self._window = _WINDOW

    async def progress(self) -> Progress | None:
        """The progress of the last re-encryption."""
        kept = await self._store.reencryption.reencryption()
        return None if kept is None else msgspec.json.decode(kept, type=Progress)

    async def step(self, *, restart: bool = False, fresh_data_key: bool = False) -> Progress:
        """Continue for a moment from where the last step ended. Starts over when the last round was done, or when the
        current key has changed. Raises `NoEncryptionKey`."""
        data_keys = self._sealer.data_keys
        if data_keys is not None and fresh_data_key:
            await data_keys.renew()
        key = (await self._sealer.ready()).decode()
        now = await self.progress()
        if restart or now is None or now.done or now.key != key:
            now = Progress(key)
            if data_keys is not None:
                await data_keys.rewrap()
        until = monotonic() + _LONGEST
        while not now.done and monotonic() < until:
            now = await self._next(now)
            await self._store.reencryption.keep_reencryption(msgspec.json.encode(now).decode())
            await asyncio.sleep(_PAUSE)
        return now

    async def _next(self, now: Progress) -> Progress:
        if now.table >= len(SEALED_TABLES):
            return _end_of_round(now)
        table, name = SEALED_TABLES[now.table], now.key.encode()
        after = table.first if now.after is None else _key(table, now.after)
        page = await self._store.reencryption.sealed_rows(table, after, head_of(name), text_head_of(name), self._window)
        # When every row must be rewritten, read no more rows than one transaction writes.
        self._window = table.most if len(page.rows) >= table.most else _WINDOW
        found, left = dict(now.found), dict(now.left)
        if page.rows:
            await self._sealer.learn(value for row in page.rows for value in row.values)
            # In a thread: a payload may have 10 MiB.
            fresh = await asyncio.to_thread(self._resealed, table, page.rows, name, found, left)
            if fresh:
                await self._store.reencryption.reseal_rows(table, fresh)
        count = sum(found.values()) - sum(now.found.values())
        ended = page.after is None
        return msgspec.structs.replace(
            now,
            table=now.table + ended,
            after=None if page.after is None else tuple(_plain(part) for part in page.after),
            looked_at=now.looked_at + page.seen,
            resealed=now.resealed + count,
            found=found,
            left=left,
        )

    def _resealed(
        self, table: SealedTable, rows: Sequence[SealedRow], current: bytes, found: dict[str, int], left: dict[str, int]
    ) -> list[Resealed]:
        fresh = []
        for row in rows:
            values: list[tuple[bytes | str, bytes | str] | None] = []
            for column, value in zip(table.columns, row.values, strict=True):
                name = b"" if value is None else key_name_of(value)
                if value is None or name in (b"", current):
                    values.append(None)
                    continue
                try:
                    new = self._anew(value, table.owner(column, row.key, row.tenant_id))
                except SealBroken:
                    left[name.decode()] = left.get(name.decode(), 0) + 1
                    values.append(None)
                else:
                    found[name.decode()] = found.get(name.decode(), 0) + 1
                    values.append((prefix_of(value), new))
            if any(value is not None for value in values):
                fresh.append(Resealed(row.key, tuple(values)))
        return fresh

    def _anew(self, value: bytes | str, owner: str) -> bytes | str:
        if isinstance(value, str):
            return self._sealer.seal_text(self._sealer.open_text(value, belongs_to=owner), belongs_to=owner)
        return self._sealer.seal(self._sealer.open(value, belongs_to=owner), belongs_to=owner)


def _end_of_round(now: Progress) -> Progress:
    if not now.found or now.round >= _MOST_ROUNDS:
        return msgspec.structs.replace(now, done=True)
    return msgspec.structs.replace(now, round=now.round + 1, table=0, after=None, found={}, left={})


def _plain(part: object) -> str | int:
    return part if isinstance(part, int) else part.hex if isinstance(part, UUID) else str(part)


def _key(table: SealedTable, after: Sequence[str | int]) -> Key:
    pairs = zip(table.first, after, strict=True)
    return tuple(UUID(hex=str(part)) if isinstance(first, UUID) else part for first, part in pairs)
