"""Runs and lanes for the roles that both stores share, inside their transactions."""

from collections.abc import Iterable, Mapping, Sequence

from duetime.model.lane import LaneKey
from duetime.model.microseconds import stamp
from duetime.store.postgres.database import SQL, Connection, columns
from duetime.store.postgres.lanes import LaneBook
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.shared.transaction import NewRun, Skipped, Transaction


class PostgresRunMaker:
    def __init__(self, lane_book: LaneBook) -> None:
        self._lane_book = lane_book

    async def lanes(
        self, transaction: Transaction, keys: Iterable[LaneKey], *, new_work: bool = False
    ) -> Mapping[LaneKey, int]:
        return await self._lane_book.ids_within(_of(transaction), keys, new_work=new_work)

    async def keys(self, transaction: Transaction, lane_ids: Iterable[int]) -> Mapping[int, LaneKey]:
        return await self._lane_book.keys_within(_of(transaction), lane_ids)

    async def awake_lanes(self, transaction: Transaction, lane_ids: Iterable[int]) -> Mapping[int, int]:
        return await self._lane_book.awake_within(_of(transaction), lane_ids)

    async def make(self, transaction: Transaction, runs: Sequence[NewRun]) -> None:
        rows = [(run.job_id, run.run_id, run.lane_id, stamp(run.due_at), stamp(run.ready_at)) for run in runs]
        await _of(transaction).execute(SQL["make_runs"], *columns(rows, 5), None, True)

    async def skip(self, transaction: Transaction, skips: Sequence[Skipped]) -> None:
        await _of(transaction).execute(SQL["skip_runs"], *columns([skip[1:] for skip in skips], 5))


def _of(transaction: Transaction) -> Connection:
    assert isinstance(transaction, PostgresTransaction)
    return transaction.connection
