"""Re-encryption as requests and answers have it."""

from msgspec import Struct

from duetime.spec.fields import Request


class ReencryptRequest(Request, frozen=True):
    restart: bool = False
    """Begin anew, instead of going on where the last call ended."""
    fresh_data_key: bool = False
    """With a key provider: encrypt with a new data key from now on."""


class EncryptionView(Struct, frozen=True):
    """What is encrypted with which keys, as far as the last re-encryption has seen."""

    key: str | None
    """The key that is encrypted with; null where there is none."""
    known: tuple[str, ...]
    """The other keys that this server has."""
    round: int
    table: str | None
    """Where the re-encryption is; null where none was made."""
    looked_at: int
    """Rows."""
    resealed: int
    """Values that were encrypted anew."""
    left: dict[str, int]
    """Values that this server cannot open, by the name of their key."""
    done: bool
    retirable: tuple[str, ...]
    """Once it is done: keys of this server that nothing is encrypted with."""
    wrapping_keys: tuple[str, ...]
    """The keys of the key provider that data keys are wrapped by."""
