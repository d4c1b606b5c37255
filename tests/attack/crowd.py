"""Those who attack: connections that say nothing, that say one byte at a time, and that never end their headers."""

import asyncio
import contextlib
from multiprocessing.synchronize import Event
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_PIECE = b"a" * 64 * 1024
_ADDRESSES = 16
"""Source addresses, all of the loopback network: one address may not have all connections."""


class Crowd:
    """Holds connections open inside the block."""

    def __init__(self, host: str, port: int, *, slow: int, header_bytes: int, pourers: int = 32) -> None:
        self._place = host, port
        self._slow = slow
        self._header_bytes = header_bytes
        self._pourers = pourers
        self._tasks: list[asyncio.Task[None]] = []
        self.opened = 0
        self.poured = 0
        """Bytes of headers that were sent."""

    async def __aenter__(self) -> Self:
        each = self._header_bytes // self._pourers
        self._tasks = [asyncio.create_task(self._linger(number)) for number in range(self._slow)]
        self._tasks += [asyncio.create_task(self._pour(number, each)) for number in range(self._pourers)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def all_poured(self) -> None:
        await asyncio.gather(*self._tasks[self._slow :])

    async def _linger(self, number: int) -> None:
        """Every other one is silent, the others send a byte now and then; whoever is dropped comes back."""
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

    async def _connect(self, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        found = await asyncio.open_connection(*self._place, local_addr=(f"127.0.1.{1 + number % _ADDRESSES}", 0))
        self.opened += 1
        return found


def attackers(url: str, connections: int, header_bytes: int, seconds: float, begun: Event) -> None:
    """A process of its own."""
    asyncio.run(_attack(url, connections, header_bytes, seconds, begun))


async def _attack(url: str, connections: int, header_bytes: int, seconds: float, begun: Event) -> None:
    place = urlsplit(url)
    async with Crowd(place.hostname or "", place.port or 0, slow=connections, header_bytes=header_bytes) as crowd:
        await asyncio.sleep(1.0)
        begun.set()
        await asyncio.gather(crowd.all_poured(), asyncio.sleep(seconds + 2))
    print(f"attackers opened {crowd.opened:,} connections and sent {crowd.poured / 1e6:.0f} MB of headers")
