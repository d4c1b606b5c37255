"""A TCP proxy between one process and PostgreSQL: latency, a cut, a reset, a connection that is only half there.

A cut is a cable that is pulled: nothing arrives, and neither side is told. A reset is a firewall that forgot the
connection. Half-open: the database receives what the process sends, and its answers go nowhere. Slow close: the answers
come, then the connection takes its time to close.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from enum import Enum
from urllib.parse import urlsplit

from tests.support.addresses import dsn_through

_UNTOLD = 0.5
"""Seconds until one end learns that the other one was closed."""


class Way(Enum):
    OPEN = "open"
    SLOW = "latency"
    CUT = "cut"
    HALF = "half-open"


class Proxy:
    def __init__(self, dsn: str) -> None:
        self._dsn, self._parts = dsn, urlsplit(dsn)
        self._server: asyncio.Server | None = None
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._clear = asyncio.Event()
        self._clear.set()
        self.way = Way.OPEN
        self.latency = 0.0
        self.keep_dead_lines = False
        """Whether an end that was closed is kept from the other end for ever, and not only for a moment."""
        self.dead_lines = 0
        self.held_up = 0
        """Pieces of traffic that the way has kept waiting."""

    @property
    def dsn(self) -> str:
        return dsn_through(self._dsn, self._server)

    @property
    def lines(self) -> int:
        """How many connections there are."""
        return len(self._pairs)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    def lead_to(self, dsn: str) -> None:
        """From now on to another database; who is connected to the one before is cut off."""
        self._parts = urlsplit(dsn)
        self.reset()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.set_way(Way.OPEN)
        self.reset()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def set_way(self, way: Way, latency: float = 0.0) -> None:
        self.way, self.latency = way, latency
        if way in (Way.CUT, Way.HALF):
            self._clear.clear()
        else:
            self._clear.set()

    def reset(self) -> int:
        """Abort every connection, both ends; returns how many there were."""
        pairs = tuple(self._pairs)
        for pair in pairs:
            for writer in pair:
                writer.transport.abort()
        return len(pairs)

    def close_slowly(self) -> int:
        """Say goodbye to every client, and leave the database's end open for a while; returns how many there were."""
        pairs = tuple(self._pairs)
        for client, _ in pairs:
            client.close()
        return len(pairs)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._passable(towards_database=True)
        try:
            server_reader, server_writer = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, server_writer)
        self._pairs.add(pair)
        ways = [
            asyncio.create_task(self._carry(reader, server_writer, towards_database=True)),
            asyncio.create_task(self._carry(server_reader, writer, towards_database=False)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            self.dead_lines += 1
            await asyncio.sleep(_UNTOLD)
            while self.keep_dead_lines and not all(way.done() for way in ways):
                await asyncio.sleep(_UNTOLD)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self._pairs.discard(pair)
            for each in pair:
                each.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._parts.hostname or "127.0.0.1", self._parts.port or 5432)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, towards_database: bool
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                if self.latency:
                    self.held_up += 1
                    await asyncio.sleep(self.latency)
                await self._passable(towards_database=towards_database)
                writer.write(data)
                await writer.drain()

    async def _passable(self, *, towards_database: bool) -> None:
        while self.way is Way.CUT or (self.way is Way.HALF and not towards_database):
            self.held_up += 1
            await self._clear.wait()


class NoProxy(Proxy):
    """The way to a database of several hosts, which must be seen as they are."""

    @property
    def dsn(self) -> str:
        return self._dsn

    async def start(self) -> None:
        pass


class Balancer(Proxy):
    """One address for several servers, as a load balancer has it: each connection goes to the next that takes it."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__(urls[0])
        self._places = [(parts.hostname or "", parts.port or 0) for parts in map(urlsplit, urls)]
        self._next = 0

    @property
    def url(self) -> str:
        return self.dsn.partition("?")[0]

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for _ in self._places[1:]:
            self._next += 1
            with contextlib.suppress(OSError):
                return await asyncio.open_connection(*self._places[self._next % len(self._places)])
        self._next += 1
        return await asyncio.open_connection(*self._places[self._next % len(self._places)])
