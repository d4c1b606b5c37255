"""Processes of their own: duetime's server and worker, the raw framework's echo; and what they cost."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from duetime.ids import new_id
from duetime.model.access import NewKey, Role
from duetime.model.key_text import new_key_text
from duetime.store.protocol.store import Store

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

ENCRYPTION = {"DUETIME_ENCRYPTION_KEYS": "first:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}
"""A server does not start without a key."""


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def cpu_of_family(pid: int) -> float:
    """The same for a process with its children, also those that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / _TICKS
    return cpu_of(pid) + ended + sum(cpu_of(int(child)) for child in _children(pid))


_BACKGROUND = re.compile(rb"postgres: .*(writer|checkpointer|launcher|autovacuum|archiver|startup|logger|stats)")


def cpu_of_sessions(postmaster: int) -> float:
    """The same for what clients of a PostgreSQL server are connected to, without vacuum, checkpoints and the log's
    writer. A session that has ended is not counted: compare moments between which none does."""
    return sum(cpu_of(int(child)) for child in _children(postmaster) if not _BACKGROUND.match(_title(child)))


def _children(pid: int) -> list[str]:
    """Of all its threads: a child belongs to the one that started it."""
    found: list[str] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found += file.read_text().split()
    return found


def _title(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


class Process:
    def __init__(self, pid: int, url: str) -> None:
        self.pid = pid
        self.url = url

    @property
    def cpu(self) -> float:
        """Seconds of CPU that it has used."""
        return cpu_of(self.pid)

    @property
    def memory(self) -> float:
        """MB that it holds."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE / 1e6

    @property
    def most_memory(self) -> float:
        """MB that it held when it held most."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


@contextmanager
def started(*arguments: str, says: str = r"http://[0-9.]+:\d+", **environ: str) -> Iterator[Process]:
    """A process that prints where it listens, or whatever else it says when it is up; it is ended with the block."""
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
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and popen.poll() is None:
            found = re.search(says, popen.stdout.readline())
            if found:
                yield Process(popen.pid, found[0])
                return
        raise RuntimeError(f"{arguments} did not start")
    finally:
        popen.terminate()
        try:
            popen.wait(20)
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()
        if popen.stdout is not None:
            popen.stdout.close()


@contextmanager
def duetime_server(dsn: str) -> Iterator[Process]:
    environ = {
        "DUETIME_DATABASE_URL": dsn,
        "DUETIME_PORT": "0",
        "DUETIME_LOG_LEVEL": "warning",
        "DUETIME_RETENTION": "3650d",  # what a filled database keeps is not to be pruned
        "DUETIME_DEAD_LETTER_RETENTION": "3650d",
        **ENCRYPTION,
    }
    with started("-m", "duetime.cli", "server", **environ) as process:
        yield process


@contextmanager
def duetime_worker(dsn: str, tally: Path, slots: int = 1000, **more: str) -> Iterator[Process]:
    environ = {"DUETIME_DATABASE_URL": dsn, "DUETIME_LOG_LEVEL": "warning", "TALLY": str(tally), "DUETIME_GRACE": "1s"}
    environ |= more
    command = ("-m", "duetime.cli", "worker", "bench.tasks:app", "--slots", str(slots))
    with started(*command, says="working on", **environ) as process:
        yield process


@contextmanager
def echo_server() -> Iterator[Process]:
    with started("-m", "bench.echo") as process:
        yield process


async def root_key(store: Store) -> str:
    made = new_key_text()
    await store.access.create_key(NewKey(new_id(), None, Role.ROOT, "bench", made.hash, made.hint))
    return made.text
