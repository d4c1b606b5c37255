"""A peer as the harness sees it: submit so many, drain so many, send at a rate or plan ahead and see how late they
start."""

import asyncio
import copy
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import asyncpg

from bench.peers.environments import CannotRun, node_home, python_of
from bench.peers.tally import Tally

ROOT = Path(__file__).parents[2]
_STILL = 20.0
"""A worker that starts nothing for so long, in seconds, will not."""
_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where starts are counted: not on the disk that databases wait for."""
_LOSSES = 0.001
"""What part of the runs may be missing at the end of a drain."""


class Peer:
    """`place` gives an address to work on: an empty database, a Redis, or `memory`."""

    def __init__(
        self,
        name: str,
        place: Callable[[], str],
        *,
        driver: str | None = None,
        drains: int = 100_000,
        node: bool = False,
        together: bool = False,
        workers: int = 1,
        settings: Mapping[str, str] = MappingProxyType({}),
        python: str | None = None,
    ) -> None:
        self.name = name
        self.drains = drains
        """How many runs it drains where duetime drains 100,000: enough for several seconds."""
        self.node = node
        self.workers = workers
        """How many worker processes it works with, beside those that it starts itself."""
        self.settings = settings
        """Settings that its driver takes from its environment, where those it has are not wanted."""
        self._python = python
        self._together = together
        self.place = place
        self.driver = driver or name

    def with_settings(self, workers: int, settings: Mapping[str, str]) -> "Peer":
        """The same in other settings."""
        other = copy.copy(self)
        other.workers, other.settings = workers, settings
        return other

    def prepare(self) -> None:
        """Make its environment; raises `CannotRun`."""
        self._command()

    async def submit(self, count: int, *, bulk: bool, **environ: str) -> float:
        """Jobs a second."""
        url = self.place()
        await self._ask(url, "reset", **environ)
        seconds = await self._ask(url, "submit", str(count), "bulk" if bulk else "single", **environ)
        return (count - 1) / float(seconds)

    async def drain(self, count: int, url: str | None = None, **environ: str) -> float:
        """Runs a second, from the first start to the last."""
        url = url or self.place()
        if self._together:
            async with self.working(url, self.workers, FILL=str(count), **environ) as tally:
                return await self.drained(tally, count)
        await self.fill(url, count, **environ)
        async with self.working(url, self.workers, **environ) as tally:
            return await self.drained(tally, count)

    async def fill(self, url: str, count: int, **environ: str) -> None:
        """Jobs that wait for a worker."""
        await self._ask(url, "reset", **environ)
        await self._ask(url, "submit", str(count), "bulk", **environ)
        if url.startswith("postgresql://"):
            await settle(url)

    async def drained(self, tally: Tally, count: int) -> float:
        """Wait for all of them; runs a second."""
        await self.until(tally, count)
        if (started := tally.count()) < count * (1 - _LOSSES):
            raise CannotRun(f"{started:,} of {count:,} runs started")
        return tally.rate()

    async def lags(self, rate: float, seconds: float, *, skip: float = 1.0) -> list[float]:
        """How late each one starts, in seconds, in the order in which they were sent at this rate; `inf` at the end for
        those that never start."""
        url = self.place()
        if self._together:
            async with self.working(url, SEND=f"{rate} {seconds}") as tally:
                await self.until(tally, int(rate * seconds), most=3 * seconds)
                return _all_lags(tally, int(rate * seconds), skip)
        async with self._warm(url) as tally:
            sent = int(await self._ask(url, "send", str(rate), str(seconds)))
            await self.until(tally, sent, most=2 * seconds)
            return _all_lags(tally, int(rate * seconds), skip)

    async def lateness(self, rate: float, seconds: float) -> list[float]:
        """How long after its time each one starts that was planned ahead, in seconds, sorted: below 0 is early."""
        url, count = self.place(), int(rate * seconds)
        if self._together:
            async with self.working(url, PEER_PLANS="1", PLAN=f"{rate} {seconds}") as tally:
                return await self._planned(tally, count, 10 * seconds)
        async with self._warm(url, PEER_PLANS="1") as tally:
            await self._ask(url, "plan", str(rate), str(seconds))
            return await self._planned(tally, count, 10 * seconds)

    @asynccontextmanager
    async def _warm(self, url: str, **more: str) -> AsyncIterator[Tally]:
        """Its workers, after their first runs."""
        await self._ask(url, "reset")
        await self._ask(url, "submit", "200", "bulk")
        async with self.working(url, None, **more) as tally:
            await self.until(tally, 200)
            tally.forget()
            yield tally

    async def _planned(self, tally: Tally, count: int, most: float) -> list[float]:
        await self.until(tally, count, most=most)
        if (started := tally.count()) < count:
            raise CannotRun(f"{started:,} of {count:,} runs started")
        return sorted(tally.lags())

    async def until(self, tally: Tally, count: int, *, most: float = 600.0) -> None:
        """Wait for so many starts, for as long as there are any."""
        began = last = time.monotonic()
        seen = 0
        while (now := tally.count()) < count:
            if now > seen:
                began = time.monotonic() if not seen else began  # what came before is starting up
                seen, last = now, time.monotonic()
            still = time.monotonic() - last
            if now and (still > _STILL or time.monotonic() - began > most):
                return
            if still > 2 * _STILL and not now:
                raise CannotRun(f"its worker started nothing in {2 * _STILL:.0f} s")
            await asyncio.sleep(0.05)

    def _command(self) -> tuple[list[str], dict[str, str]]:
        if self.node:
            home = node_home(self.driver)
            return ["node", str(Path(__file__).parent / "drivers" / f"{self.driver}.mjs")], {"PEER_HOME": str(home)}
        python = self._python or python_of(self.driver)
        return [str(python), "-m", "bench.peers.driver", self.driver], {}

    def _environ(self, url: str, **more: str) -> dict[str, str]:
        return {**os.environ, "PEER_URL": url, "PYTHONPATH": str(ROOT), **self._command()[1], **self.settings, **more}

    async def _ask(self, url: str, *arguments: str, **environ: str) -> float:
        process = await asyncio.create_subprocess_exec(
            *self._command()[0],
            *arguments,
            env=self._environ(url, **environ),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, errors = await process.communicate()
        if process.returncode:
            last = errors.decode(errors="replace").strip().splitlines()[-1:]
            raise CannotRun(f"{arguments[0]} failed: {' '.join(last)}")
        answer: float = json.loads(out.decode().strip().splitlines()[-1])
        return answer

    def _start(self, url: str, **more: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*self._command()[0], "work"],
            env=self._environ(url, **more),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @asynccontextmanager
    async def working(self, url: str, workers: int | None = None, **more: str) -> AsyncIterator[Tally]:
        """Its workers, each in a process group of its own that ends with the block."""
        with tempfile.TemporaryDirectory(prefix="duetime-tally-", dir=_MEMORY) as folder:
            processes = [self._start(url, TALLY=folder, **more) for _ in range(workers or self.workers)]
            try:
                yield Tally(Path(folder))
            finally:
                for process in processes:
                    await asyncio.to_thread(_end, process)


async def settle(url: str) -> None:
    """What was just filled is vacuumed, analysed and on disk, as it is for the limit."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("vacuum analyze")
        await connection.execute("checkpoint")
    finally:
        await connection.close()


def _all_lags(tally: Tally, count: int, skip: float) -> list[float]:
    missing = max(0, count - tally.count())
    lags = tally.lags(skip=skip) if missing < count else []
    return lags + [float("inf")] * missing


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The group is ours alone: it was started as a session of its own."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            break
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
