"""A small HTTP server with a thread for each connection, and a bound on both.

It is for pages that must be there while the event loop is blocked. Clients need no key to connect, so a connection has
a time in which its header must be complete, and one in which its response must be taken. When all threads are taken, a
new connection replaces the oldest one that has not sent its header, otherwise the oldest one: silent clients cannot
keep a probe from its answer. A connection serves one request.
"""

import logging
import socket
import sys
import threading
from contextlib import suppress
from io import BytesIO
from socketserver import ThreadingMixIn
from time import sleep
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, cast
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from duetime.clock import monotonic
from duetime.telemetry.refusals import Refusals

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

log = logging.getLogger("duetime.telemetry")

MOST_CONNECTIONS = 16
_MAX_HEADER = 32 * 1024
"""Bytes of a request line and its headers."""
_ROOM = 1.0
"""Seconds until a connection that makes room has ended. Its thread may be computing."""
_PAUSE = 0.1
"""Seconds until the next accept, when the process has no free file descriptor."""


class ThreadedServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, *, header_timeout: float, response_timeout: float) -> None:
        """Raises `OSError` if it cannot listen there."""
        (family, *_, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = family
        self.header_timeout = header_timeout
        self.response_timeout = response_timeout
        self._refusals = Refusals(log, "connections to the metrics port")
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        self._unheard: dict[socket.socket, None] = {}
        """Those whose header is not complete, the oldest first."""
        self._heard: dict[socket.socket, None] = {}
        super().__init__((str(address[0]), port), _Handler)

    def __len__(self) -> int:
        return len(self._open)

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            return super().get_request()
        except OSError:
            sleep(_PAUSE)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._has_room():
            self._open.add(request)
            self._unheard[request] = None
            super().process_request(request, client_address)
        else:
            self.refuse("no free thread")
            self.shutdown_request(request)

    def heard(self, request: socket.socket) -> None:
        """Its header is complete."""
        with self._changed:
            if request in self._unheard:
                del self._unheard[request]
                self._heard[request] = None

    def close_request(self, request: Any) -> None:
        super().close_request(request)
        with self._changed:
            self._open.discard(request)
            self._unheard.pop(request, None)
            self._heard.pop(request, None)
            self._changed.notify_all()

    def refuse(self, reason: str) -> None:
        self._refusals.note(reason, len(self._open))

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # the client has gone
            log.exception("a request to the metrics port failed")

    def _has_room(self) -> bool:
        """Whether there is room for a connection. If there was none, one is ended."""
        with self._changed:
            if len(self._open) < MOST_CONNECTIONS:
                return True
            for candidates in (self._unheard, self._heard):
                if candidates:
                    oldest = next(iter(candidates))
                    del candidates[oldest]
                    with suppress(OSError):  # it has just ended
                        oldest.shutdown(socket.SHUT_RDWR)  # its thread stops waiting, and closes it
                    self.refuse("made room for a new connection")
                    break
            return self._changed.wait_for(lambda: len(self._open) < MOST_CONNECTIONS, _ROOM)


class _Handler(WSGIRequestHandler):
    server: ThreadedServer

    def handle(self) -> None:
        head = self._head()
        if head is None:
            return
        self.server.heard(self.connection)
        self.connection.settimeout(self.server.response_timeout)  # of everything that is sent at once
        received = BytesIO(head)
        self.rfile = received
        self.raw_requestline = received.readline()
        if not self.parse_request():
            return
        responder = _Responder(
            received, cast("IO[bytes]", self.wfile), self.get_stderr(), self.get_environ(), multithread=True
        )
        responder.request_handler = self
        responder.run(cast("WSGIApplication", self.server.get_app()))

    def _head(self) -> bytes | None:
        """The request line and the headers; None if they are not complete in time, or too long."""
        until = monotonic() + self.server.header_timeout
        found = b""
        try:
            while b"\r\n\r\n" not in found and b"\n\n" not in found:
                self.connection.settimeout(max(0.001, until - monotonic()))
                more = self.connection.recv(4096)
                if not more:
                    return None
                found += more
                if len(found) > _MAX_HEADER:
                    self.server.refuse("header bytes")
                    return None
                if monotonic() >= until:
                    raise TimeoutError
        except TimeoutError:
            self.server.refuse("no whole header in time")
            return None
        except OSError:
            return None
        return found

    def log_message(self, format: str, *args: object) -> None:
        """Scrapes and probes are not logged."""


class _Responder(ServerHandler):
    request_handler: _Handler

    def log_exception(
        self, exc_info: tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]
    ) -> None:
        if isinstance(exc_info[1], TimeoutError):
            self.request_handler.server.refuse("response not taken in time")
        else:
            log.error("a request to the metrics port failed", exc_info=exc_info)
