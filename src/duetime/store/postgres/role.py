"""What every role of the PostgreSQL store stands on."""

from duetime.store.postgres.database import Database
from duetime.store.postgres.hints import Hints
from duetime.store.postgres.lanes import LaneBook
from duetime.store.postgres.marks import Marks
from duetime.store.postgres.parked_runs import ParkedRuns
from duetime.store.postgres.run_maker import PostgresRunMaker
from duetime.store.postgres.transaction import PostgresTransactions
from duetime.store.shared.ready import Ready
from duetime.store.shared.stream_readings import StreamReadings
from duetime.store.shared.transaction import SharedRole


class Context:
    """What the roles of one store share: its database, and what this process knows of it."""

    def __init__(
        self,
        url: str,
        *,
        pool_size: int,
        prepared: bool,
        direct: str | None,
        target: str,
        lanes_per_tenant: int,
    ) -> None:
        self.database = Database(url, size=pool_size, prepared=prepared, direct=direct, target=target)
        self.transactions = PostgresTransactions(self.database)
        self.lanes_per_tenant = lanes_per_tenant
        self.lane_book = LaneBook(self.database, lanes_per_tenant)
        self.run_maker = PostgresRunMaker(self.lane_book)
        self.marks = Marks()
        self.cursor_marks = Marks()
        self.hints: Hints = Hints(self.database)
        self.ready = Ready(self.hints)
        self.stream_readings = StreamReadings()
        self.parking = ParkedRuns(self.database, self.ready)


class Role(SharedRole):
    hints: Hints

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.database = context.database
        self.lanes_per_tenant = context.lanes_per_tenant
        self.lane_book = context.lane_book
        self.marks = context.marks
        self.cursor_marks = context.cursor_marks
        self.parking = context.parking
