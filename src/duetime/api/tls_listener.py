"""The TLS listener. A connection is in the table of connections from its acceptance, not from the end of its handshake.

A connection that stalls in its handshake is treated like one that sends no header: it has the same deadline, counts for
its address, and can be replaced when the table is full. The event loop's own TLS server would keep it for a minute and
not count it.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable

from duetime.api.connections import Connections
from duetime.crypto.tls import ReloadedContext
from duetime.errors import reason_of
from duetime.model.network import client_group

log = logging.getLogger("duetime.api")

_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE = 0.5
"""Seconds until the next accept, when the process has no free file descriptor."""


class Handshake:
    """A connection in its handshake."""

    def __init__(self, connections: Connections, address: str) -> None:
        self.address = address
        self._connections = connections
        self._is_waiting = connections.admit(self)
        self.task: asyncio.Task[None] | None = None

    @property
    def is_closing(self) -> bool:
        return False

    @property
    def is_admitted(self) -> bool:
        return self._is_waiting

    def over(self) -> None:
        """Leave the table: the connection itself enters it, or is gone."""
        if self._is_waiting:
            self._is_waiting = False
            self._connections.leave(self)

    def drop(self) -> None:
        self.over()
        if self.task is not None:
            self.task.cancel()


class TlsListener:
    def __init__(
        self,
        listening: socket.socket,
        context: ReloadedContext,
        connections: Connections,
        make_protocol: Callable[[Handshake], asyncio.Protocol],
    ) -> None:
        """`make_protocol` makes the HTTP protocol, which calls `over` once it has its transport."""
        self._listening = listening
        self._context = context
        self._connections = connections
        self._make_protocol = make_protocol
        self._shaking: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Accept connections until this is cancelled."""
        loop = asyncio.get_running_loop()
        self._listening.setblocking(False)
        while True:
            try:
                connection, address = await loop.sock_accept(self._listening)
            except OSError as error:
                if self._listening.fileno() < 0:
                    raise
                if error.errno in _NO_ROOM:
                    self._connections.refuse("no file descriptors")
                await asyncio.sleep(_PAUSE if error.errno in _NO_ROOM else 0.0)
                continue
            handshake = Handshake(self._connections, client_group(str(address[0])))
            if not handshake.is_admitted:
                connection.close()  # no response is possible before the handshake
                continue
            handshake.task = task = loop.create_task(self._shake_hands(connection, handshake))
            self._shaking.add(task)
            task.add_done_callback(self._shaking.discard)

    async def _shake_hands(self, connection: socket.socket, handshake: Handshake) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._make_protocol(handshake),
                connection,
                ssl=self._context.current,
                ssl_handshake_timeout=self._connections.header_timeout,
                ssl_shutdown_timeout=self._connections.response_timeout,
            )
        except OSError as error:  # `ssl.SSLError`, and other ends of a connection
            log.debug("a TLS handshake with %s failed: %s", handshake.address, reason_of(error))
            if isinstance(error, ssl.SSLError):
                self._connections.refuse("TLS handshake")
        finally:
            handshake.task = None
            handshake.over()
