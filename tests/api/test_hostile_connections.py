"""Connections that send nothing, little, or far too much: they are refused, and other clients do not notice."""

import asyncio
import contextlib
import gc
import re
from collections.abc import AsyncIterator
from datetime import timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest

from duetime.api.connections import Connections, room_for_connections
from duetime.api.http_protocol import MAX_HEADER, MAX_HEADERS, BoundedProtocol
from duetime.api.http_server import connections_of
from duetime.clock import monotonic_from
from duetime.model.network import client_group
from duetime.settings import Settings
from duetime.telemetry.threaded_server import MOST_CONNECTIONS
from tests.support.served import Served, served


class Silent:
    """A connection that sends what it is told to, and no more."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def pour(self, data: bytes) -> None:
        """Send it piece by piece, for as long as the server takes it."""
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(data), 8192):
                await self.send(data[start : start + 8192])
                await asyncio.sleep(0.001)

    async def hears(self) -> bytes:
        """The next answer."""
        async with asyncio.timeout(20.0):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            return head + await self.reader.readexactly(int(length[1]) if length else 0)

    async def told(self) -> bytes:
        """What the server says until it closes the connection."""
        async with asyncio.timeout(20.0):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""


@pytest.fixture
async def silent() -> AsyncIterator[Any]:
    opened: list[Silent] = []

    async def connect(to: Served, source: str = "127.0.0.1") -> Silent:
        place = urlsplit(to.url)
        reader, writer = await asyncio.open_connection(place.hostname, place.port, local_addr=(source, 0))
        opened.append(Silent(reader, writer))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.writer.transport.abort()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def statuses(answers: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1.1 (\d{3}) ", answers)]


async def test_a_header_has_a_length(api: Served, silent: Any) -> None:
    endless = await silent(api)
    await endless.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ")
    await endless.pour(b"a" * 4 * MAX_HEADER)
    assert b" 200 " not in await endless.told()  # it is cut off, and may not live to read why
    for head in (b"X: " + b"a" * MAX_HEADER, b"\r\n".join(b"x%d: 1" % n for n in range(MAX_HEADERS + 1))):
        long = await silent(api)
        await long.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + head + b"\r\n\r\n")
        assert status(await long.told()) == 431
    line = await silent(api)
    await line.send(b"GET /" + b"a" * 2 * MAX_HEADER + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert status(await line.told()) == 431
    assert (await api.get("/livez", key=None)).status == 200
    assert b'duetime_http_refused_total{reason="headers"}' in (await api.get("/metrics")).body


async def test_a_head_counts_only_its_own_bytes(api: Served, silent: Any) -> None:
    """Neither the body of the request before it nor what separates its parts is held against it, however the system
    cuts the bytes into chunks."""
    body = b'{"task": "t", "args": {"x": "%s"}}' % (b"a" * 3 * MAX_HEADER)
    key = b"Authorization: Bearer " + api.root.encode() + b"\r\nContent-Type: application/json\r\n"
    lines = b"".join(b"x%d: %s\r\n" % (n, b"a" * (MAX_HEADER // 90 - 5)) for n in range(90))
    assert len(lines) > MAX_HEADER - 400
    for head in (b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /livez HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n"):
        for cuts in ((10,), (10, 30), (len(head) - 2,), (len(head) // 2, len(head) - 2)):
            kept = await silent(api)
            await kept.send(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n" + key + b"Content-Length: %d\r\n\r\n" % len(body))
            await kept.send(body)
            assert b"job_id" in await kept.hears()
            for start, end in pairwise((0, *cuts, len(head))):
                await kept.send(head[start:end])
                await asyncio.sleep(0.02)
            assert status(await kept.hears()) == 200, (len(head), cuts)


async def test_a_trailer_has_a_length(api: Served, silent: Any) -> None:
    head = b"POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
    connection = await silent(api)
    await connection.send(head + b"X: " + b"a" * 2 * MAX_HEADER + b"\r\n\r\n")
    assert status(await connection.told()) == 431


@pytest.mark.parametrize("head", [b"", b"Host: a\r\nHost: a\r\n", b"Host: a\r\nX: 1\r\nhost: b\r\n"])
async def test_a_request_names_its_host_once(api: Served, silent: Any, head: bytes) -> None:
    connection = await silent(api)
    await connection.send(b"GET /livez HTTP/1.1\r\n" + head + b"\r\n")
    answer = await connection.told()
    assert status(answer) == 400 and b"Send exactly one" in answer
    assert b'duetime_http_refused_total{reason="host"}' in (await api.get("/metrics")).body


async def test_old_http_needs_no_host(api: Served, silent: Any) -> None:
    for head, expected in ((b"", 200), (b"Host: a\r\n", 200), (b"Host: a\r\nHost: b\r\n", 400)):
        connection = await silent(api)
        await connection.send(b"GET /livez HTTP/1.0\r\n" + head + b"\r\n")
        assert status(await connection.told()) == expected


BODY = b'{"task": "t"}'
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
"""As Java's client sends it with each request over plain HTTP."""


