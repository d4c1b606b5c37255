"""uvicorn's HTTP/1.1 protocol, with limits on what an unauthenticated client may send.

uvicorn's parser accepts headers of any number and length, and keeps a silent connection open. Here all bytes of a
message except its body are counted as they arrive: a long request line, many headers, one endless header, chunk
extensions, trailers.

A request must have exactly one Host header, as RFC 9112 requires: with two, a proxy could use one and the server the
other. Trailers are not headers: they come after the checks, and proxies treat them differently.

A client may ask for another protocol (`Upgrade: h2c`, as Java's does by default), and the server ignores it. uvicorn's
parser would end such a request after its header, and read the body as the next request.

A client that does not read what it asked for stalls its connection (`connections.py`): the transport reports when more
than `MOST_UNSENT` bytes are ready for the client, and when most of them are gone. No response needs a timer. A client
may send requests without reading the responses (pipelining). After `MOST_AHEAD` of them, the connection closes with the
last response, and the client repeats the others on another one, as RFC 9112 says.
"""

import asyncio
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from httptools import HttpRequestParser
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from duetime.api.bodies import WHOLE
from duetime.api.connections import Connections
from duetime.api.sending import AT_ONCE
from duetime.api.tls_listener import Handshake
from duetime.model.network import client_group

MAX_HEADER = 32 * 1024
"""Bytes of a request line and its headers."""
MAX_HEADERS = 100
MOST_UNSENT = 32 * 1024
"""Bytes of responses that the operating system has not accepted yet. Above that, the next piece waits."""
MOST_AHEAD = 32
"""Requests that may wait on a connection for the response to an earlier one."""
_MOST_HEAD = MAX_HEADER + 4 * MAX_HEADERS + 64
"""The maximum bytes of an unfinished head, with separators. A finished head is measured exactly."""
_FRAMING = 16
"""How many bytes of framing a chunked body may have for each byte of content."""


class _Refusal(NamedTuple):
    status: int
    reason: str
    """The reason by which metrics count it."""
    text: str


_NOT_HTTP = _Refusal(400, "not HTTP", "The request is not HTTP.")
_NO_HOST = _Refusal(400, "host", "The request has no Host header, or more than one. Send exactly one.")
_TOO_MUCH = _Refusal(431, "headers", "The request line and its headers are too long.")
_TOO_LONG = _Refusal(431, "header bytes", _TOO_MUCH.text)
_UPGRADE = _Refusal(400, "upgrade", "The server speaks HTTP/1.1 only. Send the request without an Upgrade header.")
_UPGRADE_LINE = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)


class _Refused(Exception):
    """Ends the parser in the middle of a message."""


def bounded(connections: Connections) -> "type[BoundedProtocol]":
    """The protocol for uvicorn's `http`, with this table of connections."""

    class Bounded(BoundedProtocol):
        table = connections

    return Bounded


