"""What every scenario is given: how much to measure, where, and beside whom."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.disks import check_room
from bench.filled import Filled
from bench.knobs import MEASURED_BY, Knobs
from bench.peers.peer import Peer
from bench.peers.registry import Peers
from bench.report import Report
from bench.stores import Databases


class Bench:
    def __init__(self, knobs: Knobs, databases: Databases, peers: Peers, filled: Filled) -> None:
        self.knobs = knobs
        self.databases = databases
        self.peers = peers
        self.filled = filled
        self.ours = Peer("duetime", databases.postgres, driver="duetime", python=sys.executable)
        """duetime on PostgreSQL, driven like its peers: a submitting process and a worker process."""
        self.embedded = Peer(
            "duetime",
            lambda: f"sqlite:///{databases.file()}",
            driver="duetime",
            python=sys.executable,
            together=True,
        )
        """duetime on SQLite, all in one process."""

    def driven(self, kind: str) -> Peer:
        """duetime on a store of this kind, driven like its peers."""
        return self.ours if kind == "postgres" else self.embedded

    def report(self, scenario: str, unit: str, *, better: str = "higher") -> Report:
        return Report(scenario, unit, self.knobs.results, better=better, about=self._about())

    def _about(self) -> dict[str, Any]:
        """Of what, on what and how much was measured: two results that differ here are not to be compared."""
        knobs = {name: value for name, value in msgspec.structs.asdict(self.knobs).items() if name in MEASURED_BY}
        about = {"postgres": self.databases.server.version, "knobs": knobs}
        return about if (revision := _revision()) is None else {"revision": revision, **about}

    @contextmanager
    def server_with_many(self) -> Iterator[Filled]:
        """The server with filled databases runs only while it is asked for. Raises `NoDisk`."""
        check_room(self.knobs.data, self.knobs.stored)
        with self.filled:
            yield self.filled


def _revision() -> str | None:
    """The commit that is measured, and whether it is changed: what results and pages say does not count, they are
    written while others are measured. None outside a repository."""
    commit = _git("rev-parse", "--short=12", "HEAD")
    if commit is None:
        return None
    changed = _git("status", "--porcelain", "--untracked-files=no", ".", ":!bench/results", ":!docs", ":!README.md")
    return f"{commit}-dirty" if changed else commit


def _git(*arguments: str) -> str | None:
    root = Path(__file__).parents[1]
    try:
        done = subprocess.run(("git", *arguments), cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
