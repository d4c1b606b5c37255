"""How values are stored: moments as microseconds since 1970, ids as 16 bytes, lists packed into one value.

A statement with many ids gets them concatenated in a blob, and iterates over them with `json_each` on a second list
(fences, or other values of each id). So any number of rows is one call: it releases the GIL once, not once per row.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID, SafeUUID

import msgspec

from duetime.model.microseconds import maybe_moment as maybe_moment
from duetime.model.microseconds import maybe_stamp as maybe_stamp
from duetime.model.microseconds import moment as moment
from duetime.model.microseconds import stamp as stamp
from duetime.store.shared.columns import COLUMNS, Kind

_MICROSECOND = timedelta(microseconds=1)
_ID_LENGTH = 16
_AS_THEY_ARE = frozenset({bool, bytes, float, int, str})

_set_number: Callable[[UUID, int], None] = UUID.__dict__["int"].__set__
_set_safety: Callable[[UUID, SafeUUID], None] = UUID.__dict__["is_safe"].__set__
_UNKNOWN = SafeUUID.unknown
"""Python 3.11 looks up enum members in Python code, which took as long as the rest of `identity`."""

_encoder = msgspec.json.Encoder()
_names = msgspec.json.Decoder(tuple[str, ...])
_dates = msgspec.json.Decoder(tuple[date, ...])


def microseconds(duration: timedelta) -> int:
    return duration // _MICROSECOND


def duration(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


def identity(body: bytes) -> UUID:
    """A UUID from its bytes, without the checks of its constructor: three times as fast."""
    found = object.__new__(UUID)
    _set_number(found, int.from_bytes(body, "big"))
    _set_safety(found, _UNKNOWN)
    return found


def packed(identities: Iterable[UUID]) -> bytes:
    return b"".join([identity.bytes for identity in identities])


def unpacked(ids: bytes) -> list[bytes]:
    return [ids[start : start + _ID_LENGTH] for start in range(0, len(ids), _ID_LENGTH)]


def listed(values: Sequence[Any]) -> str:
    """A JSON list, for `json_each`."""
    return _encoder.encode(values).decode()


def names(text: str) -> tuple[str, ...]:
    """A list of names from a column."""
    return _names.decode(text)


def dates(text: str) -> tuple[date, ...]:
    """A list of days from a column."""
    return _dates.decode(text)


def count_of(ids: bytes) -> int:
    """How many ids a blob holds."""
    return len(ids) // _ID_LENGTH


def places(ids: bytes) -> str:
    """A list of the same length as the ids in a blob, for statements without other values per id."""
    return listed([0] * count_of(ids))


class Texts:
    """Byte strings of any length, concatenated in one blob.

    One number identifies each: its start (from 1) in the high 32 bits, its length in the low ones.
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


class Reader:
    """Decodes the rows of one statement by the declared types of its columns."""

    def __init__(self, names: Sequence[str], statement: str) -> None:
        unknown = [name for name in names if name not in COLUMNS]
        if unknown:
            raise LookupError(f"{statement} returns {', '.join(unknown)}: declare it in store/shared/columns.py")
        self._names = tuple(names)
        self._decoders = [
            (name, decoder) for name in self._names if (decoder := _DECODERS.get(COLUMNS[name])) is not None
        ]

    def read(self, rows: Iterable[Sequence[Any]]) -> list[dict[str, Any]]:
        found = [dict(zip(self._names, row, strict=True)) for row in rows]
        for name, decoder in self._decoders:
            for record in found:
                if (value := record[name]) is not None:
                    record[name] = decoder(value)
        return found


def encoded(given: Mapping[str, Any], now: int) -> dict[str, Any]:
    """Encode parameters. A list of ids `x` comes with `x_places`, a list of the same length; None comes with None."""
    found: dict[str, Any] = {"now": now}
    for name, value in given.items():
        if type(value) in _AS_THEY_ARE:
            found[name] = value
        elif isinstance(value, (list, tuple)):
            is_ids = isinstance(value[0], UUID) if value else True
            found[name] = packed(value) if value and is_ids else listed(value)
            if is_ids:
                found[f"{name}_places"] = listed([0] * len(value))
        elif value is None:
            found[name] = found[f"{name}_places"] = None
        # Also of a subclass: asyncpg has its own `UUID`, for example.
        elif isinstance(value, UUID):
            found[name] = value.bytes
        elif isinstance(value, datetime):
            found[name] = stamp(value)
        elif isinstance(value, timedelta):
            found[name] = microseconds(value)
        else:
            found[name] = value
    return found


def _identity(value: bytes | int) -> UUID | int:
    return identity(value) if isinstance(value, bytes) else value


def _identities(ids: bytes | str) -> tuple[UUID, ...]:
    """From a column, or from the hex digits that `group_concat(hex(id), '')` makes of many rows."""
    return tuple([identity(body) for body in unpacked(bytes.fromhex(ids) if isinstance(ids, str) else ids)])


_DECODERS: dict[Kind, Callable[[Any], Any]] = {
    Kind.FLAG: bool,
    Kind.MOMENT: moment,
    Kind.DURATION: duration,
    Kind.ID: _identity,
    Kind.IDS: _identities,
    Kind.NAMES: names,
    Kind.DATES: dates,
}
