"""What happened, as those saw it who took part: append-only logs, and nothing else reaches the checker.

asked      the workload is about to ask for something
answered   what it was told: ok, refused (it did not happen) or unknown (it may have happened)
seen       what tasks saw: when an attempt began and ended, of which job, due when
ended      what became of every job, as the product tells it when all is quiet
faults     what was done to the product, from when to when
setup      one line: the bounds that the product is held to

`t` is true time in seconds, the same for all who write; `due` and `finished` are the database's time, in seconds since
1970. A file is opened for appending and each line is one write, so processes share it and a killed one tears no line
but its last.
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

Log = Literal["asked", "answered", "seen", "ended", "faults", "setup"]
LOGS: tuple[Log, ...] = ("asked", "answered", "seen", "ended", "faults", "setup")
Record = dict[str, Any]


class Writer(Protocol):
    def write(self, log: Log, record: Record) -> None: ...


class Files:
    """Logs in a folder, one file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._handles: dict[str, int] = {}

    def write(self, log: Log, record: Record) -> None:
        handle = self._handles.get(log)
        if handle is None:
            path = self.folder / f"{log}.jsonl"
            handle = self._handles[log] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(handle, json.dumps(record, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        for handle in self._handles.values():
            os.close(handle)
        self._handles.clear()


class Memory:
    """The same logs as lists, where one process is the whole world."""

    def __init__(self) -> None:
        self.logs: dict[str, list[Record]] = {name: [] for name in LOGS}

    def write(self, log: Log, record: Record) -> None:
        self.logs[log].append(record)

    def save(self, folder: Path) -> None:
        files = Files(folder)
        for name in LOGS:
            for record in self.logs[name]:
                files.write(name, record)
        files.close()


def read(folder: Path) -> dict[str, list[Record]]:
    """The logs of a folder; those that were never written are empty."""
    return {name: list(_lines(folder / f"{name}.jsonl")) for name in LOGS}


def _lines(path: Path) -> Iterator[Record]:
    if not path.exists():
        return
    with path.open() as lines:
        for line in _whole(lines):
            yield json.loads(line)


def _whole(lines: Iterable[str]) -> Iterator[str]:
    """Lines with an end: the last words of a killed process may have none."""
    return (line for line in lines if line.endswith("\n"))
