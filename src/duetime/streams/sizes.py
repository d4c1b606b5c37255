"""Sizes of messages."""

from collections.abc import Mapping, Sequence

from duetime.errors import InvalidInput

_SMALLEST = 1_000
_LARGEST = 50_000_000


def check_sizes(bodies: Sequence[bytes], largest: int) -> None:
    """Refuse all of these messages if one of them is too large for its broker."""
    size = max(map(len, bodies), default=0)
    if size > largest:
        raise InvalidInput(f"a message of {size} bytes is too large for its stream", remedy=f"at most {largest} bytes")


def largest_of(options: Mapping[str, str], usual: int) -> int:
    """The maximum size of a message at a broker whose streams may have a smaller or larger one: `?largest=…`."""
    given = options.get("largest")
    if given is None:
        return usual
    if not given.isascii() or not given.isdigit() or not _SMALLEST <= int(given) <= _LARGEST:
        raise InvalidInput(
            f"largest {given[:40]!r} is not valid", field="stream", remedy=f"bytes, between {_SMALLEST} and {_LARGEST}"
        )
    return int(given)
