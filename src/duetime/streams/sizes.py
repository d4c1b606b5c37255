"""Sizes of messages, and of the batches that adapters send."""

from collections.abc import Iterator, Sequence

from duetime.errors import InvalidInput


def check_sizes(bodies: Sequence[bytes], largest: int) -> None:
    """Refuse all of these messages if one of them is too large for its broker."""
    size = max(map(len, bodies), default=0)
    if size > largest:
        raise InvalidInput(f"a message of {size} bytes is too large for its stream", remedy=f"at most {largest} bytes")


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
