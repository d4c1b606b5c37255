"""The HTTP server inside a node. It listens from the start, and stops within seconds when it is asked to."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from uuid import UUID

import uvicorn

from duetime.api.application import make_application
from duetime.api.connections import Connections, room_for_connections
from duetime.api.http_protocol import BoundedProtocol, bounded
from duetime.api.pages import page_routes
from duetime.api.service import Service
from duetime.api.table import ENDPOINTS
from duetime.api.tls_listener import Handshake, TlsListener
from duetime.clock import monotonic
from duetime.crypto.tls import server_tls, warn_of_plain_http
from duetime.errors import InvalidInput
from duetime.settings import Settings
from duetime.telemetry.threaded_server import MOST_CONNECTIONS

_KEEP_ALIVE = 75
"""Seconds for which a connection may be idle between two requests."""
_SWEEP = 1.0
_UNSENT = 32 * 1024
"""Bytes that the system takes for a client before it has sent them."""
_LAST_WORDS = 5
"""Seconds for requests in progress when the server stops."""


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # the node handles signals


class HttpServer:
    def __init__(self, service: Service, settings: Settings) -> None:
        self._service = service
        self._tls = server_tls(settings)
        self._socket = _listen(settings.host, settings.port)
        if self._tls is None:
            warn_of_plain_http("the API", self._socket.getsockname()[0], settings)
        self._connections = connections_of(settings)
        self._connections.on_refusal = service.metrics.refused
        self._protocol = bounded(self._connections)
        config = uvicorn.Config(
            make_application(service, ENDPOINTS, page_routes()),
            loop="none",
            http=self._protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=_LAST_WORDS,
        )
        self._server = _Server(config)
        self._accepting: asyncio.Task[None] | None = None
        # It logs every start, request and malformed request. duetime counts and logs what matters.
        logging.getLogger("uvicorn").setLevel(logging.ERROR)

    @property
    def url(self) -> str:
        host, port = self._socket.getsockname()[:2]
        if host in ("0.0.0.0", "::"):
            host = "127.0.0.1"
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def login_link(self, key_id: UUID) -> str | None:
        """A link that logs a browser in once, as this key; None if the key is not usable."""
        made = await self._service.sessions.link(key_id)
        return None if made is None else f"{self.url}/login?token={made.token}"

    async def run(self) -> None:
        sweeping = asyncio.create_task(self._sweep())
        if self._tls is not None:
            listener = TlsListener(self._socket, self._tls, self._connections, self._secured)
            self._accepting = asyncio.create_task(listener.run())
            self._accepting.add_done_callback(self._accepts_no_more)
        try:
            await self._server.serve(sockets=[self._socket] if self._tls is None else [])
        finally:
            sweeping.cancel()
            if self._accepting is not None:
                self._accepting.cancel()
            self._socket.close()
            self._connections.close()
        if self._accepting is not None and not self._accepting.cancelled() and self._accepting.done():
            self._accepting.result()

    def _accepts_no_more(self, _: asyncio.Task[None]) -> None:
        """End the server when it accepts no more connections."""
        self._server.should_exit = True

    def _secured(self, handshake: Handshake) -> BoundedProtocol:
        made = self._protocol(self._server.config, self._server.server_state, {})
        made.handshake = handshake
        return made

    async def _sweep(self) -> None:
        while True:
            began = monotonic()
            await asyncio.sleep(_SWEEP)
            self._connections.sweep(blocked=max(0.0, monotonic() - began - _SWEEP))

    def stop(self) -> None:
        self._service.stopping.set()
        self._service.gateway.close()
        if self._server.should_exit:
            self._server.force_exit = True
        self._server.should_exit = True
        if self._accepting is not None:
            self._accepting.cancel()


def connections_of(settings: Settings) -> Connections:
    """The empty table of a server with these settings."""
    others = 2 * settings.pool_size + (MOST_CONNECTIONS if settings.metrics_port is not None else 0)
    return Connections(
        room_for_connections(settings.max_connections, others),
        settings.max_connections_per_address,
        header_timeout=settings.header_timeout.total_seconds(),
        idle_timeout=_KEEP_ALIVE,
        response_timeout=settings.response_timeout.total_seconds(),
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        found = socket.create_server((host, port), family=family, backlog=2048)
        # Connections inherit it. A response is written in two parts, and the second must not wait for an ACK.
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Without it, the system takes megabytes, and reports that a slow client has read something only when a third of
        # them is gone.
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT)
        return found
    except OSError as error:
        raise InvalidInput(
            f"the server cannot listen on {host}:{port}: {error.strerror or error}",
            field="port",
            remedy="set another port (DUETIME_PORT; 0 chooses a free one), or stop the process that uses it",
        ) from None
