"""Clients that do not read what they asked for, or read it slowly."""

import asyncio
import contextlib
import gc
import logging
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from time import sleep
from urllib.parse import urlsplit

import pytest
import uvloop

from duetime.api.connections import Connections
from duetime.api.http_protocol import MOST_AHEAD, MOST_UNSENT, BoundedProtocol
from duetime.api.pages import stylesheet
from duetime.api.routes.reference import document
from duetime.api.sending import PIECE
from duetime.dashboard.files import SCRIPT
from tests.support.certificates import Authority
from tests.support.served import Served, served
from tests.support.waiting import eventually

SOON = timedelta(seconds=1)
CLOSE = "Connection: close\r\n"
LARGE = "/openapi.json"
"""A document without a key, of about a megabyte."""


class Reader:
    """A connection that reads what the test reads, and nothing else."""

    def __init__(self, made: socket.socket) -> None:
        self._socket = made

    async def ask(self, path: str, *lines: str, times: int = 1) -> None:
        head = "".join(f"{line}\r\n" for line in ("Host: x", *lines))
        data = f"GET {path} HTTP/1.1\r\n{head}\r\n".encode() * times
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def read(self, most: int = 64 * 1024) -> bytes:
        async with asyncio.timeout(20.0):
            return await asyncio.get_running_loop().sock_recv(self._socket, most)

    async def read_until(self, end: bytes) -> bytes:
        found = b""
        while end not in found and (more := await self.read()):
            found += more
        return found

    def close(self) -> None:
        self._socket.close()


Connect = Callable[..., Awaitable[Reader]]


@pytest.fixture
async def reader() -> AsyncIterator[Connect]:
    opened: list[Reader] = []

    async def connect(to: Served, source: str = "127.0.0.1", buffered: int = 4096) -> Reader:
        place = urlsplit(to.url)
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffered)
        made.setblocking(False)
        made.bind((source, 0))
        opened.append(Reader(made))
        await asyncio.get_running_loop().sock_connect(made, (place.hostname, place.port))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


async def dropped(api: Served) -> int:
    """How many connections were dropped because their clients did not read."""
    page = (await api.get("/metrics")).body
    found = re.search(rb'http_refused_total\{reason="response not taken in time"\} (\d+)', page)
    return int(found[1]) if found else 0


def buffered() -> list[int]:
    """The bytes in memory of every connection that is open."""
    protocols = [each for each in gc.get_objects() if isinstance(each, BoundedProtocol)]
    return [each.transport.get_write_buffer_size() for each in protocols if each in each.connections]


