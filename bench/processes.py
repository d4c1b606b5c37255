"""Servers as processes of their own: duetime's, and the raw framework's echo beside it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from duetime.ids import new_id
from duetime.model.access import NewKey, Role
from duetime.model.key_text import new_key_text
from duetime.store.protocol import Store

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process:
    def __init__(self, pid: int, url: str) -> None:
        self.pid = pid
        self.url = url

    @property
    def cpu(self) -> float:
        """Seconds of CPU that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def memory(self) -> float:
        """MB that it holds."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE / 1e6


@contextmanager
def started(*arguments: str, **environ: str) -> Iterator[Process]:
    """A process that prints where it listens; it is ended with the block."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
    popen = subprocess.Popen(
        [sys.executable, *arguments],
        env={**kept, **environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert popen.stdout is not None
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = re.search(r"http://[0-9.]+:\d+", popen.stdout.readline())
            if found:
                yield Process(popen.pid, found[0])
                return
        raise RuntimeError(f"{arguments} did not start")
    finally:
        popen.terminate()
        popen.wait(20)


@contextmanager
def duetime_server(dsn: str) -> Iterator[Process]:
    environ = {"DUETIME_DATABASE_URL": dsn, "DUETIME_PORT": "0", "DUETIME_LOG_LEVEL": "warning"}
    with started("-m", "duetime.cli", "server", **environ) as process:
        yield process


@contextmanager
def echo_server() -> Iterator[Process]:
    with started("-m", "bench.echo") as process:
        yield process


async def root_key(store: Store) -> str:
    made = new_key_text()
    await store.create_key(NewKey(new_id(), None, Role.ROOT, "bench", made.hash, made.hint))
    return made.text
