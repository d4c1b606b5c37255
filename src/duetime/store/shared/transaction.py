"""The interface through which shared roles run their statements.

A role is written once, with named statements, named parameters and plain Python values. PostgreSQL runs the work of a
transaction on the event loop; SQLite runs the same coroutine on the store's own thread, where no statement suspends. So
the work may await only its transaction. It may run more than once: a transaction that the database aborted because of a
deadlock is repeated.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from duetime.errors import StoreRejected
from duetime.model.lane import LaneKey
from duetime.store.rules.job_rows import Fields
from duetime.store.shared.ready import Hints, Ready
from duetime.store.shared.stream_readings import StreamReadings

Row = Fields
Rows = Sequence[Row]
Table = Sequence[Sequence[Any]]
"""Rows of values, of which the fields are named once."""
AT_ONCE = 2500
"""Rows of a table that are made ready for the database in one piece: more would keep the event loop busy."""
BYTES_AT_ONCE = 1024**2
"""The same for bytes of content."""
T = TypeVar("T")


class NotUnique(StoreRejected):
    """A row with this key exists already."""


class NewRun(NamedTuple):
    tenant_id: int
    job_id: UUID
    run_id: UUID
    lane_id: int
    due_at: datetime
    ready_at: datetime


class Skipped(NamedTuple):
    tenant_id: int
    job_id: UUID
    run_id: UUID
    lane_id: int
    due_at: datetime
    reason: str


class Statements(Protocol):
    """Named statements, from `shared/sql` or from the `sql` folder of the dialect."""

    async def rows(self, name: str, /, **given: Any) -> Sequence[Row]: ...

    async def row(self, name: str, /, **given: Any) -> Row | None:
        """The first row, if there is one."""

    async def value(self, name: str, /, **given: Any) -> Any:
        """The first column of the first row; None without a row."""

    async def execute(self, name: str, /, **given: Any) -> int:
        """Returns how many rows it changed."""

    async def many(self, name: str, given: Sequence[Mapping[str, Any]], /) -> None:
        """Run a statement for each of these, all of them or none."""


class Transaction(Statements, Protocol):
    """One transaction."""

    async def each(self, name: str, fields: Sequence[str], rows: Table, /, **given: Any) -> Rows:
        """Run a statement for all these rows, and return what it returns for them together. The statement of PostgreSQL
        runs once and gets each field as an array; the one of SQLite runs for each row."""

    async def put(self, name: str, fields: Sequence[str], rows: Table, /, **given: Any) -> None:
        """The same for a statement whose rows are not needed."""

    async def lock(self, name: str, /, **given: Any) -> Row | None:
        """Run a statement that only a database with several writers needs: it locks rows against other transactions,
        or repairs what that did to them. A file has one writer, so SQLite has no such statement, and the answer is
        None."""

    async def compute(self, function: Callable[..., T], /, *given: Any) -> T:
        """Call a function that takes long, on a thread that nothing else waits for."""

    async def now(self) -> datetime:
        """The database's clock."""


Work = Callable[[Transaction], Coroutine[Any, Any, T]]


class Transactions(Statements, Protocol):
    """A database. Each of its statements is its own transaction."""

    def of(self, tenant_id: int) -> "Transactions":
        """Transactions that see only the rows of one tenant, even if a statement lacks the condition."""

    def reading(self, tenant_id: int) -> "Transactions":
        """The same, but read only, and all statements of a transaction see the same snapshot."""

    async def run(self, work: Work[T]) -> T:
        """Run `work` in a transaction; returns its result after the commit."""


class SingleStatements(ABC):
    """Each statement in its own transaction."""

    @abstractmethod
    async def alone(self, work: Work[T]) -> T:
        """Run the one statement of this work."""

    async def rows(self, name: str, /, **given: Any) -> Sequence[Row]:
        return await self.alone(lambda transaction: transaction.rows(name, **given))

    async def row(self, name: str, /, **given: Any) -> Row | None:
        return await self.alone(lambda transaction: transaction.row(name, **given))

    async def value(self, name: str, /, **given: Any) -> Any:
        return await self.alone(lambda transaction: transaction.value(name, **given))

    async def execute(self, name: str, /, **given: Any) -> int:
        return await self.alone(lambda transaction: transaction.execute(name, **given))

    async def many(self, name: str, given: Sequence[Mapping[str, Any]], /) -> None:
        await self.alone(lambda transaction: transaction.many(name, given))


class RunMaker(Protocol):
    """Runs of stored jobs, and the lanes that they go to: each store makes them by the statements of its hot path."""

    async def lanes(
        self, transaction: Transaction, keys: Iterable[LaneKey], *, new_work: bool = False
    ) -> Mapping[LaneKey, int]:
        """The ids of lanes, which hold until the transaction ends. Only `new_work` counts against the tenant's quota of
        lanes."""

    async def keys(self, transaction: Transaction, lane_ids: Iterable[int]) -> Mapping[int, LaneKey]:
        """The keys of lanes that have runs."""

    async def awake_lanes(self, transaction: Transaction, lane_ids: Iterable[int]) -> Mapping[int, int]:
        """For each of these lanes, which may have fallen asleep, the id under which it is awake now."""

    async def make(self, transaction: Transaction, runs: Sequence[NewRun]) -> None:
        """Make runs of one job beside its rhythm."""

    async def skip(self, transaction: Transaction, skips: Sequence[Skipped]) -> None:
        """Keep occurrences of one job that made no run, and why."""


class SharedContext(Protocol):
    """What all roles of a store have in common, in either dialect."""

    @property
    def transactions(self) -> Transactions: ...

    @property
    def ready(self) -> Ready: ...

    @property
    def hints(self) -> Hints: ...

    @property
    def run_maker(self) -> RunMaker: ...

    @property
    def stream_readings(self) -> StreamReadings: ...


class SharedRole:
    """A role that both stores share."""

    def __init__(self, context: SharedContext) -> None:
        self.transactions = context.transactions
        self.ready = context.ready
        self.hints = context.hints
        self.run_maker = context.run_maker
        self.stream_readings = context.stream_readings


def found(row: Row | None) -> Row:
    """A row that must exist because of earlier statements."""
    assert row is not None
    return row
