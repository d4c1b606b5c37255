"""Clocks that can be put forward and back, where libfaketime is installed; monotonic time stays what it is."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.real.environment import AHEAD
from chaos.real.patroni import Patroni
from tests.support.postgres import Server

_LIBRARY = "faketime/libfaketime.so.1"
CACHED = 1.0
"""Seconds: how long a process may go on with the old time."""
_CACHE_DURATION = "0"
"""libfaketime reads the file again when more whole seconds than this have begun since."""


def library() -> str | None:
    for folder in (Path("/usr/lib"), *Path("/usr/lib").glob("*-linux-gnu"), Path("/usr/local/lib")):
        if (folder / _LIBRARY).exists():
            return str(folder / _LIBRARY)
    return None


def until_midnight() -> float:
    """Seconds until the clock of this process shows midnight (UTC)."""
    return 86400.0 - time.time() % 86400.0


def put_forward(clock_file: Path, ahead: float) -> dict[str, str]:
    """The environment in which everything, and all that it starts, is ahead of the machine's clock."""
    clock_file.write_text(f"{ahead:+.2f}\n")
    clock_file.chmod(0o644)
    return {**preloading(clock_file), AHEAD: f"{ahead}"}


def seen_through(clock_file: Path) -> float:
    """By how much a process that has this clock is ahead of us, in seconds."""
    environment = {**os.environ, **preloading(clock_file)}
    command = [sys.executable, "-S", "-c", "import time; print(time.time())"]
    told = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    return float(told.stdout) - time.time()


def preloading(clock_file: Path) -> dict[str, str]:
    """The environment in which this file says what time it is."""
    found = library()
    if found is None:
        return {}
    return {
        "LD_PRELOAD": found,
        "FAKETIME_TIMESTAMP_FILE": str(clock_file),
        "FAKETIME_CACHE_DURATION": _CACHE_DURATION,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


class DatabaseClock:
    """The clock of the database's host, as PostgreSQL sees it."""

    def __init__(self, server: Server | Patroni) -> None:
        self._server = server
        self._file = server.folder / "clock"
        self.offset = 0.0
        self.set(0.0)

    def set(self, offset: float) -> None:
        self.offset = offset
        ahead = float(os.environ.get(AHEAD, "0"))
        self._file.write_text(f"{ahead + offset:+.2f}\n")
        self._file.chmod(0o644)

    def start(self) -> None:
        """Start the server under this clock."""
        with self._preloaded():
            self._server.start()

    @contextmanager
    def _preloaded(self) -> Iterator[None]:
        added = preloading(self._file)
        before = {name: os.environ.get(name) for name in added}
        os.environ.update(added)
        try:
            yield
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value
