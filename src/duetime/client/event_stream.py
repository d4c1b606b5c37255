"""Server-sent events, from the lines of an answer without an end."""

from collections.abc import AsyncIterator
from datetime import datetime

import msgspec


class Change(msgspec.Struct, frozen=True):
    """What happened to some jobs or runs."""

    kind: str
    at: datetime
    job_ids: tuple[str, ...] = ()
    run_ids: tuple[str, ...] = ()
    id: str = ""
    """Its place in the stream: give it back to go on after it."""


class Place(msgspec.Struct, frozen=True):
    """A place in the stream up to which nothing was missed, told without an event; or (empty) only that somebody is
    there."""

    id: str


_decoder = msgspec.json.Decoder(Change)


async def changes(lines: AsyncIterator[bytes]) -> AsyncIterator[Change | Place]:
    """The events that the lines tell of, and the places; comments and everything else are passed over."""
    mark, data = "", b""
    async for line in lines:
        name, _, value = line.rstrip(b"\r\n").partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id":
            mark = value.decode()
        elif name == b"data":
            data += value
        elif not line.strip():
            yield msgspec.structs.replace(_decoder.decode(data), id=mark) if data else Place(mark)
            data = b""
