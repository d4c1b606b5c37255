"""Reading a request body: its media type, size, deadline and number of values are checked.

The limits apply to the received bytes and to the decompressed ones. They are checked during decompression, so that a
small body cannot become a large one. The deadline applies to the whole body: a client that sends a byte now and then
does not keep a connection for ever. Large bodies are decompressed in slices and parsed in a separate thread, so that
the event loop serves other requests meanwhile.
"""

import asyncio
import contextlib
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from starlette.types import Receive

from duetime.api.decoding import fit, read_json, read_large_json
from duetime.api.endpoint import Endpoint
from duetime.api.problems import BAD_REQUEST, SLOW_BODY, TOO_LARGE, WRONG_MEDIA, Problem
from duetime.settings import Settings

T = TypeVar("T")

WHOLE = "duetime.whole"
"""A key in the ASGI scope of a request whose whole body has arrived."""
_ON_THE_LOOP = 16 * 1024
"""Bytes that are parsed on the event loop: any content takes at most a few milliseconds."""
_SLICE = 256 * 1024
"""Bytes that are decompressed at a time."""
MOST_VALUES = 50_000
"""How many values a body, or one item of a batch, may have, estimated from its separators. Each is checked in Python,
on the event loop."""
MOST_VALUES_OF_BATCH = 1_000_000
"""A parsed value takes about 60 bytes."""
_parser = ThreadPoolExecutor(1, thread_name_prefix="duetime-parse")
_LINGER = 2.0
"""Seconds for which the rest of a refused body is read."""
_LINGER_BYTES = 64 * 1024 * 1024
ROOM_FOR_THE_REST = 64 * 1024
"""Bytes of a job beside its arguments."""
_TINY = 4 * 1024
"""For requests without a key."""


def limit_of(endpoint: Endpoint, settings: Settings) -> int:
    match endpoint.body_limit:
        case "job":
            return settings.max_payload + ROOM_FOR_THE_REST
        case "batch":
            return settings.max_batch
        case "payload":
            return settings.max_stored_payload
        case "small":
            return ROOM_FOR_THE_REST
        case "tiny":
            return _TINY


async def read_body(
    endpoint: Endpoint, headers: Mapping[bytes, bytes], receive: Receive, settings: Settings, *, is_whole: bool = False
) -> Any:
    """The body as `endpoint.body` declares it, or as bytes where the endpoint reads it itself. `is_whole`: all of it
    has arrived."""
    packed = _packing(headers)
    limit = limit_of(endpoint, settings)
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and (len(declared) > 15 or int(declared) > limit):
        raise _too_large(limit)
    if is_whole:  # a deadline costs a twentieth of a request
        body = await _received(receive, limit)
    else:
        try:
            async with asyncio.timeout(settings.body_timeout.total_seconds()):
                body = await _received(receive, limit)
        except TimeoutError:
            raise Problem(
                SLOW_BODY,
                "the body did not arrive in time",
                remedy="send the body without pauses",
                unread=True,
            ) from None
    if body:  # the type of an empty body does not matter
        _check_media(endpoint, headers)
    most: int | None = MOST_VALUES_OF_BATCH if endpoint.body_limit == "batch" else MOST_VALUES
    if "*/*" in endpoint.media:
        most = None
    if packed:
        body = await unpack(body, limit, most)
    elif most is not None:
        await _count_values(body, most)
    if endpoint.reads == "bytes":
        return body
    if not body and endpoint.body_optional:
        return fit({}, endpoint.body)
    if len(body) <= _ON_THE_LOOP:
        return read_json(body, endpoint.body)
    # Arguments and results may have every character escaped.
    longest_text = max(1024**2, 2 * settings.max_payload, 2 * settings.max_result)
    return fit(await parse(body, partial(read_large_json, longest_text=longest_text)), endpoint.body)


async def _received(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem(BAD_REQUEST, "the connection was closed before the end of the body")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_large(limit)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def parse(body: bytes, read: Callable[[bytes], T]) -> T:
    """Parse a body with `read`; a large one in a thread."""
    if len(body) <= _ON_THE_LOOP:
        return read(body)
    return await asyncio.get_running_loop().run_in_executor(_parser, read, body)


def _check_media(endpoint: Endpoint, headers: Mapping[bytes, bytes]) -> None:
    given = headers.get(b"content-type")
    if given is None:
        return
    kind, _, rest = given.decode("latin-1").partition(";")
    charset = rest.strip().lower()
    anything = "*/*" in endpoint.media
    if not anything and kind.strip().lower() not in endpoint.media:
        raise Problem(WRONG_MEDIA, field="Content-Type", remedy=f"send {' or '.join(endpoint.media)}")
    if not anything and charset.startswith("charset=") and charset[8:].strip('"') not in ("utf-8", "utf8", "us-ascii"):
        raise Problem(WRONG_MEDIA, "the text is not UTF-8", field="Content-Type", remedy="send UTF-8")


def _packing(headers: Mapping[bytes, bytes]) -> bool:
    match headers.get(b"content-encoding", b"").strip().lower():
        case b"" | b"identity":
            return False
        case b"gzip":
            return True
        case _:
            raise Problem(WRONG_MEDIA, field="Content-Encoding", remedy="send it uncompressed or as gzip")


async def unpack(body: bytes, limit: int, most_values: int | None = MOST_VALUES) -> bytes:
    """Decompress a gzip body. At most `limit` bytes are ever in memory."""
    unpacker = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    size = values = 0
    packed = body
    while not unpacker.eof:
        try:
            part = unpacker.decompress(packed, _SLICE)
        except zlib.error:
            raise Problem(BAD_REQUEST, "the body is not gzip", field="Content-Encoding") from None
        packed = unpacker.unconsumed_tail
        size += len(part)
        if size > limit:
            raise _too_large(limit, unread=False)
        if most_values is not None and (values := values + count_values(part)) > most_values:
            raise _too_many_values(most_values)
        if not part and not packed:
            break
        parts.append(part)
        if len(part) == _SLICE:
            await asyncio.sleep(0)
    if not unpacker.eof or unpacker.unused_data:
        raise Problem(BAD_REQUEST, "the body is not one complete gzip stream", field="Content-Encoding")
    return b"".join(parts)


async def _count_values(body: bytes, most: int) -> None:
    if len(body) <= most:
        return  # a value takes at least a byte
    values = 0
    for start in range(0, len(body), _SLICE):
        values += count_values(body[start : start + _SLICE])
        await asyncio.sleep(0)
        if values > most:
            raise _too_many_values(most)


def count_values(part: bytes) -> int:
    return part.count(b",") + part.count(b"[") + part.count(b"{")


def _too_many_values(most: int) -> Problem:
    remedy = "split the request, or store long lists as a payload"
    return Problem(TOO_LARGE, f"more than {most:,} values, counted by , [ and {{", remedy=remedy)


def _too_large(limit: int, *, unread: bool = True) -> Problem:
    remedy = "send less, or store the data as a payload"
    return Problem(TOO_LARGE, f"more than {limit:,} bytes", remedy=remedy, unread=unread)


async def drop_the_rest(receive: Receive) -> None:
    """Read the rest of a refused body, for a moment. Closing a connection with unread bytes resets it, and a client
    that is still sending would not receive the response."""
    dropped = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER):
            while dropped < _LINGER_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
                dropped += len(message.get("body", b""))
