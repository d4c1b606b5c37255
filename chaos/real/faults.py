"""What is done to a cluster; each strike is written down.

Most faults hit one process or one connection. `until` is when the fault itself is over; how long the product may take
to recover is the checker's business. `came_of_it` counts what was hit, where that can be seen: a fault that hits
nothing shows nothing.
"""

import asyncio
import contextlib
import resource
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg

from chaos.history import Writer
from chaos.real import database_faults, upgrade
from chaos.real.bouncer import program
from chaos.real.clocks import CACHED, DatabaseClock, library, seen_through
from chaos.real.cluster import Cluster, Member
from chaos.real.disk import fill, make_room, may_mount
from chaos.real.failovers import PATRONI_KINDS, Failovers
from chaos.real.network import Proxy, Way
from chaos.real.stream_faults import STREAM_KINDS, StreamFaults
from chaos.real.strikes import Strike

_TOLD = 0.5
"""Seconds until the client has heard of the last commit."""
_START = 2.0
"""Seconds that a process takes to be back."""


class Faults:
    """Strikes a cluster."""

    def __init__(self, cluster: Cluster, clock: DatabaseClock, lies: Path, writer: Writer, disk: Path) -> None:
        """`lies` is the file with the share of false errors that all processes see; `disk` is where the database is."""
        self._disk = disk
        self._cluster = cluster
        self._clock = clock
        self._lies = lies
        self._writer = writer
        self._database = asyncio.Lock()
        self._struck_hour = False
        self.put_back = 0.0
        """By how much the database's clock was put back, in all."""
        self.streams: StreamFaults | None = None
        """Strikes the queue's stream, if it has one."""
        self.failovers: Failovers | None = None
        """Strikes the Patroni cluster, if the database is one."""

    async def strike(self, strike: Strike) -> None:
        if strike.kind in KINDS:
            await KINDS[strike.kind](self, strike)
        elif strike.kind in PATRONI_KINDS:
            assert self.failovers is not None
            await self.failovers.strike(strike)
        else:
            assert self.streams is not None
            await self.streams.strike(strike)

    def record(self, strike: Strike, until: float, who: str, **more: Any) -> None:
        kind = "clock" if "offset" in more else strike.kind
        record = {"t": monotonic(), **more, "kind": kind, "of": strike.kind, "until": until, "node": who}
        self._writer.write("faults", {**record, "strike": strike.t})

    def _workers(self) -> list[int]:
        return [member.pid for member in self._cluster.workers if member.pid is not None]

    def _pick(self, strike: Strike, members: Sequence[Member]) -> Member:
        return members[int(strike.who * len(members))]

    async def kill_worker(self, strike: Strike) -> None:
        self._kill(strike, self._pick(strike, self._cluster.workers))

    async def kill_server(self, strike: Strike) -> None:
        self._kill(strike, self._pick(strike, self._cluster.servers))

    async def kill_all(self, strike: Strike) -> None:
        for member in self._cluster.members:
            self._kill(strike, member)

    def _kill(self, strike: Strike, member: Member) -> None:
        pid = member.pid
        if member.send(signal.SIGKILL):
            self.record(strike, monotonic() + _START, member.name, over=monotonic(), pid=pid)

    async def restart(self, strike: Strike) -> None:
        member = self._pick(strike, self._cluster.members)
        pid = member.pid
        if member.send(signal.SIGTERM):
            self.record(strike, monotonic() + 6.0 + _START, member.name, pid=pid)

    async def freeze(self, strike: Strike) -> None:
        member = self._pick(strike, self._cluster.members)
        if member.send(signal.SIGSTOP):
            self.record(strike, monotonic() + strike.lasts, member.name)
            pid = member.pid
            await asyncio.sleep(strike.lasts)
            if member.pid == pid:
                member.send(signal.SIGCONT)

    async def terminate_backends(self, strike: Strike) -> None:
        """Every session is ended, several times in a row."""
        struck, ended = monotonic(), 0
        while monotonic() < struck + strike.lasts:
            with contextlib.suppress(psycopg.Error):
                ended += await asyncio.to_thread(database_faults.terminate, self._cluster.dsn)
            await asyncio.sleep(0.3)
        self.record(strike, monotonic(), "database", t=struck, came_of_it=ended)

    async def crash_database(self, strike: Strike) -> None:
        if self._database.locked():
            return
        async with self._database:
            struck = monotonic()
            await asyncio.to_thread(self._cluster.postgres.stop_immediately)
            await asyncio.sleep(strike.lasts)
            await asyncio.to_thread(self._clock.start)
            # Recovery is the database's own affair: the fault is over when it takes connections again.
            self.record(strike, monotonic(), "database", t=struck, workers=self._workers())

    async def fill_disk(self, strike: Strike) -> None:
        """No room for the database. It may stop altogether, and is then started again when there is room."""
        async with self._database:
            struck = monotonic()
            await asyncio.to_thread(fill, self._disk)
            refused = await asyncio.to_thread(database_faults.has_no_room, self._cluster.dsn)
            await asyncio.sleep(strike.lasts)
            make_room(self._disk)
            if not await asyncio.to_thread(_answers, self._cluster.dsn):
                await asyncio.to_thread(self._cluster.postgres.stop_immediately)
                await asyncio.to_thread(self._clock.start)
            self.record(strike, monotonic(), "database", t=struck, came_of_it=int(refused))

    async def deadlock(self, strike: Strike) -> None:
        async with self._database:
            struck = monotonic()
            found = await asyncio.to_thread(database_faults.deadlock, self._cluster.dsn, strike.lasts)
            self.record(strike, monotonic() + 1.0, "database", t=struck, came_of_it=found)

    async def serialize(self, strike: Strike) -> None:
        async with self._database:
            struck = monotonic()
            found = await database_faults.serialize(self._cluster, strike.lasts)
            self.record(strike, monotonic() + 1.0, "database", t=struck, came_of_it=found)

    async def promote(self, strike: Strike) -> None:
        async with self._database:
            standby, tail = self._cluster.spares[-1], strike.strength
            dying, dead = await database_faults.fail_over(self._cluster, standby, tail)
            # A commit just before the standby stopped receiving may not have reached it either.
            window = tail and {"lost_from": dying - 1.0, "lost_to": dead + _TOLD}
            self.record(strike, monotonic(), "database", t=dying, workers=self._workers(), **(window or {}))

    async def restore(self, strike: Strike) -> None:
        async with self._database:
            began, dead = await database_faults.restore(self._cluster, strike.lasts)
            lost = {"lost_from": began, "lost_to": dead + _TOLD}
            self.record(strike, monotonic(), "database", t=dead, workers=self._workers(), **lost)

    async def kill_pooler(self, strike: Strike) -> None:
        assert self._cluster.bouncer is not None
        self.record(strike, monotonic() + strike.lasts, "pooler")
        self._cluster.bouncer.kill()
        await asyncio.sleep(strike.lasts)
        await asyncio.to_thread(self._cluster.bouncer.start)

    async def upgrade(self, strike: Strike) -> None:
        struck = monotonic()
        await upgrade.roll(self._cluster)
        self.record(strike, monotonic() + _START, "all", t=struck)

    async def latency(self, strike: Strike) -> None:
        await self._way(strike, Way.SLOW, latency=strike.strength)

    async def cut(self, strike: Strike) -> None:
        await self._way(strike, Way.CUT)

    async def half_open(self, strike: Strike) -> None:
        await self._way(strike, Way.HALF)

    async def _way(self, strike: Strike, way: Way, latency: float = 0.0) -> None:
        name, proxy = self._proxy(strike)
        pid = next((member.pid for member in self._cluster.members if member.proxy is proxy), None)
        struck, before = monotonic(), proxy.held_up
        proxy.set_way(way, latency)
        await asyncio.sleep(strike.lasts)
        proxy.set_way(Way.OPEN)
        # What is under way is given up only when its deadline is over.
        until = monotonic() + (0.0 if way is Way.SLOW else 5.0)
        self.record(strike, until, name, t=struck, pid=pid or 0, came_of_it=proxy.held_up - before)

    async def reset(self, strike: Strike) -> None:
        name, proxy = self._proxy(strike)
        self.record(strike, monotonic(), name, came_of_it=proxy.reset())

    async def slow_close(self, strike: Strike) -> None:
        name, proxy = self._proxy(strike)
        self.record(strike, monotonic() + 1.0, name, came_of_it=proxy.close_slowly())

    def _proxy(self, strike: Strike) -> tuple[str, Proxy]:
        reachable = [(member.name, member.proxy) for member in self._cluster.members]
        reachable.append(("client", self._cluster.client))
        return reachable[int(strike.who * len(reachable))]

    async def node_clock(self, strike: Strike) -> None:
        await self._set_clock(strike, f"{strike.strength:+.0f}")

    async def node_drift(self, strike: Strike) -> None:
        """A node's clock runs too fast or too slow, until the fault ends and sets it right."""
        await self._set_clock(strike, f"+0 x{strike.strength:g}")

    async def _set_clock(self, strike: Strike, to: str) -> None:
        member = self._pick(strike, self._cluster.members)
        struck = monotonic()
        member.clock_file.write_text(f"{to}\n")
        await asyncio.sleep(strike.lasts)
        moved = await asyncio.to_thread(seen_through, member.clock_file)
        member.clock_file.write_text("+0\n")
        # A process that has just begun has not drifted yet.
        more = {} if strike.kind == "node drift" else {"came_of_it": int(abs(moved) > 1.0)}
        self.record(strike, monotonic(), member.name, t=struck, **more)

    async def database_drift(self, strike: Strike) -> None:
        """A tenth of a second at a time, away from the truth and back to it."""
        async with self._database:
            away = [strike.strength / 10 * step for step in range(1, 11)]
            for offset in (*away, *away[-2::-1], 0.0):
                self.put_back += max(0.0, self._clock.offset - offset)
                self._clock.set(offset)
                self.record(strike, monotonic() + 1.0, "database", offset=offset)
                await asyncio.sleep(strike.lasts / 20)

    async def database_clock(self, strike: Strike) -> None:
        """Put it forward or back, and back to the truth."""
        async with self._database:
            for offset in (strike.strength, 0.0):
                back = max(0.0, self._clock.offset - offset)
                if offset:
                    back = min(back, strike.lasts)  # then it is put forward again
                self.put_back += back
                self._clock.set(offset)
                struck = monotonic()
                await asyncio.sleep(max(strike.lasts, CACHED + 0.5))
                moved = await asyncio.to_thread(database_faults.clock_offset, self._cluster.dsn)
                more = {"offset": offset, "came_of_it": int(abs(moved - offset) < 1.0 + abs(offset) / 100)}
                self.record(strike, struck + back + 2.0, "database", t=struck, **more)

    async def database_hour(self, strike: Strike) -> None:
        """Back by far and, after a while, forward again; or forward for good. The way back from there would take as
        long as the step."""
        if self._clock.offset or self._struck_hour:
            return
        self._struck_hour = True
        # Servers whose first look at the clock comes just after the step, and a worker that cannot renew after it.
        for server in self._cluster.servers:
            self._kill(strike._replace(kind="kill server"), server)
        await asyncio.sleep(0.8 + 0.8 * strike.who)
        self._kill(strike._replace(kind="kill worker"), self._pick(strike, self._cluster.workers))
        async with self._database:
            lasts = strike.lasts if strike.strength < 0 else CACHED + 0.5
            struck = monotonic()
            for offset in (strike.strength, 0.0) if strike.strength < 0 else (strike.strength,):
                self._clock.set(offset)
                t = monotonic()
                await asyncio.sleep(lasts if offset else CACHED + 0.5)
                moved = await asyncio.to_thread(database_faults.clock_offset, self._cluster.dsn)
                more = {"offset": offset, "came_of_it": int(abs(moved - offset) < 1.0 + abs(offset) / 100)}
                self.record(strike, max(struck + lasts, monotonic()) + 2.0, "database", t=t, **more)

    async def descriptors(self, strike: Strike) -> None:
        """One server cannot open another file or connection."""
        member = self._pick(strike, self._cluster.servers)
        pid = member.pid
        if pid is None:
            return
        struck, before = monotonic(), resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = {int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir()}
        free = next(number for number in count() if number not in used)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, before[1]))
        await asyncio.sleep(strike.lasts)
        if member.pid == pid:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        self.record(strike, monotonic(), member.name, t=struck)

    async def database_clock_restart(self, strike: Strike) -> None:
        """The same, and all servers are killed at each step: those that start then remember nothing of the clock. Their
        workers go on, and must keep what they hold."""
        striking = asyncio.create_task(self.database_clock(strike))
        for _ in range(2):
            await asyncio.sleep(CACHED)
            for member in self._cluster.servers:
                member.send(signal.SIGKILL)
            await asyncio.sleep(max(strike.lasts, CACHED + 0.5) - CACHED + 0.2)
        await striking

    async def lies(self, strike: Strike) -> None:
        """Every process, and the client, are told of errors after every twentieth success."""
        self.record(strike, monotonic() + strike.lasts + 1.0, "all")
        self._lies.write_text(f"{strike.strength}")
        await asyncio.sleep(strike.lasts)
        self._lies.write_text("0")


