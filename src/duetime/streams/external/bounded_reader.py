"""A reader that does not read more than it is allowed to: a server must not fill our memory."""

import asyncio
from typing import Any


class BoundedReader:
    """In place of the reader of a connection. `renew` allows the full size again, for the next answer."""

    def __init__(self, reader: asyncio.StreamReader, size: int) -> None:
        self._reader = reader
        self._size = self._left = size

    def renew(self) -> None:
        self._left = self._size

    async def read(self, most: int = -1) -> bytes:
        return self._count(await self._reader.read(most))

    async def readline(self) -> bytes:
        return self._count(await self._reader.readline())

    async def readexactly(self, size: int) -> bytes:
        if size > self._left:
            raise ConnectionError("the answer is too large")
        return self._count(await self._reader.readexactly(size))

    def _count(self, part: bytes) -> bytes:
        self._left -= len(part)
        if self._left < 0:
            raise ConnectionError("the answer is too large")
        return part

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)