def submission(api: Served, more: bytes = b"", body: bytes = BODY) -> tuple[bytes, bytes]:
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + api.root.encode() + b"\r\n" + more
    return head + b"Content-Length: %d\r\n\r\n" % len(body), body


async def test_an_upgrade_is_ignored(api: Served, silent: Any) -> None:
    """With its body in the same packet or in another one, and with another request behind it."""
    following = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    for is_together in (True, False):
        connection = await silent(api)
        head, body = submission(api, UPGRADE)
        for part in (head + body + following,) if is_together else (head, body, following):
            await connection.send(part)
            await asyncio.sleep(0.1)
        assert statuses(await connection.told()) == [201, 200]
    plain = await silent(api)
    await plain.send(b"GET /livez HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade, close\r\n\r\n")
    assert status(await plain.told()) == 200


@pytest.mark.parametrize("split", [10, 60])
async def test_the_body_of_an_upgrade_is_never_read_as_a_request(api: Served, silent: Any, split: int) -> None:
    """Also where the head comes in pieces."""
    head, body = submission(api, UPGRADE, b"GET /livez HTTP/1.1\r\nHost: inner\r\n\r\n")
    connection = await silent(api)
    for part in (head[:split], head[split:], body):
        with contextlib.suppress(ConnectionError):
            await connection.send(part)
        await asyncio.sleep(0.1)
    answer = await connection.told()
    assert statuses(answer) == [400] and b"without an Upgrade" in answer


async def test_an_idle_connection_keeps_nothing_of_what_it_sent(api: Served, silent: Any) -> None:
    for more in (b"", UPGRADE):
        connection = await silent(api)
        head, body = submission(api, more, b'{"task": "t", "args": {"marker": "%s"}}' % (b"idle" * 5_000))
        await connection.send(head + body)
        assert b"201" in await connection.reader.readline()
    kept = [each for each in gc.get_objects() if isinstance(each, BoundedProtocol)]
    assert kept and all(each._chunk is None for each in kept)


async def test_trailers_are_not_headers(api: Served, silent: Any) -> None:
    chunked = b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(BODY), BODY)
    key = b"Authorization: Bearer " + api.root.encode() + b"\r\n"
    for head, trailers, expected in ((b"", key, 401), (key, b"Authorization: Bearer dt_live_x\r\nHost: y\r\n", 201)):
        connection = await silent(api)
        await connection.send(b"POST /v1/jobs HTTP/1.1\r\nHost: x\r\n" + head + chunked + trailers + b"\r\n")
        assert status(await connection.told()) == expected


async def test_framing_and_trailers_of_a_body_have_a_length(api: Served, silent: Any) -> None:
    head = b"POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for rest in (b"1;" + b"a" * 20 * MAX_HEADER, b"0\r\n" + b"".join(b"t%d: 1\r\n" % n for n in range(5_000))):
        connection = await silent(api)
        await connection.send(head)
        await connection.pour(rest)
        await connection.told()  # it comes to an end


async def test_a_large_body_in_small_chunks_is_no_offence(api: Served) -> None:
    async def parts() -> Any:
        yield b'{"task": "t", "args": {"x": "'
        for _ in range(2_000):
            yield b"abcdefgh"
        yield b'"}}'

    headers = {"Authorization": f"Bearer {api.root}", "Content-Type": "application/json"}
    async with api.http.post(api.url + "/v1/jobs", data=parts(), headers=headers) as answer:
        assert answer.status == 201


