"""Envelope keys: data keys encrypt what is stored, and a key provider wraps the data keys.

A data key is 32 random bytes. It is stored wrapped, beside what it encrypts, under a name that every seal carries. A
process asks the provider once for each data key that it meets, and keeps the key in memory: the provider sees neither
what is stored nor how much of it there is, and one that is away stops only processes that have just started.

The newest data key seals. Every process looks for a newer one every few seconds.
"""

import os
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from duetime.clock import monotonic
from duetime.errors import KeyUnknown

_KEY = 32
_LOOK_EVERY = 5.0


class WrappedKey(NamedTuple):
    """A data key as it is stored."""

    name: str
    wrapped_by: str
    """The provider's name for the key that wraps it."""
    wrapped: bytes
    created_at: datetime


class KeyShelf(Protocol):
    """Where wrapped data keys are kept."""

    async def data_keys(self) -> Sequence[WrappedKey]:
        """All of them, newest first."""

    async def add_data_key(self, name: str, wrapped_by: str, wrapped: bytes) -> None:
        """Keep a new one."""

    async def rewrap_data_key(self, name: str, old: bytes, wrapped_by: str, wrapped: bytes) -> None:
        """Keep one as another key wraps it."""


class KeyProvider(Protocol):
    """Keeps the keys that wrap data keys. It is asked from any event loop."""

    @property
    def key_id(self) -> str:
        """The key that wraps now."""

    async def wrap(self, data_key: bytes) -> tuple[str, bytes]:
        """The id of the key that wrapped it, and the wrapped key. Raises `StoreUnavailable`, `KeyUnknown`."""

    async def unwrap(self, key_id: str, wrapped: bytes) -> bytes:
        """The data key again. Raises `StoreUnavailable`, and `KeyUnknown` for what cannot be unwrapped."""


class Envelope:
    """The data keys of one database."""

    def __init__(self, provider: KeyProvider) -> None:
        self._provider = provider
        self._shelf: KeyShelf | None = None
        self._keys: dict[str, bytes] = {}
        self._current: WrappedKey | None = None
        self._looked_at = 0.0

    def keep_on(self, shelf: KeyShelf) -> None:
        self._shelf = shelf

    async def current(self) -> tuple[bytes, bytes]:
        """The name and the bytes of the newest data key; the first one is made when it is asked for."""
        if self._current is None or monotonic() - self._looked_at > _LOOK_EVERY:
            stored = await self._stored()
            self._current = stored[0] if stored else await self._make()
            self._looked_at = monotonic()
        return self._current.name.encode(), await self._unwrapped(self._current)

    async def find(self, name: bytes) -> bytes | None:
        wanted = name.decode("ascii", "replace")
        if wanted in self._keys:
            return self._keys[wanted]
        found = next((key for key in await self._stored() if key.name == wanted), None)
        return None if found is None else await self._unwrapped(found)

    async def renew(self) -> None:
        """Seal with a new data key from now on, wrapped by the key that wraps now."""
        self._current = await self._make()
        self._looked_at = monotonic()

    async def rewrap(self) -> int:
        """Have every data key wrapped by the key that the provider wraps with now, so that those before can go; returns
        how many were not."""
        assert self._shelf is not None
        others = [key for key in await self._stored() if key.wrapped_by != self._provider.key_id]
        for key in others:
            wrapped_by, wrapped = await self._provider.wrap(await self._unwrapped(key))
            await self._shelf.rewrap_data_key(key.name, key.wrapped, wrapped_by, wrapped)
        return len(others)

    async def _stored(self) -> Sequence[WrappedKey]:
        assert self._shelf is not None, "it was not said where data keys are kept"
        return await self._shelf.data_keys()

    async def _make(self) -> WrappedKey:
        assert self._shelf is not None
        name, key = f"dk-{os.urandom(8).hex()}", os.urandom(_KEY)
        wrapped_by, wrapped = await self._provider.wrap(key)
        await self._shelf.add_data_key(name, wrapped_by, wrapped)
        self._keys[name] = key
        return next(stored for stored in await self._stored() if stored.name == name)

    async def _unwrapped(self, key: WrappedKey) -> bytes:
        if key.name not in self._keys:
            found = await self._provider.unwrap(key.wrapped_by, key.wrapped)
            if len(found) != _KEY:
                raise KeyUnknown(f"the key provider made {len(found)} bytes of the data key {key.name!r}, not {_KEY}")
            self._keys[key.name] = found
        return self._keys[key.name]
