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


_decoder = msgspec.json.Decoder(Change)


async def changes(lines: AsyncIterator[bytes]) -> AsyncIterator[Change]:
    """The events that the lines tell of; comments and everything else are passed over."""
    mark, data = "", b""
    async for line in lines:
        name, _, value = line.rstrip(b"\r\n").partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id":
            mark = value.decode()
        elif name == b"data":
            data += value
        elif not line.strip() and data:
            yield msgspec.structs.replace(_decoder.decode(data), id=mark)
            data = b""