KINDS: dict[str, Callable[[Faults, Strike], Awaitable[None]]] = {
    "kill worker": Faults.kill_worker,
    "kill server": Faults.kill_server,
    "kill all": Faults.kill_all,
    "restart": Faults.restart,
    "freeze": Faults.freeze,
    "terminate backends": Faults.terminate_backends,
    "crash database": Faults.crash_database,
    "disk full": Faults.fill_disk,
    "latency": Faults.latency,
    "cut": Faults.cut,
    "half-open": Faults.half_open,
    "reset": Faults.reset,
    "slow close": Faults.slow_close,
    "node clock": Faults.node_clock,
    "database clock": Faults.database_clock,
    "database clock and restart": Faults.database_clock_restart,
    "node drift": Faults.node_drift,
    "database drift": Faults.database_drift,
    "database hour": Faults.database_hour,
    "descriptors": Faults.descriptors,
    "lies": Faults.lies,
    "deadlock": Faults.deadlock,
    "serialization": Faults.serialize,
    "promote": Faults.promote,
    "restore": Faults.restore,
    "kill pooler": Faults.kill_pooler,
    "upgrade": Faults.upgrade,
}
_PREPARED = ("promote", "restore", "kill pooler", "upgrade", "database hour", "database clock and restart")
MIXED = tuple(kind for kind in KINDS if kind not in _PREPARED)
"""Those that need nothing prepared and can be struck again and again."""
_NEEDS_FAKETIME = frozenset(
    {
        *("node clock", "node drift", "database drift"),
        *("database clock", "database clock and restart", "database hour"),
    }
)


KNOWN = (*KINDS, *STREAM_KINDS, *PATRONI_KINDS)


def missing() -> list[str]:
    """The kinds that cannot be struck on this machine."""
    return [
        *(sorted(_NEEDS_FAKETIME) if library() is None else []),
        *([] if may_mount() else ["disk full"]),
        *(["kill pooler"] if program() is None else []),
    ]


def _answers(dsn: str) -> bool:
    for _ in range(20):
        try:
            psycopg.connect(dsn, connect_timeout=1).close()
            return True
        except psycopg.OperationalError:
            time.sleep(0.1)
    return False
