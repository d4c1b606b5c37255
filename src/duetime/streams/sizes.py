"""Sizes of messages, and of the batches that adapters send."""

from collections.abc import Iterator, Mapping, Sequence

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


def batches(bodies: Sequence[bytes], most: int, most_bytes: int) -> Iterator[Sequence[bytes]]:
    """These messages, so many and so many bytes at a time, in order; a larger message alone."""
    start = size = 0
    for at, body in enumerate(bodies):
        if at > start and (at - start == most or size + len(body) > most_bytes):
            yield bodies[start:at]
            start, size = at, 0
        size += len(body)
    if start < len(bodies):
        yield bodies[start:]
