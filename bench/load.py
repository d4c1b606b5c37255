"""Load over HTTP that costs little itself: one connection, one request at a time, nothing checked that need not be."""

import asyncio
import resource
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec


class Connection:
    """A keep-alive connection to a server."""

    def __init__(self, url: str, key: str) -> None:
        self._host, _, port = url.removeprefix("http://").partition(":")
        self._port = int(port)
        self._head = f"host: {self._host}\r\nauthorization: Bearer {key}\r\ncontent-type: "
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> "Connection":
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, limit=16 * 1024**2)
        return self

    async def get(self, path: str, headers: Mapping[str, str]) -> bytes:
        return await self.ask("GET", path, b"", headers=headers)

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes,
        media: str = "application/json",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes:
        status, content = await self.exchange(method, path, body, media, headers)
        assert status < 300, f"{method} {path}: {status} {content[:300]!r}"
        return content

    async def exchange(
        self,
        method: str,
        path: str,
        body: bytes,
        media: str = "application/json",
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[int, bytes]:
        """The status and the content of the response."""
        assert self._reader is not None and self._writer is not None
        more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"{method} {path} HTTP/1.1\r\n{self._head}{media}\r\n{more}content-length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        status = int(answer[9:12])
        length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0] or 0)
        return status, await self._reader.readexactly(length)

    async def post(self, path: str, body: Any, headers: Mapping[str, str] = MappingProxyType({})) -> Any:
        return msgspec.json.decode(await self.ask("POST", path, msgspec.json.encode(body), headers=headers))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def allow_many_connections() -> None:
    """For this process, and for those that it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
