"""What is done to a Patroni cluster: its leader dies, is cut off, or hands over.

Each strike measures Patroni's *election*, from the strike until another host accepts writes, and the *gap*, until the
first run is completed there. The product's own share is the difference.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from time import monotonic

import psycopg

from chaos.real.cluster import Cluster
from chaos.real.patroni import Host, Patroni
from chaos.real.stream_faults import Record
from chaos.real.strikes import Strike

_TOLD = 0.5
"""Seconds until the client has heard of the last commit."""
_BEHIND = 1.0
"""Seconds of commits that an asynchronous standby may lack."""
_DOWN = 2.0
_WITHIN = 120.0
_IN_RECOVERY = "select pg_is_in_recovery()"
_COMPLETED = "select 1 from duetime.history where finished_at > %s limit 1"


class Failovers:
    def __init__(self, cluster: Cluster, patroni: Patroni, record: Record) -> None:
        self._cluster = cluster
        self._patroni = patroni
        self._record = record
        self._one = asyncio.Lock()

    async def strike(self, strike: Strike) -> None:
        async with self._one:
            await PATRONI_KINDS[strike.kind](self, strike)
            await asyncio.to_thread(self._patroni.all_follow)

    async def kill_leader(self, strike: Strike) -> None:
        """The host loses its power, and comes back when another one leads."""
        leader = await asyncio.to_thread(self._leader)
        struck = monotonic(), datetime.now(UTC)
        await asyncio.to_thread(self._patroni.kill, leader)
        await self._watch(strike, leader, *struck)
        await asyncio.sleep(_DOWN)
        await asyncio.to_thread(self._patroni.revive, leader)

    async def cut_off_leader(self, strike: Strike) -> None:
        """It goes on, and no other host, no client and no etcd hears of it."""
        leader = await asyncio.to_thread(self._leader)
        struck = monotonic(), datetime.now(UTC)
        await asyncio.to_thread(self._patroni.cut_off, leader)
        try:
            await self._watch(strike, leader, *struck)
            await asyncio.sleep(_DOWN)
        finally:
            await asyncio.to_thread(self._patroni.connect_again, leader)

    async def switch_over(self, strike: Strike) -> None:
        leader = await asyncio.to_thread(self._leader)
        struck = monotonic(), datetime.now(UTC)
        asking = asyncio.create_task(asyncio.to_thread(self._patroni.switch_over))
        await self._watch(strike, leader, *struck)
        await asking

    def _leader(self) -> Host:
        leader = self._patroni.leader()
        assert leader is not None, "there is no leader to strike"
        return leader

    async def _watch(self, strike: Strike, old: Host, struck: float, at: datetime) -> None:
        others = [host for host in self._patroni.hosts if host != old]
        try:
            new, elected = await asyncio.to_thread(_elected, others)
        except TimeoutError as error:
            error.add_note(await asyncio.to_thread(self._patroni.said))
            raise
        completed = await asyncio.to_thread(_completed, new, at)
        figures = {"election": round(elected - struck, 2), "gap": round(completed - struck, 2)}
        # What the old leader had acknowledged alone is lost with it, unless a standby had to confirm it.
        lost = {} if self._patroni.synchronous else {"lost_from": struck - _BEHIND, "lost_to": struck + _TOLD}
        pids = [member.pid for member in self._cluster.workers if member.pid is not None]
        self._record(strike, elected, old.name, t=struck, workers=pids, new=new.name, **figures, **lost)


def _elected(hosts: list[Host]) -> tuple[Host, float]:
    """Which of these hosts accepts writes first, and when."""
    until = monotonic() + _WITHIN
    while monotonic() < until:
        for host in hosts:
            with contextlib.suppress(psycopg.Error), psycopg.connect(host.dsn(), connect_timeout=2) as connection:
                if connection.execute(_IN_RECOVERY).fetchone() == (False,):
                    return host, monotonic()
        time.sleep(0.05)
    raise TimeoutError(f"no host was elected within {_WITHIN:g} s")


def _completed(host: Host, since: datetime) -> float:
    """When the first run was completed there."""
    until = monotonic() + _WITHIN
    with psycopg.connect(host.dsn("chaos"), connect_timeout=5, autocommit=True) as connection:
        while connection.execute(_COMPLETED, (since,)).fetchone() is None:
            if monotonic() > until:
                raise TimeoutError(f"nothing was completed within {_WITHIN:g} s")
            time.sleep(0.02)
        return monotonic()


PATRONI_KINDS: dict[str, Callable[[Failovers, Strike], Awaitable[None]]] = {
    "kill leader": Failovers.kill_leader,
    "cut off leader": Failovers.cut_off_leader,
    "switch over": Failovers.switch_over,
}
