"""Receivers of targets, as processes of their own: `python -m bench.receivers http|drip|grpc`.

`http` answers at once, `drip` sends a byte a second and never ends, `grpc` answers a unary call.
"""

import asyncio
import sys
from typing import cast

import uvloop


class _Http(asyncio.Protocol):
    """Knows just enough of HTTP to answer requests whose length is told."""

    drips = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._seen = b""

    def data_received(self, data: bytes) -> None:
        self._seen += data
        while (end := self._seen.find(b"\r\n\r\n")) >= 0:
            head = self._seen[:end].lower()
            length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
            if len(self._seen) < end + 4 + length:
                return
            self._seen = self._seen[end + 4 + length :]
            self._answer()

    def _answer(self) -> None:
        if self.drips:
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
            self._drip()
        else:
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    def _drip(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(b"x")
            asyncio.get_running_loop().call_later(1, self._drip)


class _Drip(_Http):
    drips = True


async def _serve(kind: str) -> None:
    if kind == "grpc":
        from tests.support.greeter import greeting

        async with greeting() as greeter:
            print(f"http://127.0.0.1:{greeter.port}", flush=True)
            await asyncio.Event().wait()
    server = await asyncio.get_running_loop().create_server(_Drip if kind == "drip" else _Http, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1]))
