"""Server-sent events, from the lines of a response."""

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
    """Its position in the stream: a new stream can start after it."""


class Place(msgspec.Struct, frozen=True):
    """A position without an event: nothing before it was missed. Empty: a sign of life only."""

    id: str


_decoder = msgspec.json.Decoder(Change)


async def changes(lines: AsyncIterator[bytes]) -> AsyncIterator[Change | Place]:
    """The events and positions in the lines. Comments and other lines are ignored."""
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
