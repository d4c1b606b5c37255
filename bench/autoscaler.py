"""A small autoscaler: it asks for the demand of a queue as KEDA does, and starts and stops worker processes.

As with Kubernetes' autoscaler, more workers start at once, and fewer are wanted only when no answer within the
stabilization window asked for more. Nothing else tells it what comes.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from bench.load import Connection
from bench.report import console


class Autoscaler:
    def __init__(self, connection: Connection, path: str, *, every: float, stabilize: float, most: int) -> None:
        self._connection = connection
        self._path = path
        self._every, self._stabilize, self._most = every, stabilize, most
        self._answers: deque[tuple[float, int]] = deque()
        self._workers: list[subprocess.Popen[bytes]] = []
        self._leaving: list[subprocess.Popen[bytes]] = []
        self.steps: list[tuple[float, int]] = []
        """When the number of workers changed, and to what."""
        self.answered: list[float] = []
        """Seconds that each answer took."""

    @property
    def workers(self) -> int:
        return len(self._workers)

    async def run(self, environ: dict[str, str], slots: int) -> None:
        """Until cancelled; then all workers are stopped."""
        try:
            while True:
                began = time.monotonic()
                answer: dict[str, Any] = msgspec.json.decode(await self._connection.get(self._path, {}))
                self.answered.append(time.monotonic() - began)
                self._scale(min(self._most, answer["workers"]), environ, slots)
                await asyncio.sleep(max(0.0, self._every - (time.monotonic() - began)))
        finally:
            self._stop(self.workers)
            for worker in self._leaving:
                worker.wait(30)

    def _scale(self, wanted: int, environ: dict[str, str], slots: int) -> None:
        now = time.monotonic()
        self._answers.append((now, wanted))
        while now - self._answers[0][0] > self._stabilize:
            self._answers.popleft()
        wanted = max(count for _, count in self._answers)
        if wanted == self.workers:
            return
        if wanted < self.workers:
            self._stop(self.workers - wanted)
        while self.workers < wanted:
            self._workers.append(_worker(environ, slots))
        self.steps.append((time.time(), wanted))
        console.print(f"    {wanted} workers", style="dim")

    def _stop(self, count: int) -> None:
        for worker in self._workers[self.workers - count :]:
            worker.send_signal(signal.SIGTERM)
            self._leaving.append(worker)
        del self._workers[self.workers - count :]


def _worker(environ: dict[str, str], slots: int) -> subprocess.Popen[bytes]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
    command = [sys.executable, "-m", "duetime.cli", "worker", "bench.tasks:app", "--slots", str(slots)]
    return subprocess.Popen(command, env={**kept, **environ}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def worker_environ(dsn: str, tally: Path) -> dict[str, str]:
    return {
        "DUETIME_DATABASE_URL": dsn,
        "DUETIME_LOG_LEVEL": "warning",
        "DUETIME_GRACE": "5s",
        "TALLY": str(tally),
    }
