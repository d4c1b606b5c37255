"""What every role of the SQLite store stands on."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from duetime.clock import Clock
from duetime.store.protocol.store import Hint
from duetime.store.shared.ready import Ready
from duetime.store.shared.stream_readings import StreamReadings
from duetime.store.shared.transaction import SharedRole
from duetime.store.sqlite.database import Database
from duetime.store.sqlite.hints import Hints
from duetime.store.sqlite.lanes import LaneBook
from duetime.store.sqlite.run_maker import SqliteRunMaker
from duetime.store.sqlite.transaction import SqliteTransactions


class Context:
    """What the roles of one store share: its database, and what this process knows of it."""

    def __init__(
        self,
        path: Path | Literal[":memory:"],
        *,
        clock: Clock,
        lanes_per_tenant: int,
        serves: Path | None,
        lock_timeout: float,
        database: Callable[..., Database],
    ) -> None:
        self.lane_book = LaneBook(clock, lanes_per_tenant)
        self.run_maker = SqliteRunMaker(self.lane_book)
        self.hints: Hints = Hints()
        self.ready = Ready(self.hints)
        self.stream_readings = StreamReadings()
        self.database = database(
            None if path == ":memory:" else Path(path),
            clock,
            on_rollback=self.lane_book.forget,
            on_ends=lambda: self.hints.give(Hint.ENDED),
            serves=serves,
            lock_timeout=lock_timeout,
        )
        self.transactions = SqliteTransactions(self.database)


class Role(SharedRole):
    hints: Hints

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.database = context.database
        self.lane_book = context.lane_book
