"""Who is measured, on what, and who cannot be."""

import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import TypeVar

from bench.knobs import Knobs
from bench.peers.environments import CannotRun, redis_server
from bench.peers.names import NODE_PEERS, PYTHON_PEERS
from bench.peers.peer import Peer
from bench.report import console

T = TypeVar("T")


class Peers:
    """The peers of this run. Made with a way to get an empty PostgreSQL database; a Redis is started when asked for."""

    def __init__(self, knobs: Knobs, database: Callable[[], str]) -> None:
        self._knobs = knobs
        self._database = database
        self._servers = ExitStack()
        self._redis_url: str | None = None
        self._redis_problem: str | None = None
        self._running: list[Peer] | None = None
        self.unavailable: dict[str, str] = {}
        """Who cannot run here at all, and why."""
        self.failed: dict[str, str] = {}
        """Who failed in the scenario that is under way."""

    def begin(self) -> None:
        """Another scenario: who failed in the one before is tried again."""
        self.failed = {}

    def all(self) -> list[Peer]:
        """Those that can run here; the others are named, once, with the reason."""
        if self._running is None:
            self._running = []
            for peer in self._known():
                try:
                    peer.prepare()
                    self._place_of(peer)
                    self._running.append(peer)
                except CannotRun as error:
                    self._leave_out(peer, str(error), self.unavailable)
        return [peer for peer in self._running if peer.name not in self.failed]

    async def measured(
        self, measure: Callable[[Peer], Awaitable[T]], *, among: Collection[str] = PYTHON_PEERS | NODE_PEERS
    ) -> AsyncIterator[tuple[Peer, T]]:
        """Each of them with its figure. One that cannot be measured here is named now, and in the results."""
        for peer in [peer for peer in self.all() if peer.name in among]:
            try:
                figure = await measure(peer)
            except CannotRun as error:
                self._leave_out(peer, str(error), self.failed)
                continue
            yield peer, figure

    def _leave_out(self, peer: Peer, why: str, reasons: dict[str, str]) -> None:
        reasons[peer.name] = why
        console.print(f"  {peer.name} is left out: {why}", style="bold yellow", markup=False)

    def close(self) -> None:
        self._servers.close()

    def _known(self) -> list[Peer]:
        redis, database = self._redis, self._database
        known = [
            Peer("celery", redis, drains=6_000, workers=2),
            Peer("dramatiq", redis, drains=40_000),
            Peer("rq", redis, drains=4_000),
            Peer("huey", redis, drains=50_000),
            Peer("arq", redis, drains=12_000),
            Peer("procrastinate", database, drains=5_000),
            Peer("pgqueuer", database, workers=2),
            Peer("apscheduler", database, drains=2_000, together=True),
            Peer("apscheduler-memory", lambda: "memory", driver="apscheduler", drains=20_000, together=True),
            Peer("graphile", database, node=True),
        ]
        return [peer for peer in known if self._knobs.wants_peer(peer.name)]

    def _place_of(self, peer: Peer) -> None:
        if peer.place is self._redis:
            self._redis()

    def _redis(self) -> str:
        if self._redis_problem is not None:
            raise CannotRun(self._redis_problem)
        if self._redis_url is None:
            try:
                self._redis_url = self._servers.enter_context(_redis_running())
            except CannotRun as error:
                self._redis_problem = str(error)
                raise
        return self._redis_url


@contextmanager
def _redis_running() -> Iterator[str]:
    """A Redis of ours, in memory as it comes (nothing is written to disk), on a port of 127.0.0.1."""
    program, environ = redis_server()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="duetime-redis-") as folder:
        command = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--save", ""]
        process = subprocess.Popen(command, env=environ or None, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_for(port, process)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise CannotRun("Redis did not start")