async def test_the_header_must_come_in_time(database_url: str, silent: Any) -> None:
    async with served(database_url, header_timeout=timedelta(seconds=1)) as api:
        mute, slow = await silent(api), await silent(api)
        await slow.send(b"GET /healthz HTTP/1.1\r\nHos")
        behind = await silent(api)
        await behind.send(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTTP/1.1\r\nHos")
        assert await mute.told() == b""
        assert await slow.told() == b""
        assert statuses(await behind.told()) == [200]
        assert (await api.get("/livez", key=None)).status == 200


async def test_silent_connections_make_room_for_others(database_url: str, silent: Any) -> None:
    async with served(database_url, max_connections=20, max_connections_per_address=15) as api:
        quiet = [await silent(api, f"127.0.0.{2 + number % 4}") for number in range(60)]
        for _ in range(5):
            assert (await api.get("/livez", key=None, headers={"Connection": "close"})).status == 200
        assert await quiet[0].told() == b""
        assert b"made room for a new connection" in (await api.get("/metrics")).body


class Held:
    """A connection in a table."""

    def __init__(self, table: Connections, address: str = "a") -> None:
        self.address = address
        self.is_closing = False
        self.is_dropped = False
        self._table = table
        self.is_admitted = table.admit(self)

    def drop(self) -> None:
        self.is_dropped = True
        self._table.leave(self)


def table_of(most: int, most_of_address: int = 0) -> Connections:
    return Connections(most, most_of_address, header_timeout=10.0, idle_timeout=75.0, response_timeout=30.0)


def working(table: Connections, address: str = "a") -> Held:
    made = Held(table, address)
    assert made.is_admitted
    table.works(made)
    return made


def test_one_address_cannot_take_all_connections() -> None:
    table = table_of(10, 4)
    refused: list[str] = []
    table.on_refusal = refused.append
    greedy = [working(table) for _ in range(4)]
    assert not Held(table).is_admitted
    assert refused == ["connections of one address"]
    table.waits(greedy[0])
    greedy.append(working(table))
    assert greedy[0].is_dropped
    for number in range(6):
        working(table, f"b{number}")
    assert not Held(table, "b7").is_admitted
    assert len(table) == 10


def test_what_waits_too_long_is_dropped() -> None:
    now = 1000.0
    with monotonic_from(lambda: now):
        table = table_of(10)
        Held(table)
        table.idles(working(table))
        now += 9.0
        table.sweep()
        assert len(table) == 2
        now += 2.0
        table.sweep()
        assert len(table) == 1
        now += 65.0
        table.sweep()
        assert len(table) == 0


def test_who_does_not_take_its_response_is_dropped() -> None:
    """Nothing else that happens on the connection gives it more time, and nothing is asked of the server."""
    now = 1000.0
    with monotonic_from(lambda: now):
        table = table_of(10)
        stalled, slow, busy = working(table), working(table), working(table)
        table.stalls(stalled)
        for _ in range(5):
            table.stalls(slow)
            now += 7.0
            table.idles(stalled)
            table.waits(stalled)
            table.works(stalled)
            table.flows(slow)
            table.sweep()
        assert stalled.is_dropped and not slow.is_dropped and not busy.is_dropped
        busy.is_closing = True
        table.sweep()
        now += 31.0
        table.sweep()
        assert busy.is_dropped


def test_a_blocked_event_loop_is_not_the_clients_fault() -> None:
    now = 1000.0
    with monotonic_from(lambda: now):
        table = table_of(10)
        stalled, mute = working(table), Held(table)
        table.stalls(stalled)
        now += 100.0
        table.sweep(blocked=99.0)
        assert not stalled.is_dropped and not mute.is_dropped
        now += 10.0
        table.sweep()
        assert not stalled.is_dropped and mute.is_dropped
        now += 20.0
        table.sweep()
        assert stalled.is_dropped


def test_who_keeps_the_server_waiting_longest_makes_room() -> None:
    """Be it silent, or does it not read."""
    now = 1000.0
    with monotonic_from(lambda: now):
        table = table_of(5, 5)
        stuck, idle, slow, fresh, busy = [working(table) for _ in range(5)]
        for stalls_or_idles, connection in (
            (table.stalls, stuck),
            (table.idles, idle),
            (table.stalls, fresh),
            (table.stalls, slow),
            (table.idles, fresh),
        ):
            stalls_or_idles(connection)
            now += 1.0
        table.flows(fresh)
        table.idles(fresh)
        for dropped in (stuck, idle, slow, fresh):
            assert not dropped.is_dropped
            working(table, "b")
            assert dropped.is_dropped
        assert not Held(table, "b").is_admitted and not busy.is_dropped


def test_a_client_that_has_begun_to_send_goes_after_those_that_are_silent() -> None:
    now = 1000.0
    with monotonic_from(lambda: now):
        table = table_of(3, 3)
        sends, silent, mute = [working(table) for _ in range(3)]
        for connection in (sends, silent, mute):
            table.idles(connection)
            now += 1.0
        table.waits(sends)  # a header has begun to arrive
        for dropped in (silent, mute, sends):
            assert not dropped.is_dropped
            working(table, "b")
            assert dropped.is_dropped


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:2", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
        ("None", "None"),
    ],
)
def test_a_client_may_have_a_whole_network(address: str, group: str) -> None:
    assert client_group(address) == group


def test_descriptors_are_kept_for_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (256, 4096))
    assert room_for_connections(0, 20) == 256 - 20 - 64
    assert room_for_connections(50, 20) == 50
    assert room_for_connections(1000, 20) == 172
    kept = [connections_of(Settings(pool_size=10, metrics_port=port)).most for port in (None, 0)]
    assert kept == [256 - 20 - 64, 256 - 20 - 64 - MOST_CONNECTIONS]
    monkeypatch.setattr("resource.getrlimit", lambda _: (64, 64))
    assert room_for_connections(0, 20) == 16
