"""Sealing: bytes that only holders of a key can read, and only in the place that they were sealed for.

AES-256-GCM. A seal names its key, so keys rotate without downtime: the first key seals, all of them open. The owner of
the bytes (the tenant and the id of a payload or job) is bound to the seal: bytes that were moved to another place do
not open there.

The keys come from the settings, or they are data keys that a key provider wraps (`crypto/envelope.py`). Data keys are
fetched before use: `ready` before sealing, `learn` before opening. Both do nothing when all keys are known.

Text is sealed as text, so that it fits wherever the plain text was stored:

    !sealed1:name:HEAD.            all of it
    !sealed1:name:HEAD;WHOLE.      its beginning alone, and all of it

The beginning fits into the first 500 characters: a database that truncates texts for a list returns something that can
be opened.
"""

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from duetime.errors import KeyUnknown, NoEncryptionKey, SealBroken

MAGIC = b"\xd7seal1"
TEXT_MAGIC = "!sealed1:"
_NONCE = 12
_HEAD = 240
"""Bytes of the beginning of a text. Sealed, with the longest key name, it takes less than 430 characters."""
_CUT = "\n…"


class DataKeys(Protocol):
    """Provides keys that are not in the settings."""

    async def current(self) -> tuple[bytes, bytes]:
        """The name and the bytes of the key to seal with."""

    async def find(self, name: bytes) -> bytes | None:
        """A key by its name; None if there is none. Raises `KeyUnknown` for a key that exists but cannot be
        unwrapped."""

    async def renew(self) -> None:
        """Create a new key to seal with from now on."""

    async def rewrap(self) -> int:
        """Wrap every key with the current wrapping key; returns how many were changed."""


class Sealer:
    def __init__(self, keys: Sequence[tuple[str, bytes]], data_keys: DataKeys | None = None) -> None:
        self._ciphers: dict[bytes, AESGCM] = {name.encode(): AESGCM(key) for name, key in keys}
        self._current = keys[0][0].encode() if keys else None
        self._data_keys = data_keys
        if data_keys is not None:
            self._current = None  # until `ready`: the keys in the settings only open

    @property
    def has_key(self) -> bool:
        return self._current is not None or self._data_keys is not None

    async def ready(self) -> bytes:
        """The name of the key to seal with. Raises `NoEncryptionKey` when there is none."""
        if self._data_keys is not None:
            try:
                name, key = await self._data_keys.current()
            except KeyUnknown as error:
                raise NoEncryptionKey(error.message, remedy=error.remedy) from error
            if name not in self._ciphers:
                self._ciphers[name] = AESGCM(key)
            self._current = name
        return self.check()

    async def learn(self, sealed: Iterable[bytes | str | None]) -> None:
        """Fetch the keys of everything sealed here, as far as they are available."""
        if self._data_keys is None:
            return
        for name in {key_name_of(each) for each in sealed if each is not None}:
            if name in self._ciphers or not name:
                continue
            with suppress(KeyUnknown):  # opening will report it
                key = await self._data_keys.find(name)
                if key is not None:
                    self._ciphers[name] = AESGCM(key)

    @property
    def data_keys(self) -> DataKeys | None:
        return self._data_keys

    @property
    def names(self) -> frozenset[str]:
        """The names of the keys that are known here."""
        return frozenset(name.decode() for name in self._ciphers)

    def check(self) -> bytes:
        """The name of the key to seal with. Raises `NoEncryptionKey` when there is none."""
        if self._current is None:
            raise NoEncryptionKey(
                "this process has no encryption key",
                remedy="set encryption_keys (DUETIME_ENCRYPTION_KEYS) or key_provider",
            )
        return self._current

    def seal(self, body: bytes, *, belongs_to: str) -> bytes:
        name = self.check()
        return head_of(name) + self._encrypted(name, body, belongs_to)

    def open(self, sealed: bytes, *, belongs_to: str) -> bytes:
        """The plain bytes. Raises `SealBroken` for bytes that cannot be opened here."""
        if not is_sealed(sealed):
            raise SealBroken("the stored value is not encrypted")
        name, rest = _split(sealed)
        return self._decrypted(name, rest, belongs_to)

    def seal_text(self, text: str, *, belongs_to: str) -> str:
        name, body = self.check(), text.encode("utf-8", "surrogatepass")
        parts = [body] if len(body) <= _HEAD else [body[:_HEAD], body]
        sealed = [urlsafe_b64encode(self._encrypted(name, part, belongs_to)).decode() for part in parts]
        return f"{text_head_of(name)}{';'.join(sealed)}."

    def open_text(self, text: str, *, belongs_to: str) -> str:
        """The plain text, or the beginning of one that was cut. Raises `SealBroken` as `open` does."""
        if not text.startswith(TEXT_MAGIC):
            raise SealBroken("the stored value is not encrypted")
        name, _, rest = text.removeprefix(TEXT_MAGIC).partition(":")
        whole = rest.endswith(".")
        parts = rest.removesuffix(".").split(";")
        try:
            body = urlsafe_b64decode(parts[-1] if whole else parts[0])
        except ValueError:
            raise SealBroken("the stored value was modified, or was moved from another place") from None
        opened = self._decrypted(name.encode(), body, belongs_to)
        return opened.decode("utf-8", "surrogatepass") if whole else opened.decode("utf-8", "ignore") + _CUT

    def _encrypted(self, name: bytes, body: bytes, belongs_to: str) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._ciphers[name].encrypt(nonce, body, belongs_to.encode())

    def _decrypted(self, name: bytes, rest: bytes, belongs_to: str) -> bytes:
        cipher = self._ciphers.get(name)
        if cipher is None:
            shown = name.decode("ascii", "replace")
            raise KeyUnknown(
                f"it was encrypted with the key {shown!r}, which this process does not have",
                remedy=f"add the key {shown!r} to encryption_keys (DUETIME_ENCRYPTION_KEYS)",
            )
        try:
            return cipher.decrypt(rest[:_NONCE], rest[_NONCE:], belongs_to.encode())
        except (InvalidTag, ValueError):
            raise SealBroken("the stored value was modified, or was moved from another place") from None


def head_of(name: bytes) -> bytes:
    """The prefix of all bytes that were sealed with a key."""
    return MAGIC + bytes([len(name)]) + name


def text_head_of(name: bytes) -> str:
    """The prefix of all texts that were sealed with a key."""
    return f"{TEXT_MAGIC}{name.decode()}:"


def key_name_of(sealed: bytes | str) -> bytes:
    """The name of the key that something was sealed with; empty if it was not sealed."""
    if isinstance(sealed, str):
        return sealed.removeprefix(TEXT_MAGIC).partition(":")[0].encode() if sealed.startswith(TEXT_MAGIC) else b""
    return _split(sealed)[0] if is_sealed(sealed) else b""


def prefix_of(sealed: bytes | str) -> bytes | str:
    """The prefix of a seal: enough to distinguish it from every other one."""
    if isinstance(sealed, str):
        return sealed[: len(text_head_of(key_name_of(sealed))) + _NONCE * 4 // 3]
    return sealed[: len(head_of(key_name_of(sealed))) + _NONCE]


def _split(sealed: bytes) -> tuple[bytes, bytes]:
    """The name of the key, and the rest."""
    start = len(MAGIC) + 1
    end = start + int.from_bytes(sealed[len(MAGIC) : start])
    return sealed[start:end], sealed[end:]


def is_sealed(body: bytes) -> bool:
    return body.startswith(MAGIC)


def is_sealed_text(text: str) -> bool:
    return text.startswith(TEXT_MAGIC)
