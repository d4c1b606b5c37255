"""What every role of the PostgreSQL store stands on."""

from duetime.store.postgres.database import Database
from duetime.store.postgres.hints import Hints
from duetime.store.postgres.lanes import LaneBook
from duetime.store.postgres.marks import Marks


class Role:
    def __init__(self, url: str, *, pool_size: int = 8, prepared: bool = True) -> None:
        self.database = Database(url, size=pool_size, prepared=prepared)
        self.lane_book = LaneBook(self.database)
        self.marks = Marks()
        self.hints = Hints(self.database)