class BoundedProtocol(HttpToolsProtocol):
    table: Connections
    handshake: Handshake | None = None
    """With TLS, the entry of the connection in the table during its handshake. This protocol takes its place."""

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], **more: Any) -> None:
        super().__init__(config, server_state, app_state, **more)
        self.address = ""
        self._admitted = False
        self._client_name: str | None = None
        self._framing = 0
        self._body = 0
        self._begun = 0
        """How many messages have begun in the chunk."""
        self._chunk: bytes | None = None
        """The chunk that is being read, if it begins with a message."""
        self._is_inside = False
        """Whether a message has begun and has not ended."""
        self._is_in_head = False
        self._has_head = False
        """Whether a head has ended in the chunk."""
        self._has_enough = False
        """Whether the client has sent too many requests ahead: it is not read any more."""
        self._answering: RequestResponseCycle | None = None
        """The request that is being answered. `cycle` is the one that was received last."""
        self._trailers = 0
        self._refusal = _NOT_HTTP

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = client_group(self.client[0]) if self.client else ""
        self._client_name = _client_name(transport.get_extra_info("peercert"))
        transport.set_write_buffer_limits(high=MOST_UNSENT)
        if self.handshake is not None:
            self.handshake.over()
        self._admitted = self.table.admit(self)
        if not self._admitted:
            self._answer(503, "There are too many connections. Retry later.")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._admitted:
            self._admitted = False
            self.table.leave(self)
        super().connection_lost(exc)
        # uvicorn tells only the request that was received last.
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()

    @property
    def is_closing(self) -> bool:
        return self.transport.is_closing()

    def drop(self) -> None:
        self.transport.abort()
        if self._admitted:
            self._admitted = False
            self.table.leave(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._admitted:
            self.table.stalls(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._admitted:
            self.table.flows(self)
            if self.cycle is not None and self.cycle.response_complete and not self.transport.is_closing():
                self._has_answered()

    def data_received(self, data: bytes) -> None:
        if not self._admitted or self._has_enough:
            return
        self._begun, self._has_head = 0, False
        self._chunk = None if self._is_inside else data
        body, is_inside = self._body, self._is_inside
        super().data_received(data)
        self._chunk = None  # an idle connection must not keep it in memory
        if self.transport.is_closing() or self._has_enough:
            return
        if self._begun and self._is_in_head and self.cycle is not None and self.cycle.response_complete:
            self.table.waits(self)
        # Of a chunk that several messages share, or a head and a body, it is not known how much belongs to which.
        if self._is_in_head:
            if not self._begun or (self._begun == 1 and not is_inside):
                self._framing += len(data)
        elif not self._begun and not self._has_head:
            self._framing += len(data) - (self._body - body)
        if self._framing > _MOST_HEAD + _FRAMING * self._body:
            self._refuse(_TOO_LONG)

    def send_400_response(self, msg: str) -> None:
        if self._has_enough:
            return
        if self._refusal is _UPGRADE and self._can_read_again:
            self._refusal = _NOT_HTTP
            self._read_again()
        else:
            self._refuse(self._refusal)

    @property
    def _can_read_again(self) -> bool:
        """Whether the chunk begins with the message that is being read."""
        return self._chunk is not None and self._begun == 1

    def _read_again(self) -> None:
        """Read the chunk without the Upgrade header of its message."""
        assert self._chunk is not None
        head, end, rest = self._chunk.partition(b"\r\n\r\n")
        plain = _UPGRADE_LINE.sub(b"", head)
        if plain == head:
            self._refuse(_UPGRADE)
            return
        self._is_inside = False
        self.parser = HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        self.data_received(plain + end + rest)

    def on_message_begin(self) -> None:
        self._begun += 1
        self._is_inside = self._is_in_head = True
        self._framing = self._body = self._trailers = 0
        super().on_message_begin()
        if self._client_name is not None:
            self.scope["extensions"] = {"tls": {"client_cert_name": self._client_name}}

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:
            super().on_header(name, value)
            if len(self.headers) > MAX_HEADERS:
                self._too_much()
        else:
            self._trailers += 1
            if self._trailers > MAX_HEADERS or len(value) > MAX_HEADER:
                self._too_much()

    def on_headers_complete(self) -> None:
        # A head in one small chunk is within the limit. Larger ones are bounded by what `data_received` lets in.
        if self._chunk is None or len(self._chunk) > MAX_HEADER:
            size = sum([len(name) + len(value) for name, value in self.headers])
            if len(self.url) + size > MAX_HEADER:
                self._too_much()
        hosts = [name for name, _ in self.headers].count(b"host")
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() != "1.0"):
            self._refusal = _NO_HOST
            raise _Refused
        if self.parser.should_upgrade() and (self._can_read_again or _has_body(self.headers)):
            self._refusal = _UPGRADE
            raise _Refused
        self._is_in_head, self._has_head, self._framing = False, True, 0
        self.table.works(self)
        super().on_headers_complete()
        self.scope[AT_ONCE] = self._send_at_once  # type: ignore[literal-required]
        if not self.pipeline:
            self._answering = self.cycle

    def on_body(self, body: bytes) -> None:
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_inside = False
        self.scope[WHOLE] = True  # type: ignore[literal-required]
        if len(self.pipeline) >= MOST_AHEAD:
            self.table.refuse("requests ahead")
            self.cycle.keep_alive = False
            self._has_enough = True
            raise _Refused

    def _send_at_once(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Answer the request in one write. uvicorn takes two, and each of them wakes the client. Returns False, and
        sends nothing, if uvicorn has to answer."""
        cycle = self._answering
        if cycle is None or cycle.response_started or cycle.disconnected or cycle.flow.write_paused:
            return False
        if cycle.scope["method"] == "HEAD":
            return False
        parts = [STATUS_LINE[status]]
        for name, value in (*cycle.default_headers, *headers):
            if name == b"connection" or b"\n" in value or b"\r" in value:
                return False
            parts += (name, b": ", value, b"\r\n")
        if not cycle.keep_alive:
            parts.append(b"connection: close\r\n")
        parts += (b"\r\n", body)
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(b"".join(parts))
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        return True

    def on_response_complete(self) -> None:
        self._answering = self.pipeline[-1][0] if self.pipeline else None
        is_last = self._answering is None
        super().on_response_complete()
        if self._admitted and is_last and not self.transport.is_closing():
            self._has_answered()

    def _has_answered(self) -> None:
        """There is no request to answer."""
        if self._is_in_head:
            self.table.waits(self)
        else:
            self.table.idles(self)

    def _too_much(self) -> None:
        self._refusal = _TOO_MUCH
        raise _Refused

    def _refuse(self, refusal: "_Refusal") -> None:
        self.table.refuse(refusal.reason)
        self._answer(refusal.status, refusal.text)

    def _answer(self, status: int, text: str) -> None:
        body = b'{"title":"%s","status":%d}' % (text.encode(), status)
        head = (
            b"HTTP/1.1 %d \r\ncontent-type: application/problem+json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head % (status, len(body)) + body)
        self.transport.close()


def _has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in headers)


def _client_name(certificate: dict[str, Any] | None) -> str | None:
    """Who the client's certificate is for; None without one. The handshake has verified it."""
    if not certificate:
        return None
    return ",".join(f"{name}={value}" for parts in certificate.get("subject", ()) for name, value in parts)
