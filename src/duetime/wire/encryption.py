"""Requests and answers about re-encryption."""

from msgspec import Struct

from duetime.spec.fields import Request


class ReencryptRequest(Request, frozen=True):
    restart: bool = False
    """Start over instead of continuing where the last call ended."""
    fresh_data_key: bool = False
    """With a key provider: encrypt with a new data key from now on."""


class EncryptionView(Struct, frozen=True):
    """Which keys are in use, as far as the last re-encryption has seen."""

    key: str | None
    """The key that encrypts; null if there is none."""
    known: tuple[str, ...]
    """The other keys that this server has."""
    round: int
    table: str | None
    """The table that the re-encryption is at; null if none was started."""
    looked_at: int
    """Rows."""
    resealed: int
    """Values that were re-encrypted."""
    left: dict[str, int]
    """Values that this server cannot decrypt, by the name of their key."""
    done: bool
    retirable: tuple[str, ...]
    """Once done: keys of this server that are no longer in use."""
    archived: dict[str, int]
    """Files of the archive that need a key other than the current one, by its name. They are never re-encrypted."""
    wrapping_keys: tuple[str, ...]
    """The keys of the key provider that wrap data keys."""
