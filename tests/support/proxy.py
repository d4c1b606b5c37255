"""A TCP proxy in front of PostgreSQL: a network that can fail.

It can lose the answer to one statement. It reads just enough of the protocol to know which prepared statement a message
executes. The statement is carried out and committed by the server; its answer never arrives: the connection is cut
instead, or stays silent for ever. And it can freeze: connections stay open, and nothing gets through.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.support.addresses import dsn_through

_SSL_REQUEST = 80877103


class Proxy:
    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._dsn = dsn
        self._server: asyncio.Server | None = None
        self._lose: str | None = None
        self._silently = False
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.lost = 0

    @property
    def dsn(self) -> str:
        return dsn_through(self._dsn, self._server)

    def lose_answer_to(self, text: str, *, silently: bool = False) -> None:
        """The next execution of a statement that contains `text` takes effect, and its answer is lost: the connection
        is cut, or (`silently`) stays open without a word."""
        self._lose, self._silently = text, silently

    def freeze(self) -> None:
        """From now on nothing gets through, in either direction, and neither side is told."""
        self._flowing.clear()

    @property
    def flowing(self) -> bool:
        return self._flowing.is_set()

    def thaw(self) -> None:
        self._flowing.set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        server_reader, server_writer = await asyncio.open_connection(*self._target)
        cut = asyncio.Event()
        answers = asyncio.create_task(self._answers(server_reader, writer, cut))
        try:
            await self._requests(reader, server_writer, cut)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            answers.cancel()
            await asyncio.gather(answers, return_exceptions=True)
            for each in (writer, server_writer):
                each.close()
            self._tasks.discard(task)

    async def _requests(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, cut: asyncio.Event) -> None:
        while True:
            head = await reader.readexactly(8)
            server.write(head + await reader.readexactly(int.from_bytes(head[:4], "big") - 8))
            if int.from_bytes(head[4:], "big") != _SSL_REQUEST:
                break
        statements: dict[bytes, str] = {}
        while True:
            head = await reader.readexactly(5)
            body = await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
            await self._flowing.wait()
            if head[:1] == b"P":
                name, query, _ = body.split(b"\0", 2)
                statements[name] = query.decode()
            elif head[:1] == b"B" and self._lose is not None:
                _, name, _ = body.split(b"\0", 2)
                if self._lose in statements.get(name, ""):
                    self._lose = None
                    self.lost += 1
                    cut.set()
            server.write(head + body)

    async def _answers(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter, cut: asyncio.Event) -> None:
        while data := await server.read(65536):
            await self._flowing.wait()
            if cut.is_set():
                # The server has answered, so the statement took effect; the client will not hear of it.
                if not self._silently:
                    writer.transport.abort()
                return
            writer.write(data)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        writer.close()


@asynccontextmanager
async def proxy_to(dsn: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(dsn)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.close()
