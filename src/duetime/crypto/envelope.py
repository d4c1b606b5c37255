"""Envelope keys: data keys encrypt stored data, and a key provider wraps the data keys.

A data key is 32 random bytes. It is stored wrapped, beside the data, under a name that every seal carries. A process
asks the provider once per data key, and keeps the key in memory: the provider sees neither the data nor its amount, and
an unavailable provider stops only processes that have just started.

The newest data key seals. Every process checks for a newer one every few seconds.
"""

import os
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from duetime.clock import monotonic
from duetime.errors import KeyUnknown

_KEY = 32
_CHECK_EVERY = 5.0


class WrappedKey(NamedTuple):
    """A data key as it is stored."""

    name: str
    wrapped_by: str
    """The provider's name for the key that wraps it."""
    wrapped: bytes
    created_at: datetime


class KeyStorage(Protocol):
    """Stores wrapped data keys."""

    async def data_keys(self) -> Sequence[WrappedKey]:
        """All of them, newest first."""

    async def add_data_key(self, name: str, wrapped_by: str, wrapped: bytes) -> None:
        """Store a new one."""

    async def rewrap_data_key(self, name: str, old: bytes, wrapped_by: str, wrapped: bytes) -> None:
        """Replace one with the same key under another wrapping."""


class KeyProvider(Protocol):
    """Holds the keys that wrap data keys. It is called from any event loop."""

    @property
    def key_id(self) -> str:
        """The current wrapping key."""

    async def wrap(self, data_key: bytes) -> tuple[str, bytes]:
        """The id of the wrapping key, and the wrapped data key. Raises `StoreUnavailable`, `KeyUnknown`."""

    async def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        """The data key. Raises `StoreUnavailable`, and `KeyUnknown` if it cannot be unwrapped."""


class Envelope:
    """The data keys of one database."""

    def __init__(self, provider: KeyProvider) -> None:
        self._provider = provider
        self._storage: KeyStorage | None = None
        self._keys: dict[str, bytes] = {}
        self._current: WrappedKey | None = None
        self._read_at = 0.0

    def keep_on(self, shelf: KeyStorage) -> None:
        self._storage = shelf

    async def current(self) -> tuple[bytes, bytes]:
        """The name and the bytes of the newest data key; the first one is created on demand."""
        if self._current is None or monotonic() - self._read_at > _CHECK_EVERY:
            stored = await self._stored()
            self._current = stored[0] if stored else await self._make()
            self._read_at = monotonic()
        return self._current.name.encode(), await self._unwrapped(self._current)

    async def find(self, name: bytes) -> bytes | None:
        wanted = name.decode("ascii", "replace")
        if wanted in self._keys:
            return self._keys[wanted]
        found = next((key for key in await self._stored() if key.name == wanted), None)
        return None if found is None else await self._unwrapped(found)

    async def renew(self) -> None:
        """Seal with a new data key from now on, wrapped by the current wrapping key."""
        self._current = await self._make()
        self._read_at = monotonic()

    async def rewrap(self) -> int:
        """Wrap every data key with the provider's current key, so that older wrapping keys can be removed; returns how
        many were changed."""
        assert self._storage is not None
        others = [key for key in await self._stored() if key.wrapped_by != self._provider.key_id]
        for key in others:
            wrapped_by, wrapped = await self._provider.wrap(await self._unwrapped(key))
            await self._storage.rewrap_data_key(key.name, key.wrapped, wrapped_by, wrapped)
        return len(others)

    async def _stored(self) -> Sequence[WrappedKey]:
        assert self._storage is not None, "no storage for data keys was set"
        return await self._storage.data_keys()

    async def _make(self) -> WrappedKey:
        assert self._storage is not None
        name, key = f"dk-{os.urandom(8).hex()}", os.urandom(_KEY)
        wrapped_by, wrapped = await self._provider.wrap(key)
        await self._storage.add_data_key(name, wrapped_by, wrapped)
        self._keys[name] = key
        return next(stored for stored in await self._stored() if stored.name == name)

    async def _unwrapped(self, key: WrappedKey) -> bytes:
        if key.name not in self._keys:
            found = await self._provider.unwrap(key.wrapped_by, key.wrapped)
            if len(found) != _KEY:
                raise KeyUnknown(
                    f"the key provider unwrapped the data key {key.name!r} to {len(found)} bytes, not {_KEY}"
                )
            self._keys[key.name] = found
        return self._keys[key.name]
