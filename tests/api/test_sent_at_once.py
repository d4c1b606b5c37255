"""A small response is sent in one write, and says the same as uvicorn would say."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from duetime.api.http_protocol import BoundedProtocol
from tests.support.served import Served

_GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
_ASKED = {
    "a health check": _GET % b"/livez",
    "a refusal": _GET % b"/v1/jobs",
    "a missing path": _GET % b"/nowhere",
    "a method that is not allowed": b"DELETE /v1/jobs HTTP/1.1\r\nHost: x\r\n\r\n",
    "only the headers": b"HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/1.0": b"GET /livez HTTP/1.0\r\n\r\n",
    "HTTP/1.0 that keeps the connection": b"GET /livez HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "the last request": b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    "several requests ahead": _GET % b"/livez" + _GET % b"/v1/jobs" + _GET % b"/livez",
    "a body that comes late": b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
    "a large answer": _GET % b"/openapi.json",
}


async def heard(api: Served, asked: bytes) -> bytes:
    """What the server says to this, until it closes the connection or says no more, without the time."""
    place = urlsplit(api.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(asked)
    said = b""
    try:
        while part := await asyncio.wait_for(reader.read(1_000_000), 0.3):
            said += part
        said += b"(closed)"
    except TimeoutError:
        pass
    writer.transport.abort()
    return re.sub(rb"date: [^\r]*", b"date", said)


@pytest.mark.parametrize("what", _ASKED)
async def test_it_says_the_same(api: Served, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    at_once = await heard(api, _ASKED[what])
    monkeypatch.setattr(BoundedProtocol, "_send_at_once", lambda *_: False)
    assert at_once == await heard(api, _ASKED[what])
    assert b"HTTP/1.1 " in at_once


async def test_one_write(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    connected = BoundedProtocol.connection_made

    class Spy:
        def __init__(self, transport: Any) -> None:
            self._transport = transport

        def write(self, data: bytes) -> None:
            sent.append(data)
            self._transport.write(data)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._transport, name)

    monkeypatch.setattr(BoundedProtocol, "connection_made", lambda self, made: connected(self, cast(Any, Spy(made))))
    await heard(api, _ASKED["several requests ahead"])
    assert [part[:12] for part in sent] == [b"HTTP/1.1 200", b"HTTP/1.1 401", b"HTTP/1.1 200"]


async def test_a_header_with_a_line_break_is_not_sent(api: Served) -> None:
    """A value that would end the header is left to uvicorn, which refuses it."""
    answered: list[bool] = []
    of_cycle = BoundedProtocol._send_at_once

    def send(self: BoundedProtocol, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        answered.append(of_cycle(self, status, [*headers, (b"x", b"a\r\nset-cookie: b=c")], body))
        return answered[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BoundedProtocol, "_send_at_once", send)
        assert b"set-cookie" not in await heard(api, _ASKED["a health check"])
    assert answered == [False]
