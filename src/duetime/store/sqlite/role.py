"""What every role of the SQLite store stands on."""

from pathlib import Path
from typing import Literal

from duetime.clock import Clock, SystemClock
from duetime.store.protocol import Hint
from duetime.store.sqlite.database import Database
from duetime.store.sqlite.hints import Hints
from duetime.store.sqlite.lanes import LaneBook

_SYSTEM_CLOCK = SystemClock()


class Role:
    def __init__(self, path: Path | Literal[":memory:"], *, clock: Clock = _SYSTEM_CLOCK) -> None:
        self.lane_book = LaneBook()
        self.hints = Hints()
        self.database = Database(
            None if path == ":memory:" else Path(path),
            clock,
            on_rollback=self.lane_book.forget,
            on_ends=lambda: self.hints.give(Hint.ENDED),
        )