async def test_who_does_not_read_is_dropped(
    database_url: str, reader: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    """A large document, a file of the dashboard, with and without pipelining, and with the connection's last answer."""
    script = stylesheet().rpartition("/")[0] + f"/{SCRIPT}"
    asked = [(LARGE, 1, ""), (LARGE, 20, ""), (script, 1, ""), (script, 20, ""), (LARGE, 1, "Connection: close")]
    with caplog.at_level(logging.WARNING):
        async with served(database_url, response_timeout=SOON) as api:
            await api.get(LARGE, key=None)
            for path, times, line in asked:
                await (await reader(api)).ask(path, *([line] if line else []), times=times)
            fast = await reader(api)
            await fast.ask(LARGE, "Connection: close")

            async def all_dropped() -> bool:
                return await dropped(api) == len(asked)

            assert b"200" in await fast.read(64)
            while await fast.read():
                pass
            await eventually(all_dropped)
            assert len(buffered()) == 1  # this client's own
    told = [record.getMessage() for record in caplog.records]
    assert any("response not taken in time: " in line for line in told)
    assert not any("socket.send() raised" in line for line in told)


async def test_small_answers_that_nobody_reads_are_no_refuge(database_url: str, reader: Connect) -> None:
    async with served(database_url, response_timeout=SOON) as api:
        mute = await reader(api)
        with pytest.raises(ConnectionError):
            async with asyncio.timeout(30.0):
                while True:
                    await mute.ask("/docs", times=2)
                    await asyncio.sleep(0.02)
        assert await dropped(api) == 1


async def test_an_event_stream_that_nobody_reads_ends(database_url: str, reader: Connect) -> None:
    async with served(database_url, response_timeout=SOON) as api:
        mute = await reader(api)
        await mute.ask("/v1/events", f"Authorization: Bearer {api.root}")
        await mute.read(64)
        for _ in range(7):
            made = await api.post("/v1/jobs/batch", [{"task": "t" * 200} for _ in range(500)])
            assert made.status < 300, made.body

        async def is_dropped() -> bool:
            return await dropped(api) == 1

        await eventually(is_dropped)


async def test_who_does_not_read_makes_room_for_others(database_url: str, reader: Connect) -> None:
    """Before their time is over. Other clients are not refused."""
    async with served(database_url, max_connections=20, max_connections_per_address=15) as api:
        mute = []
        for number in range(40):
            mute.append(await reader(api, f"127.0.0.{2 + number % 4}"))
            with contextlib.suppress(ConnectionError):  # it has made room
                await mute[-1].ask(LARGE, times=20)
                await mute[-1].read(64)
        for _ in range(5):
            assert (await api.get("/livez", key=None, headers={"Connection": "close"})).status == 200
        assert b"made room for a new connection" in (await api.get("/metrics")).body
        for each in mute:
            each.close()


async def test_little_is_in_memory_for_each_connection(database_url: str, reader: Connect) -> None:
    async with served(database_url) as api:
        await api.get(LARGE, key=None)
        mute = [await reader(api) for _ in range(10)]
        for each in mute:
            await each.ask(LARGE, times=20)
        await eventually(lambda: sum(size > MOST_UNSENT for size in buffered()) == 10)
        assert max(buffered()) <= MOST_UNSENT + PIECE + 1024
        for each in mute:
            each.close()


async def test_a_slow_reader_gets_everything(database_url: str, reader: Connect) -> None:
    """It takes several times as long as a client may let the server wait, and is never that late."""
    async with served(database_url, response_timeout=SOON) as api:
        whole = await api.get(LARGE, key=None)
        slow = await reader(api, buffered=16 * 1024)
        await slow.ask(LARGE, "Connection: close")
        found = b""
        while more := await slow.read(10_000):
            found += more
            await asyncio.sleep(0.04)
        assert found.endswith(b"\r\n\r\n" + whole.body)
        assert await dropped(api) == 0


async def test_what_the_server_waits_for_takes_as_long_as_it_takes(database_url: str, reader: Connect) -> None:
    """An event stream without events: the client has taken all that there is."""
    async with served(database_url, response_timeout=timedelta(milliseconds=200)) as api:
        listener = await reader(api)
        await listener.ask("/v1/events", f"Authorization: Bearer {api.root}")
        await listener.read_until(b"retry: ")
        await asyncio.sleep(3.0)
        assert (await api.post("/v1/jobs", {"task": "t"})).status == 201
        assert b"event: " in await listener.read_until(b"event: ")
        assert await dropped(api) == 0


async def test_requests_ahead_are_answered_up_to_a_number(api: Served, reader: Connect) -> None:
    eager = await reader(api)
    await eager.ask("/livez", times=MOST_AHEAD)
    found = b""
    while found.count(b'{"status":"ok"}') < MOST_AHEAD:
        found += await eager.read()
    await eager.ask("/livez", times=3 * MOST_AHEAD)
    while more := await eager.read():
        found += more
    assert found.count(b"HTTP/1.1 200 ") == found.count(b'{"status":"ok"}') == 2 * MOST_AHEAD + 1
    assert found.count(b"connection: close") == 1


async def test_a_stream_with_a_request_behind_it_ends_with_its_client(api: Served, reader: Connect) -> None:
    """One tenant may have so many streams: this one would count for ever."""
    listener = await reader(api)
    await listener.ask("/v1/events", f"Authorization: Bearer {api.root}", times=2)
    await listener.read_until(b"retry: ")
    protocol = next(each for each in gc.get_objects() if isinstance(each, BoundedProtocol) and each.pipeline)
    running = set(protocol.tasks)
    listener.close()
    await eventually(lambda: not running & protocol.tasks)


async def test_ipv6_clients_are_counted_by_network(database_url: str) -> None:
    async with served(database_url, host="::1") as api:
        await api.get("/livez", key=None)
        assert {each.address for each in gc.get_objects() if isinstance(each, BoundedProtocol)} >= {"::/64"}


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@pytest.mark.parametrize("is_secure", [False, True], ids=["plain", "TLS"])
def test_other_transports(tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop], *, is_secure: bool) -> None:
    """Clients that do not read are dropped, and slow ones served, whatever reports that they do not."""
    authority = Authority(tmp_path)
    cert, key = authority.server() if is_secure else (None, None)
    context = ssl.create_default_context(cafile=str(authority.ca))

    def ask(api: Served, times: int, line: str = "") -> socket.socket:
        place = urlsplit(api.url)
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        made.settimeout(20)
        made.connect((place.hostname, place.port))
        if is_secure:
            made = context.wrap_socket(made, server_hostname=place.hostname)
        made.sendall(f"GET {LARGE} HTTP/1.1\r\nHost: x\r\n{line}\r\n".encode() * times)
        return made

    def read(slow: socket.socket) -> bytes:
        found = b""
        while more := slow.recv(8192):
            found += more
            sleep(0.03)
        return found

    async def attempt() -> None:
        database_url = f"sqlite:///{tmp_path / 'duetime.db'}"
        async with served(database_url, response_timeout=SOON, tls_cert=cert, tls_key=key) as api:
            refused: list[str] = []
            for table in (each for each in gc.get_objects() if isinstance(each, Connections)):
                table.on_refusal = refused.append
            mute = [await asyncio.to_thread(ask, api, *how) for how in ((20,), (1,), (1, CLOSE))]
            slow = await asyncio.to_thread(ask, api, 1, CLOSE)
            assert (await asyncio.to_thread(read, slow)).endswith(b"\r\n\r\n" + document())
            await eventually(lambda: refused.count("response not taken in time") == len(mute))
            for each in (*mute, slow):
                each.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(attempt())
