"""A run on the embedded store: the process is killed and frozen, its file locked by another, its disk filled."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from chaos.history import Files
from chaos.real.cluster import ROOT, unexpected_traces
from chaos.real.disk import can_be_filled, fill, make_room, small_disk
from chaos.real.embedded import COULD_NOT_BEGIN, LEASE, SLOTS
from chaos.real.environment import LOGS

BOUND = 5.0
_START = 3.0
RECOVERY = LEASE + 10.0
QUIET = RECOVERY + BOUND + _START + 3.0
"""Seconds that it goes on after the last fault: long enough for all that was due before to have to have run."""
KINDS = ("kill", "freeze", "lock", "disk full")
_TIMEOUT = 5.0
"""Seconds that a writer waits for a lock."""
_DISK = "96m"


def run(logs: Path, *, seconds: float, seed: int, kinds: tuple[str, ...] = KINDS, every: float = 3.0) -> None:
    """Everything that happens is in `logs` afterwards."""
    random, writer = Random(f"embedded {seed}"), Files(logs)
    (logs / "stop").unlink(missing_ok=True)
    base = time.time() - time.monotonic()
    with tempfile.TemporaryDirectory(prefix="duetime-chaos-") as parent, small_disk(Path(parent), _DISK) as folder:
        life = Life(folder, logs)
        try:
            began = time.monotonic()
            left: list[str] = []
            while time.monotonic() < began + seconds:
                life.pause(every * random.uniform(0.5, 1.5))
                left = left or random.sample(kinds, len(kinds))
                _strike(life, writer, left.pop(), random)
            life.pause(QUIET)
            (logs / "stop").touch()
            life.pause(3.0)
        finally:
            life.end()
        life.tell()
        with contextlib.closing(sqlite3.connect(folder / "duetime.db")) as connection:
            integrity = str(connection.execute("pragma integrity_check").fetchone()[0])
        writer.write(
            "setup",
            {
                "base": base,
                "bound": BOUND,
                "recovery": RECOVERY,
                "slots": SLOTS,
                "end": time.monotonic(),
                "claim to start": LEASE + 10.0,
                "crashes": life.crashes(),
                "damages": [] if integrity == "ok" else [integrity],
            },
        )
        writer.close()


class Life:
    """The process, and what starts it again."""

    def __init__(self, folder: Path, logs: Path) -> None:
        self.folder = folder
        self._logs = logs
        self._output = logs / "embedded.log"
        self._output.unlink(missing_ok=True)
        self._killed = False
        self._ends: list[str] = []
        self._process = self._start()

    def send(self, kind: signal.Signals) -> None:
        if self._process.poll() is None:
            self._killed |= kind is signal.SIGKILL
            os.killpg(self._process.pid, kind)

    def pause(self, seconds: float) -> None:
        """Let time pass; a process that has ended is started again."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if (status := self._process.poll()) is not None:
                if status != COULD_NOT_BEGIN and not (self._killed and status == -signal.SIGKILL):
                    self._ends.append(f"it ended with {status}")
                self._killed = False
                self._process = self._start()
            time.sleep(0.05)

    def end(self) -> None:
        """In good order: a kill would be one more fault."""
        self.send(signal.SIGTERM)
        self.send(signal.SIGCONT)
        try:
            if (status := self._process.wait(60)) not in (0, COULD_NOT_BEGIN):
                self._ends.append(f"asked to stop, it ended with {status}")
        except subprocess.TimeoutExpired:
            self._ends.append("asked to stop, it did not")
            self.send(signal.SIGKILL)
            self._process.wait()

    def tell(self) -> None:
        self._start("tell").wait(180)

    def crashes(self) -> list[str]:
        text = self._output.read_text(errors="replace")
        return [*self._ends, *(part[-300:] for part in unexpected_traces(text))]

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        with self._output.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "chaos.real.embedded", str(self.folder), *arguments],
                cwd=ROOT,
                env=environment | {LOGS: str(self._logs)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def _strike(life: Life, writer: Files, kind: str, random: Random) -> None:
    lasts = random.uniform(0.5, 4.0)
    now, came_of_it = time.monotonic(), 1
    match kind:
        case "kill":
            life.send(signal.SIGKILL)
        case "freeze":
            life.send(signal.SIGSTOP)
            time.sleep(lasts)
            life.send(signal.SIGCONT)
        case "lock":
            came_of_it = _lock(life.folder / "duetime.db", _TIMEOUT + lasts)
        case "disk full" if can_be_filled(life.folder):
            fill(life.folder)
            time.sleep(lasts)
            make_room(life.folder)
        case _:
            return
    record = {"kind": kind, "t": now, "until": time.monotonic() + _START, "node": "embedded"}
    writer.write("faults", {**record, "came_of_it": came_of_it})


def _lock(file: Path, seconds: float) -> int:
    """Lock the file as another program would: after a while, a writer is told that the database is busy."""
    connection = sqlite3.connect(file, timeout=10, isolation_level=None)
    with contextlib.closing(connection), contextlib.suppress(sqlite3.OperationalError):
        connection.execute("begin immediate")
        time.sleep(seconds)
        connection.execute("rollback")
        return 1
    return 0
