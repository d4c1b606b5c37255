"""Responses as JSON. Long lists are encoded and sent in parts, so that the event loop serves other requests in between.

A graph of 100,000 edges is a response of 40 MB: even copying it at once would block the event loop for too long.
"""

import secrets
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec.inspect import (
    BoolType,
    DateTimeType,
    EnumType,
    FloatType,
    IntType,
    LiteralType,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    type_info,
)

from duetime.process.slices import Slices

_encoder = msgspec.json.Encoder(order="deterministic")
_LONG = 50
"""Items of a list that are encoded at once. An item can be as large as the arguments of a job."""
_PART = 64 * 1024
"""Minimum bytes of a part: each part costs a system call."""

_PLAIN = (NoneType, BoolType, IntType, FloatType, StrType, DateTimeType, EnumType, LiteralType, StructType)
"""Types of fields that cannot hold a list."""

encode = _encoder.encode


@cache
def _listing(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a type that may hold a list."""
    return tuple(field.name for field in msgspec.structs.fields(kind) if not _is_plain(type_info(field.type)))


def _is_plain(kind: Type) -> bool:
    return all(map(_is_plain, kind.types)) if isinstance(kind, UnionType) else isinstance(kind, _PLAIN)


async def encode_answer(value: Any) -> list[bytes]:
    """Encode a response as JSON, in the parts to send."""
    long: dict[str, Sequence[Any]] = {}
    if isinstance(value, msgspec.Struct):
        for name in _listing(type(value)):
            items = getattr(value, name)
            if isinstance(items, (list, tuple)) and len(items) > _LONG:
                long[name] = items
    if not long:
        return [encode(value)]
    places = {name: secrets.token_hex(16).encode() for name in long}
    rest = encode(msgspec.structs.replace(value, **{name: msgspec.Raw(place) for name, place in places.items()}))
    parts: list[bytes] = []
    slices = Slices()
    for name, items in long.items():
        before, _, rest = rest.partition(places[name])
        parts.append(before + b"[" + encode(items[0]))
        for start in range(1, len(items), _LONG):
            some = b"".join([b"," + encode(item) for item in items[start : start + _LONG]])
            if len(parts[-1]) < _PART:
                parts[-1] += some
            else:
                parts.append(some)
            await slices.yield_if_due()
        rest = b"]" + rest
    parts[-1] += rest
    return parts
