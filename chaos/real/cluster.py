"""Servers and workers on one database, each behind a proxy of its own unless the database has several hosts, and
the loop that starts again what has died."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any

from chaos.real.bouncer import Bouncer
from chaos.real.clocks import preloading
from chaos.real.environment import ENCRYPTION, LOGS
from chaos.real.network import NoProxy, Proxy
from chaos.real.patroni import Patroni
from tests.support.postgres import Server, free_port

ROOT = Path(__file__).parents[2]
APP = "chaos.real.app:app"
LEASE = 5.0
SLOTS = 20
_RESTART = 1.5
"""Seconds from one start to the next, at least: a start costs more than what is tested here."""
_SETTINGS = {
    "lease": f"{LEASE}s",
    "heartbeat": "1s",
    "grace": "5s",
    "slots": str(SLOTS),
    "port": "0",
    "log_level": "warning",
}


class Member:
    """One duetime process that is started again whenever it has ended."""

    def __init__(self, name: str, arguments: list[str], dsn: str, folder: Path, logs: Path, **settings: str) -> None:
        self.name = name
        self.code: Path | None = None
        """Where another duetime lies than the one that is tested here."""
        self._settings = _SETTINGS | settings
        self.proxy = NoProxy(dsn) if "," in dsn else Proxy(dsn)
        self.clock_file = folder / f"{name}.clock"
        self.environment: dict[str, str] = {}
        """What else it is told when it starts."""
        self.deaths = 0
        self.crashes: list[str] = []
        """Its unexpected exits: the status, and the end of the log."""
        self.may_kill_itself = False
        """Whether its tasks do that."""
        self._told: list[signal.Signals] = []
        self._started_at = 0.0
        self._said_before = 0
        self.wanted = True
        self._arguments = arguments
        self._logs = logs
        self._log = folder / f"{name}.log"
        self._output = self._log.open("ab")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @property
    def is_up(self) -> bool:
        """Whether it lives and has said that it is at work."""
        return self.pid is not None and self._log.stat().st_size > self._said_before

    def start(self) -> None:
        self._started_at = monotonic()
        self._said_before = self._log.stat().st_size
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        environment |= {f"DUETIME_{name.upper()}": value for name, value in self._settings.items()}
        environment |= {"DUETIME_DATABASE_URL": self.proxy.dsn, LOGS: str(self._logs), **ENCRYPTION}
        environment |= self.environment
        environment["PYTHONPATH"] = os.pathsep.join(map(str, filter(None, (self.code, ROOT))))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "chaos.real.node", *self._arguments],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def send(self, kind: signal.Signals) -> bool:
        """Signal the process and its children; false when the process has ended."""
        if self.pid is None:
            return False
        self._told.append(kind)
        os.killpg(self.pid, kind)
        return True

    def revive(self) -> bool:
        """Start it if it has ended and is wanted, but not too soon after its last start; true when it was started."""
        if self.pid is not None or not self.wanted or monotonic() < self._started_at + _RESTART:
            return False
        self.deaths += 1
        self.judge_end()
        self.start()
        return True

    def judge_end(self) -> None:
        """Record an exit that the test did not cause."""
        status = None if self._process is None else self._process.returncode
        killed = (signal.SIGKILL in self._told or self.may_kill_itself) and status == -signal.SIGKILL
        # Told to stop before it has said a word, it is still being loaded, and ends like any other program; told twice,
        # at once.
        unheard = self._log.stat().st_size == self._said_before
        times = self._told.count(signal.SIGTERM)
        asked = times > 0 and (status == 0 or ((unheard or times > 1) and status == -signal.SIGTERM))
        if not killed and not asked:
            self.crashes.append(f"{self.name} ended with {status}: …{self.text()[-300:]}")
        self._told.clear()

    def complaints(self) -> list[str]:
        """Ends of its own accord, and errors that no task was told to raise."""
        return [*self.crashes, *(f"{self.name}: …{part[-300:]}" for part in unexpected_traces(self.text()))]

    def text(self) -> str:
        """Its log."""
        return self._log.read_text(errors="replace")

    async def close(self) -> None:
        self.wanted = False
        if self.pid is not None:
            os.killpg(self.pid, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        self._output.close()
        await self.proxy.close()


def unexpected_traces(log: str) -> list[str]:
    """What follows each traceback in a log. A worker logs every failed attempt, each in one line: failures that the
    workload asked for are left out."""
    lines = [line for line in log.splitlines() if "chaos.tasks.Broken: " not in line]
    return "\n".join(lines).split("Traceback (most recent call last)")[1:]


class Cluster:
    def __init__(
        self,
        database: Server | Patroni,
        dsn: str,
        folder: Path,
        logs: Path,
        *,
        servers: int,
        workers: int,
        bouncer: Bouncer | None = None,
    ) -> None:
        self._database = database
        self.dsn = dsn
        self.folder = folder
        self.bouncer = bouncer
        way, settings = (dsn, {}) if bouncer is None else (bouncer.dsn, {"prepared_statements": "off"})
        ports = [free_port() for _ in range(servers)]
        self.urls = [f"http://127.0.0.1:{port}" for port in ports]
        self.servers = [
            Member(f"server-{n}", ["server"], way, folder, logs, port=str(port), **settings)
            for n, port in enumerate(ports)
        ]
        self.workers = [Member(f"worker-{n}", ["worker", APP], way, folder, logs, **settings) for n in range(workers)]
        self.client = NoProxy(way) if isinstance(database, Patroni) else Proxy(way)
        self.settings: dict[str, Any] = settings
        """The settings of every process that joins the cluster."""
        self.spares: list[Server] = []
        """Databases that are waiting to take over, or that were replaced."""
        self.absences: list[tuple[float, float]] = []
        """From when to when there was no server, or no worker: due runs could not start."""
        self._supervising: asyncio.Task[None] | None = None

    @property
    def postgres(self) -> Server:
        assert isinstance(self._database, Server)
        return self._database

    @property
    def members(self) -> list[Member]:
        return [*self.servers, *self.workers]

    def move_to(self, postgres: Server) -> None:
        """Connect all processes to another database."""
        self.spares.append(self.postgres)
        self._database, self.dsn = postgres, postgres.dsn("chaos")
        if self.bouncer is not None:
            self.bouncer.lead_to(postgres)
            return
        for proxy in (*(member.proxy for member in self.members), self.client):
            proxy.lead_to(self.dsn)

    async def start(self, environment: Mapping[str, str] = MappingProxyType({}), *, clocks: bool = False) -> None:
        """`environment` is what all are told; `clocks`: each one's file says what time it is."""
        await self.client.start()
        for member in self.members:
            member.clock_file.write_text("+0\n")
            member.environment = {**environment, **(preloading(member.clock_file) if clocks else {})}
            await member.proxy.start()
            member.start()
        self._supervising = asyncio.create_task(self._supervise())

    async def close(self) -> None:
        if self._supervising is not None:
            self._supervising.cancel()
            await asyncio.gather(self._supervising, return_exceptions=True)
        for member in self.members:
            await member.close()
        await self.client.close()
        for spare in self.spares:
            spare.close()

    def crashes(self) -> list[str]:
        """Who ended, and was not ended by us: its last words."""
        return [words for member in self.members for words in member.complaints()]

    def has_written(self, text: str) -> bool:
        """Whether it stands in the log of a process."""
        return any(text in member.text() for member in self.members)

    async def _supervise(self) -> None:
        short_since: float | None = None
        while True:
            for member in self.members:
                member.revive()
            if not all(map(_some_are_up, (self.servers, self.workers))):
                short_since = short_since or monotonic()
            elif short_since is not None:
                self.absences.append((short_since, monotonic()))
                short_since = None
            await asyncio.sleep(0.2)


def _some_are_up(members: Sequence[Member]) -> bool:
    return any(member.is_up for member in members)
