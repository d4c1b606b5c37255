"""Watching events: over connections that break, or die without a word."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from duetime import AsyncClient
from duetime.client.event_stream import Change
from duetime.ids import new_id
from duetime.model.event import EventKind
from duetime.model.job import DEFAULT_TENANT
from tests.support.served import Served
from tests.support.waiting import eventually

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
BEGIN = b"retry: 1000\nid: 71\n: listening\n\n"
EVENT = b'id: 72\nevent: submitted\ndata: {"kind":"SUBMITTED","at":"2026-11-16T08:00:00Z","job_ids":["job_1"]}\n\n'

Connection = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Speaks as it is told on each connection in turn, the last way for all that follow."""

    def __init__(self, *ways: Connection) -> None:
        self.url = ""
        self.asked: list[bytes] = []
        """The requests, as they came."""
        self._ways = list(ways)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.asked.append((await reader.readuntil(b"\r\n\r\n")).lower())
            await (self._ways.pop(0) if len(self._ways) > 1 else self._ways[0])(writer)
        finally:
            writer.close()


@asynccontextmanager
async def speaking(*ways: Connection) -> AsyncIterator[Server]:
    server = Server(*ways)
    async with await asyncio.start_server(server.serve, "127.0.0.1", 0) as listening:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield server


async def say(writer: asyncio.StreamWriter, *parts: bytes) -> None:
    writer.write(HEAD + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts))
    await writer.drain()


async def breaks(writer: asyncio.StreamWriter) -> None:
    await say(writer, BEGIN)


async def dies(writer: asyncio.StreamWriter) -> None:
    await say(writer, BEGIN)
    await asyncio.sleep(60)


async def tells(writer: asyncio.StreamWriter) -> None:
    await say(writer, BEGIN, EVENT)
    await asyncio.sleep(60)


async def first(url: str, *, timeout: float = 45.0) -> Change:
    async with AsyncClient(url, "key") as client:
        return await asyncio.wait_for(anext(client.watch_events(timeout=timeout)), 60)


async def test_a_server_that_falls_silent_is_left() -> None:
    async with speaking(dies, tells) as server:
        assert (await first(server.url, timeout=0.3)).job_ids == ("job_1",)
    assert len(server.asked) == 2


async def test_streams_that_break_while_nothing_happens_are_no_failure() -> None:
    async with speaking(*[breaks] * 13, tells) as server:
        assert (await first(server.url)).id == "72"
    assert len(server.asked) == 14
    assert b"last-event-id" not in server.asked[0]
    assert all(b"last-event-id: 71\r\n" in asked for asked in server.asked[1:])


class Wire:
    """Between a client and a server: it can be cut."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rpartition(":")[2])
        self._ends: set[asyncio.StreamWriter] = set()
        self.url = ""
        self.whole = True
        self.seen = b""

    def cut(self) -> None:
        self.whole = False
        for end in self._ends:
            end.close()

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.whole:
            writer.close()
            return
        answers, requests = await asyncio.open_connection("127.0.0.1", self._port)
        self._ends |= {writer, requests}
        await asyncio.gather(self._carry(reader, requests), self._carry(answers, writer), return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
            self.seen += data
        writer.close()


@asynccontextmanager
async def wire_to(url: str) -> AsyncIterator[Wire]:
    wire = Wire(url)
    async with await asyncio.start_server(wire.connect, "127.0.0.1", 0) as listening:
        wire.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        try:
            yield wire
        finally:
            wire.cut()


async def test_what_happens_while_the_first_connection_is_broken_is_not_missed(served: Served) -> None:
    key = await served.key()
    async with wire_to(served.url) as wire, AsyncClient(wire.url, key) as client:
        watching = asyncio.ensure_future(anext(client.watch_events()))
        await eventually(lambda: b": listening" in wire.seen)
        wire.cut()
        made = (await served.post("/v1/jobs", {"task": "t"})).json["job_id"]
        wire.whole = True
        change = await asyncio.wait_for(watching, 20)
        assert (change.kind, change.job_ids) == ("SUBMITTED", (made,))


async def test_one_event_may_tell_of_a_large_batch(served: Served) -> None:
    async with AsyncClient(served.url, await served.key()) as client:
        watching = asyncio.ensure_future(anext(client.watch_events()))
        await eventually(lambda: served.service.events.read_until is not None)
        ids = [new_id() for _ in range(40_000)]
        await served.store.events.append_events(EventKind.SUBMITTED, DEFAULT_TENANT, ids)
        assert len((await asyncio.wait_for(watching, 20)).job_ids) == len(ids)
