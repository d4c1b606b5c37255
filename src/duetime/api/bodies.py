"""Reading a body: of the right kind, not too long, not too slow, and not of more values than its reader can hold.

The limits hold for what comes in and for what it unpacks to, and they are checked while it unpacks: a small body cannot
become a large one. The deadline holds for the whole body: a client that sends a byte now and then does not keep a place
for ever. Unpacking and parsing leave the event loop to other requests: large bodies are unpacked in slices, and parsed
in a thread of their own.
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

_ON_THE_LOOP = 16 * 1024
"""Bytes that are parsed in a few milliseconds, whatever they hold."""
_SLICE = 256 * 1024
"""Bytes that are unpacked at a time."""
MOST_VALUES = 50_000
"""How many values a body may hold, or one item of a batch, estimated from its separators. Every one is looked at in
Python, on the event loop."""
MOST_VALUES_OF_BATCH = 1_000_000
"""Each takes some 60 bytes once it is parsed."""
_parser = ThreadPoolExecutor(1, thread_name_prefix="duetime-parse")
_LINGER = 2.0
"""Seconds for which what is left of a refused body is still taken in."""
_LINGER_BYTES = 64 * 1024 * 1024
ROOM_FOR_THE_REST = 64 * 1024
"""What a job may say beside its arguments."""
_TINY = 4 * 1024
"""For callers that have shown no key."""


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


async def read_body(endpoint: Endpoint, headers: Mapping[bytes, bytes], receive: Receive, settings: Settings) -> Any:
    """The body as `endpoint.body` declares it, or as bytes where the endpoint reads it itself."""
    packed = _packing(headers)
    limit = limit_of(endpoint, settings)
    declared = headers.get(b"content-length", b"")
    if declared.isdigit() and (len(declared) > 15 or int(declared) > limit):
        raise _too_large(limit)
    parts: list[bytes] = []
    size, more = 0, True
    try:
        async with asyncio.timeout(settings.body_timeout.total_seconds()):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Problem(BAD_REQUEST, "the connection was closed in the middle of the body")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limit:
                    raise _too_large(limit)
                more = message.get("more_body", False)
    except TimeoutError:
        raise Problem(
            SLOW_BODY,
            "the whole body did not arrive in time",
            remedy="send it at once",
            unread=True,
        ) from None
    body = parts[0] if len(parts) == 1 else b"".join(parts)
    if body:  # of an empty body, the type does not matter
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


async def parse(body: bytes, read: Callable[[bytes], T]) -> T:
    """What `read` makes of a body; of a large one, beside the event loop."""
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
            raise Problem(WRONG_MEDIA, field="Content-Encoding", remedy="send it as it is, or as gzip")


async def unpack(body: bytes, limit: int, most_values: int | None = MOST_VALUES) -> bytes:
    """What a gzip holds. No more of it than the limit is ever in memory."""
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
        raise Problem(BAD_REQUEST, "the body is not one whole gzip", field="Content-Encoding")
    return b"".join(parts)


async def _count_values(body: bytes, most: int) -> None:
    if len(body) <= most:
        return  # a value takes a byte at least
    values = 0
    for start in range(0, len(body), _SLICE):
        values += count_values(body[start : start + _SLICE])
        await asyncio.sleep(0)
        if values > most:
            raise _too_many_values(most)


def count_values(part: bytes) -> int:
    return part.count(b",") + part.count(b"[") + part.count(b"{")


def _too_many_values(most: int) -> Problem:
    remedy = "split it, or send long lists as a payload"
    return Problem(TOO_LARGE, f"more than {most:,} values, counted by , [ and {{", remedy=remedy)


def _too_large(limit: int, *, unread: bool = True) -> Problem:
    remedy = "send less, or store it as a payload"
    return Problem(TOO_LARGE, f"more than {limit:,} bytes", remedy=remedy, unread=unread)


async def drop_the_rest(receive: Receive) -> None:
    """Take in what is left of a body that was refused, for a moment. A connection that is closed with bytes unread is
    reset, and a client that was still sending would lose the answer that tells it why."""
    dropped = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER):
            while dropped < _LINGER_BYTES:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
                dropped += len(message.get("body", b""))
