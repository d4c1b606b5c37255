"""The port of the metrics: clients that say nothing, say little or read nothing take no threads from others."""

import http.client
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from time import monotonic, sleep

import pytest
from prometheus_client import CollectorRegistry, Gauge

from duetime.settings import Settings
from duetime.telemetry.metrics_server import metrics_shown
from duetime.telemetry.pulse import Pulse
from duetime.telemetry.threaded_server import MOST_CONNECTIONS

TOKEN = "a token"
LONG = timedelta(minutes=1)
LARGE = 8_000_000
"""Bytes: more than the system takes for a client that does not read."""
SOON = timedelta(milliseconds=500)


@contextmanager
def shown(header: timedelta = LONG, response: timedelta = LONG, page: int = 0) -> Iterator[int]:
    """A page of at least so many bytes, which takes no time to write."""
    registry = CollectorRegistry()
    Gauge("g", "x" * page, registry=registry)
    settings = Settings(
        metrics_port=0, host="127.0.0.1", metrics_token=TOKEN, header_timeout=header, response_timeout=response
    )
    with metrics_shown(registry, Pulse(), settings) as port:
        assert port is not None
        yield port


def ask(port: int, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()


def connect(port: int, sent: bytes = b"", received: int = 0) -> socket.socket:
    made = socket.socket()
    if received:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received)
    made.settimeout(10)
    made.connect(("127.0.0.1", port))
    made.sendall(sent)
    return made


def threads() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def until(count: int) -> None:
    """Wait until so many threads serve connections."""
    deadline = monotonic() + 10
    while threads() != count:
        assert monotonic() < deadline, f"{threads()} threads"
        sleep(0.02)


SCRAPE = f"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTT", SCRAPE], ids=["silent", "half a header", "not reading"])
def test_threads_are_bounded_and_probes_answered(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with shown(page=LARGE) as port, ExitStack() as held:
        for number in range(5 * MOST_CONNECTIONS):
            held.enter_context(connect(port, sent, received=4096))
            if number % MOST_CONNECTIONS == 0:
                assert ask(port, "/livez") == (200, b"ok\n")
            assert threads() <= MOST_CONNECTIONS
        assert ask(port, "/livez") == (200, b"ok\n")
        status, page = ask(port, "/metrics")
        assert status == 200 and len(page) > LARGE
    assert "made room for a new connection" in caplog.text
    assert all(record.levelno < logging.ERROR for record in caplog.records)
    until(0)


def test_a_header_must_come_in_time_however_it_trickles(caplog: pytest.LogCaptureFixture) -> None:
    with shown(header=SOON) as port:
        silent, trickling = connect(port), connect(port, b"GET /livez HTTP/1.1\r\nX: ")
        began = monotonic()
        with suppress(OSError):
            while monotonic() < began + 5:
                trickling.sendall(b"x")
                sleep(0.05)
        assert monotonic() < began + 3
        assert silent.recv(100) == b""
        until(0)
        assert ask(port, "/livez") == (200, b"ok\n")
        silent.close()
        trickling.close()
    assert "no whole header in time" in caplog.text


def test_a_header_has_a_length() -> None:
    with shown() as port, connect(port) as long:
        with suppress(OSError):
            for _ in range(100):
                long.sendall(b"GET /livez HTTP/1.1\r\nX: " + 4096 * b"x")
                sleep(0.005)
            assert long.recv(100) == b""
        until(0)


def test_a_response_must_be_taken_in_time(caplog: pytest.LogCaptureFixture) -> None:
    with shown(response=SOON, page=LARGE) as port, connect(port, SCRAPE, received=4096):
        deadline = monotonic() + 10
        while "response not taken in time" not in caplog.text:
            assert monotonic() < deadline
            sleep(0.05)
        until(0)


def test_what_came_with_the_request_is_read() -> None:
    with shown() as port:
        for head, expected in ((b"GET /livez HTTP/1.0\r\n\r\n", b" 200 "), (b"rubbish\r\n\r\n", b"400")):
            with connect(port, head) as made:
                assert expected in made.recv(1000)


def test_a_probe_written_by_hand_may_end_its_lines_without_a_carriage_return() -> None:
    with shown() as port, connect(port, b"GET /livez HTTP/1.0\n\n") as probe:
        assert probe.recv(100).startswith(b"HTTP/1.0 200")
