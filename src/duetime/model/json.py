"""JSON that is read back as it was written.

Encoders are lenient: they turn a datetime into text, an integer key into a string and NaN into null, and the task gets
something else than what was submitted. Here only values that survive the round trip are accepted, and the error names
the path.
"""

import math
from collections.abc import Callable
from typing import Any

import msgspec

from duetime.errors import InvalidInput

MAX_DEPTH = 64
_BIGGEST = 2**63
_PLAIN = frozenset({bool, type(None)})
_LISTS = (list, tuple)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def encode(value: object, *, field: str, limit: int | None = None) -> bytes:
    """The JSON of a value, or an error that names the path."""
    if not _fits(value, 0):
        _check(value, field, 0)  # once more, to find the path
    body = _encoder.encode(value)
    if limit is not None and len(body) > limit:
        raise too_large(len(body), field, limit)
    return body


def check(value: object, field: str) -> None:
    """Raises `InvalidInput` that names the path, unless the value survives the round trip."""
    if not _fits(value, 0):
        _check(value, field, 0)  # once more, to find the path


def too_large(size: int, field: str, limit: int) -> InvalidInput:
    return InvalidInput(
        f"{size:,} bytes of JSON exceed the limit of {limit:,}",
        field=field,
        remedy="store it elsewhere and pass a reference, or raise max_payload",
    )


decode: Callable[[bytes], Any] = _decoder.decode


def _fits(value: object, depth: int) -> bool:
    """Whether the value is valid: the same checks as in `_check`, without building a path."""
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_whole(value)  # type: ignore[attr-defined, arg-type]
    if kind is int:
        return -_BIGGEST <= value < _BIGGEST  # type: ignore[operator]
    if kind in _PLAIN:
        return True
    if kind is float:
        return math.isfinite(value)  # type: ignore[arg-type]
    if depth >= MAX_DEPTH:
        return False
    depth += 1
    if kind is dict:
        for key, item in value.items():  # type: ignore[attr-defined]
            if type(key) is not str or not (key.isascii() or _is_whole(key)) or not _fits(item, depth):
                return False
        return True
    return kind in _LISTS and all(_fits(item, depth) for item in value)  # type: ignore[attr-defined]


def _check(value: object, path: str, depth: int) -> None:
    kind = type(value)
    if kind is str:
        _check_text(value, path)  # type: ignore[arg-type]
    elif kind in _PLAIN:
        pass
    elif kind is int:
        if not -_BIGGEST <= value < _BIGGEST:  # type: ignore[operator]
            raise InvalidInput("the integer does not fit in 64 bits", field=path, remedy="pass it as text")
    elif kind is float:
        if not math.isfinite(value):  # type: ignore[arg-type]
            raise InvalidInput(f"{value} cannot be represented in JSON", field=path)
    elif isinstance(value, dict):
        _check_depth(path, depth)
        for key, item in value.items():
            if type(key) is not str:
                raise InvalidInput(f"the key {key!r} is not text", field=path, remedy="JSON objects have text keys")
            _check_text(key, path)
            _check(item, f"{path}.{key}", depth + 1)
    elif isinstance(value, _LISTS):
        _check_depth(path, depth)
        for index, item in enumerate(value):
            _check(item, f"{path}[{index}]", depth + 1)
    else:
        raise InvalidInput(
            f"{kind.__name__} is not JSON",
            field=path,
            remedy="pass text, numbers, booleans, None, lists and dicts of these",
        )


def _check_depth(path: str, depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise InvalidInput(f"nested deeper than {MAX_DEPTH}", field=path[:80])


def _check_text(text: str, path: str) -> None:
    if not text.isascii() and not _is_whole(text):
        raise InvalidInput("contains a lone surrogate (half a character)", field=path[:80])


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
