"""How values stand in the file: moments as microseconds since 1970, ids as 16 bytes, lists packed into one value.

A statement that is given many ids gets them one after the other in a blob, and walks them with `json_each` over a
second list (fences, or whatever belongs to each id). So it is one step for the database however many rows it touches:
the interpreter's lock is let go once, and not once per row.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, SafeUUID

import msgspec

from duetime.model.microseconds import maybe_moment as maybe_moment
from duetime.model.microseconds import maybe_stamp as maybe_stamp
from duetime.model.microseconds import moment as moment
from duetime.model.microseconds import stamp as stamp

_MICROSECOND = timedelta(microseconds=1)
_ID_LENGTH = 16

_MOMENTS = frozenset(
    {
        "at",
        "changed_at",
        "checked_at",
        "created_at",
        "died_at",
        "due_at",
        "end_finished_at",
        "end_started_at",
        "ended_at",
        "ends_at",
        "expires_at",
        "finished_at",
        "first_died_at",
        "first_started_at",
        "last_fire_at",
        "last_seen_at",
        "last_used_at",
        "live_started_at",
        "lease_until",
        "next_fire_at",
        "paused_at",
        "ready_at",
        "requested_at",
        "revoked_at",
        "started_at",
        "waiting",
        "wrong_since",
    }
)
_IDS = frozenset(
    {"id", "job_id", "end_id", "highest", "key_id", "live_id", "lowest", "run_id", "session_id", "worker_id"}
)
_DURATIONS = frozenset({"ran_for"})

_set_number: Callable[[UUID, int], None] = UUID.__dict__["int"].__set__
_set_safety: Callable[[UUID, SafeUUID], None] = UUID.__dict__["is_safe"].__set__
_UNKNOWN = SafeUUID.unknown
"""Members of an enumeration are looked up by a Python function in 3.11: it took as long as the rest of `identity`."""

_encoder = msgspec.json.Encoder()
_names = msgspec.json.Decoder(tuple[str, ...])


def microseconds(duration: timedelta) -> int:
    return duration // _MICROSECOND


def duration(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


def identity(body: bytes) -> UUID:
    """A UUID from its bytes, without the checks of its constructor: three times as fast on the way to a worker."""
    found = object.__new__(UUID)
    _set_number(found, int.from_bytes(body, "big"))
    _set_safety(found, _UNKNOWN)
    return found


def maybe_bytes(identity: UUID | None) -> bytes | None:
    return None if identity is None else identity.bytes


def packed(identities: Iterable[UUID]) -> bytes:
    return b"".join([identity.bytes for identity in identities])


def unpacked(ids: bytes) -> list[bytes]:
    return [ids[start : start + _ID_LENGTH] for start in range(0, len(ids), _ID_LENGTH)]


def listed(values: Sequence[Any]) -> str:
    """A JSON list, for `json_each`."""
    return _encoder.encode(values).decode()


def names(text: str) -> tuple[str, ...]:
    """A list of names as it stands in a column."""
    return _names.decode(text)


def places(ids: bytes) -> str:
    """A list as long as the ids in a blob, for statements that have nothing else to say of each."""
    return listed([0] * (len(ids) // _ID_LENGTH))


class Texts:
    """Byte strings of any length, one after the other in one blob.

    Each is named by one number: where it starts (from 1) in the high 32 bits, its length in the low ones.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._start = 1

    def add(self, text: bytes | None) -> int | None:
        if text is None:
            return None
        name = self._start << 32 | len(text)
        self._parts.append(text)
        self._start += len(text)
        return name

    @property
    def blob(self) -> bytes:
        return b"".join(self._parts)


def record(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """A row with names, and its values as the rest of the code knows them."""
    return {name: _read(name, value) for name, value in zip(names, row, strict=True)}


def _read(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _MOMENTS:
        return moment(value)
    if name in _IDS:
        return identity(value) if isinstance(value, bytes) else value
    if name in _DURATIONS:
        return duration(value)
    return value
