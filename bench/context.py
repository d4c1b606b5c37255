"""What every scenario is given: how much to measure, where, and beside whom."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.filled import Filled
from bench.knobs import Knobs
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

    def report(self, scenario: str, unit: str, *, better: str = "higher") -> Report:
        return Report(scenario, unit, self.knobs.results, better=better)

    @contextmanager
    def server_with_many(self) -> Iterator[Filled]:
        """The server with filled databases runs only while it is asked for."""
        with self.filled:
            yield self.filled
