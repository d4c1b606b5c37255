"""A small transaction pooler in front of PostgreSQL, as unkind as one can be.

Clients share few connections to the server. A client has one from its first message to the end of its transaction, and
the next transaction gets the one that was used least recently: whatever a session was left with, another one meets.
Prepared statements are not followed.
"""

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from duetime import App, RunState
from tests.support.addresses import dsn_through
from tests.support.working import ended, quick_settings, working

_SSL_REQUEST, _PROTOCOL = 80877103, 196608


class _Link(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Pooler:
    def __init__(self, dsn: str, size: int) -> None:
        self._dsn, self._parts = dsn, urlsplit(dsn)
        self._size = size
        self._free: deque[_Link] = deque()
        self._turn = asyncio.Semaphore(size)
        self._greeting = b""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.transactions = 0

    @property
    def dsn(self) -> str:
        return dsn_through(self._dsn, self._server)

    async def start(self) -> None:
        for _ in range(self._size):
            self._free.append(await self._connect())
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for link in self._free:
            link.writer.close()

    async def _connect(self) -> _Link:
        reader, writer = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        names = f"user\0{self._parts.username or 'postgres'}\0database\0{self._parts.path[1:]}\0\0".encode()
        writer.write(struct.pack("!ii", len(names) + 8, _PROTOCOL) + names)
        greeting = b""
        while True:
            message = await _message(reader)
            if message[:1] == b"S":
                greeting += message
            elif message[:1] == b"Z":
                break
        # What every client is told: it may come in (R), how the server is set (S), a key that fits nothing (K).
        self._greeting = b"R" + struct.pack("!ii", 8, 0) + greeting + b"K" + struct.pack("!iii", 12, 0, 0) + message
        return _Link(reader, writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._greet(reader, writer)
            while (first := await _message(reader))[:1] != b"X":
                async with self._turn:
                    await self._transaction(_Link(reader, writer), first)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            length, code = struct.unpack("!ii", await reader.readexactly(8))
            await reader.readexactly(length - 8)
            if code == _PROTOCOL:
                break
            writer.write(b"N" if code == _SSL_REQUEST else b"")
        writer.write(self._greeting)

    async def _transaction(self, client: _Link, first: bytes) -> None:
        server = self._free.popleft()
        self.transactions += 1
        server.writer.write(first)
        asking = asyncio.create_task(_forward(client.reader, server.writer))
        try:
            while True:
                message = await _message(server.reader)
                client.writer.write(message)
                if message[:1] == b"Z" and message[-1:] == b"I":
                    return
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            self._free.append(server)


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            writer.write(await _message(reader))


@asynccontextmanager
async def pooler_to(dsn: str, *, size: int = 3) -> AsyncIterator[Pooler]:
    pooler = Pooler(dsn, size)
    await pooler.start()
    try:
        yield pooler
    finally:
        await pooler.close()


async def work_through(dsn: str) -> None:
    """Submit, schedule, cancel and execute through a pooler, without prepared statements."""
    async with App(settings=msgspec.structs.replace(quick_settings(dsn), prepared_statements="off")) as app:

        @app.task
        async def double(number: int) -> int:
            return 2 * number

        @app.task
        async def never() -> None:
            await asyncio.Event().wait()

        async with working(app):
            receipts = await app.submit_many([double.bind(number=number) for number in range(50)])
            runs = [await ended(app, receipt) for receipt in receipts]
            assert [run.value for run in runs] == [2 * number for number in range(50)]
            await app.schedule(double.bind(number=1), every="1h", key="hourly")
            assert not (await app.schedule(double.bind(number=1), every="1h", key="hourly")).created
            stopped = await never.submit()
            await app.cancel(stopped)
            assert (await ended(app, stopped)).state is RunState.CANCELLED
