"""The text of an API key: `dt_live_`, 43 characters of a random number, and 6 of a checksum.

The checksum lets a secret scanner, or a user who pastes half a key, detect that without a database. The text is shown
once; what is stored is its SHA-256. A random number of 256 bits needs no slow hash.
"""

import secrets
from hashlib import sha256
from typing import NamedTuple
from zlib import crc32

PREFIX = "dt_live_"
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_BODY, _CHECK = 43, 6
_LENGTH = len(PREFIX) + _BODY + _CHECK


class KeyText(NamedTuple):
    """A new key: the text to show once, and what is stored of it."""

    text: str
    hash: bytes
    hint: str


def new_key_text() -> KeyText:
    body = _base62(int.from_bytes(secrets.token_bytes(32), "big"), _BODY)
    text = PREFIX + body + _checksum(body)
    return KeyText(text, hash_of(text), hint_of(text))


def looks_like_key(text: str) -> bool:
    """Whether `new_key_text` may have written this; it does not say whether the key exists."""
    if len(text) != _LENGTH or not text.startswith(PREFIX) or not text.isascii():
        return False
    body = text[len(PREFIX) : -_CHECK]
    return all(character in _ALPHABET for character in body) and text[-_CHECK:] == _checksum(body)


def hash_of(text: str) -> bytes:
    return sha256(text.encode()).digest()


def hint_of(text: str) -> str:
    return f"{text[: len(PREFIX) + 4]}…{text[-4:]}"


def _checksum(body: str) -> str:
    return _base62(crc32(body.encode()), _CHECK)


def _base62(number: int, length: int) -> str:
    characters = []
    for _ in range(length):
        number, digit = divmod(number, 62)
        characters.append(_ALPHABET[digit])
    assert number == 0, "the number does not fit"
    return "".join(reversed(characters))
