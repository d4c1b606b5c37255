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
from chaos.real.cluster import ROOT
from chaos.real.disk import can_be_filled, fill, make_room, small_disk
from chaos.real.embedded import LEASE, SLOTS
from chaos.real.environment import LOGS

BOUND = 15.0
RECOVERY = LEASE + 15.0
KINDS = ("kill", "freeze", "lock", "disk full")
_START = 3.0
_DISK = "96m"


def run(logs: Path, *, seconds: float, seed: int, kinds: tuple[str, ...] = KINDS, every: float = 3.0) -> str:
    """Everything that happens is in `logs` afterwards; returns what SQLite says of the file's integrity."""
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
            (logs / "stop").touch()
            life.pause(3.0)
        finally:
            life.end()
        life.tell()
        writer.write(
            "setup",
            {
                "base": base,
                "bound": BOUND,
                "recovery": RECOVERY,
                "slots": SLOTS,
                "end": time.monotonic(),
                "crashes": life.crashes(),
            },
        )
        writer.close()
        with contextlib.closing(sqlite3.connect(folder / "duetime.db")) as connection:
            return str(connection.execute("pragma integrity_check").fetchone()[0])


class Life:
    """The process, and whoever starts it again."""

    def __init__(self, folder: Path, logs: Path) -> None:
        self.folder = folder
        self._logs = logs
        self._output = logs / "embedded.log"
        self._output.unlink(missing_ok=True)
        self._process = self._start()

    def send(self, kind: signal.Signals) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, kind)

    def pause(self, seconds: float) -> None:
        """Let time pass; a process that has ended is started again."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._process.poll() is not None:
                self._process = self._start()
            time.sleep(0.05)

    def end(self) -> None:
        self.send(signal.SIGKILL)
        self._process.wait()

    def tell(self) -> None:
        self._start("tell").wait(180)

    def crashes(self) -> list[str]:
        text = self._output.read_text(errors="replace")
        return [part[-300:] for part in text.split("Traceback (most recent call last)")[1:]]

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
    now = time.monotonic()
    if kind == "disk full" and not can_be_filled(life.folder):
        return
    until = now + (_START if kind == "kill" else lasts + _START)
    writer.write("faults", {"kind": kind, "t": now, "until": until, "node": "embedded"})
    match kind:
        case "kill":
            life.send(signal.SIGKILL)
        case "freeze":
            life.send(signal.SIGSTOP)
            time.sleep(lasts)
            life.send(signal.SIGCONT)
        case "lock":
            _lock(life.folder / "duetime.db", lasts)
        case "disk full":
            fill(life.folder)
            time.sleep(lasts)
            make_room(life.folder)


def _lock(file: Path, seconds: float) -> None:
    """As another program would that opens the file: whoever writes meanwhile is told that it is busy."""
    connection = sqlite3.connect(file, timeout=5, isolation_level=None)
    with contextlib.closing(connection), contextlib.suppress(sqlite3.OperationalError):
        connection.execute("begin immediate")
        time.sleep(seconds)
        connection.execute("rollback")
