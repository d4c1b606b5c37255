"""Sealing: bytes that only holders of a key can read, and only as what they were sealed for.

AES-256-GCM. A seal says which key it was made with, so keys rotate without downtime: the first key seals, all of them
open. What the bytes belong to (the tenant and the id of a payload or job) is bound to the seal: bytes that were moved
to another place do not open there.
"""

import os
from collections.abc import Mapping, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from duetime.errors import Conflict, SealBroken

_MAGIC = b"\xd7seal1"
_NONCE = 12


class Sealer:
    def __init__(self, keys: Sequence[tuple[str, bytes]]) -> None:
        self._ciphers: Mapping[bytes, AESGCM] = {name.encode(): AESGCM(key) for name, key in keys}
        self._current = keys[0][0].encode() if keys else None

    @property
    def has_key(self) -> bool:
        return self._current is not None

    def knows_key_of(self, sealed: bytes) -> bool:
        """Whether what was sealed can be opened here, if it was not changed."""
        return _name_of(sealed)[0] in self._ciphers

    def check(self) -> bytes:
        """The name of the key to seal with. Raises `Conflict` when there is none."""
        if self._current is None:
            raise Conflict(
                "there is no key to encrypt with",
                remedy="set encryption_keys (DUETIME_ENCRYPTION_KEYS) for this process",
            )
        return self._current

    def seal(self, body: bytes, *, belongs_to: str) -> bytes:
        name = self.check()
        nonce = os.urandom(_NONCE)
        head = _MAGIC + bytes([len(name)]) + name + nonce
        return head + self._ciphers[name].encrypt(nonce, body, belongs_to.encode())

    def open(self, sealed: bytes, *, belongs_to: str) -> bytes:
        """The bytes again. Raises `SealBroken` for what cannot be opened here."""
        if not is_sealed(sealed):
            raise SealBroken("what is stored was not sealed")
        name, rest = _name_of(sealed)
        cipher = self._ciphers.get(name)
        if cipher is None:
            shown = name.decode("ascii", "replace")
            raise SealBroken(
                f"it was encrypted with the key {shown!r}, which is not known here",
                remedy="add that key to encryption_keys",
            )
        try:
            return cipher.decrypt(rest[:_NONCE], rest[_NONCE:], belongs_to.encode())
        except (InvalidTag, ValueError):
            raise SealBroken("what is stored was changed, or belongs to something else") from None


def _name_of(sealed: bytes) -> tuple[bytes, bytes]:
    """The name of the key, and what comes after it."""
    start = len(_MAGIC) + 1
    end = start + int.from_bytes(sealed[len(_MAGIC) : start])
    return sealed[start:end], sealed[end:]


def is_sealed(body: bytes) -> bool:
    return body.startswith(_MAGIC)
