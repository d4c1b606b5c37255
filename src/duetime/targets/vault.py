"""The vault: a tenant's secrets, as targets need them.

The tenant writes the secrets that headers reference, and the API never returns their values, only their names. Signing
secrets are created here, and shown once, when they are rotated in. Both are stored encrypted, bound to their tenant and
name. Without an encryption key there are none, and no target is called.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from duetime.clock import monotonic
from duetime.crypto.sealer import Sealer
from duetime.errors import NotFound, SealBroken
from duetime.ids import new_id
from duetime.model.secret import SecretBinding, SigningSecret
from duetime.store.protocol.store import Store
from duetime.store.rules.seal_owners import secret_owner, signing_owner
from duetime.targets import signatures
from duetime.targets.secret_hosts import check_receives
from duetime.targets.url import Place

_REMEMBERED = 3.0
"""Seconds until every node uses a changed secret."""
_MOST_REMEMBERED = 10_000

K = TypeVar("K")
V = TypeVar("V")


class Memory(Generic[K, V]):
    def __init__(self) -> None:
        self._kept: dict[K, tuple[float, V]] = {}

    async def get(self, key: K, fetch: Callable[[], Awaitable[V]]) -> V:
        found = self._kept.get(key)
        if found is not None and monotonic() - found[0] < _REMEMBERED:
            return found[1]
        value = await fetch()
        if len(self._kept) >= _MOST_REMEMBERED:
            self._kept.clear()
        self._kept[key] = monotonic(), value
        return value

    def forget(self, key: K) -> None:
        self._kept.pop(key, None)


class Vault:
    def __init__(self, store: Store, sealer: Sealer) -> None:
        self._store = store
        self._sealer = sealer
        self._values: Memory[tuple[int, str], tuple[str, SecretBinding]] = Memory()
        self._signing: Memory[int, tuple[bytes, ...]] = Memory()

    async def put(self, tenant_id: int, name: str, value: str, binding: SecretBinding) -> datetime:
        """Store a secret, new or changed. Raises `NoEncryptionKey`."""
        await self._sealer.ready()
        sealed = self._sealer.seal(value.encode(), belongs_to=secret_owner(tenant_id, name))
        changed_at = await self._store.secrets.put_secret(tenant_id, name, sealed, binding)
        self._values.forget((tenant_id, name))
        return changed_at

    async def value(self, tenant_id: int, name: str, place: Place, *others: Place) -> str:
        """A secret, to be sent to these places. Raises `NotFound`, `SealBroken`, and `InvalidInput` where it may not be
        sent."""
        value, binding = await self._read(tenant_id, name)
        for each in (place, *others):
            check_receives(name, binding.hosts, each)
        return value

    async def shown_to_receivers(self, tenant_id: int, names: Iterable[str]) -> list[str]:
        """The values of the readable ones among these secrets, for redaction."""
        found = []
        for name in names:
            with contextlib.suppress(NotFound, SealBroken):
                found.append((await self._read(tenant_id, name))[0])
        return found

    async def _read(self, tenant_id: int, name: str) -> tuple[str, SecretBinding]:
        async def fetch() -> tuple[str, SecretBinding]:
            stored = await self._store.secrets.tenant_secret(tenant_id, name)
            await self._sealer.learn([stored.value])
            return self._sealer.open(stored.value, belongs_to=secret_owner(tenant_id, name)).decode(), stored.binding

        return await self._values.get((tenant_id, name), fetch)

    async def signing_secrets(self, tenant_id: int) -> tuple[bytes, ...]:
        """The secrets to sign with, newest first; one is created when there is none. Raises `SealBroken` for the newest
        one, and `NoEncryptionKey`."""

        async def fetch() -> tuple[bytes, ...]:
            found = await self._store.secrets.signing_secrets(tenant_id)
            if not found:
                await self._add(tenant_id, signatures.new_secret(), overlap=None)
                found = await self._store.secrets.signing_secrets(tenant_id)
            await self._sealer.learn(each.value for each in found)
            return self._opened(tenant_id, found[0]), *self._openable(tenant_id, found[1:])

        return await self._signing.get(tenant_id, fetch)

    async def rotate(self, tenant_id: int, overlap: timedelta) -> tuple[SigningSecret, str]:
        """A new signing secret, with its text; the old ones stay valid for `overlap`."""
        value = signatures.new_secret()
        added = await self._add(tenant_id, value, overlap=overlap)
        self._signing.forget(tenant_id)
        return added, signatures.shown(value)

    async def _add(self, tenant_id: int, value: bytes, overlap: timedelta | None) -> SigningSecret:
        secret_id = new_id()
        await self._sealer.ready()
        sealed = self._sealer.seal(value, belongs_to=signing_owner(tenant_id, secret_id))
        return await self._store.secrets.add_signing_secret(tenant_id, secret_id, sealed, overlap)

    def _openable(self, tenant_id: int, secrets: Sequence[SigningSecret]) -> Iterator[bytes]:
        """The older secrets that can be decrypted. One whose key is missing is skipped: it must not keep the newest
        from signing."""
        for secret in secrets:
            with contextlib.suppress(SealBroken):
                yield self._opened(tenant_id, secret)

    def _opened(self, tenant_id: int, secret: SigningSecret) -> bytes:
        return self._sealer.open(secret.value, belongs_to=signing_owner(tenant_id, secret.id))
