"""Runs and lanes for the roles that both stores share, inside their transactions."""

from collections.abc import Iterable, Mapping, Sequence

from duetime.model.event import EventKind
from duetime.model.lane import LaneKey
from duetime.store.shared.transaction import NewRun, Skipped, Transaction
from duetime.store.sqlite import occurrences
from duetime.store.sqlite.event_log import append_events
from duetime.store.sqlite.lanes import LaneBook
from duetime.store.sqlite.transaction import SqliteTransaction
from duetime.store.sqlite.values import stamp


class SqliteRunMaker:
    def __init__(self, lane_book: LaneBook) -> None:
        self._lane_book = lane_book

    async def lanes(
        self, transaction: Transaction, keys: Iterable[LaneKey], *, new_work: bool = False
    ) -> Mapping[LaneKey, int]:
        return self._lane_book.ids(_of(transaction).connection, keys, new_work=new_work)

    async def keys(self, transaction: Transaction, lane_ids: Iterable[int]) -> Mapping[int, LaneKey]:
        connection = _of(transaction).connection
        found = {lane_id: self._lane_book.key(connection, lane_id) for lane_id in set(lane_ids)}
        return {lane_id: key for lane_id, key in found.items() if key is not None}

    async def awake_lanes(self, transaction: Transaction, lane_ids: Iterable[int]) -> Mapping[int, int]:
        connection = _of(transaction).connection
        return {lane_id: self._lane_book.awake_again(connection, lane_id) for lane_id in set(lane_ids)}

    async def make(self, transaction: Transaction, runs: Sequence[NewRun]) -> None:
        connection, now = _of(transaction).connection, _of(transaction).at
        made = [
            occurrences.NewRun(run.job_id.bytes, run.run_id.bytes, run.lane_id, stamp(run.due_at), stamp(run.ready_at))
            for run in runs
        ]
        occurrences.make_runs(connection, now, made, manual=True)
        if runs:
            append_events(connection, now, EventKind.FIRED, runs[0].tenant_id, [run.run_id for run in runs])

    async def skip(self, transaction: Transaction, skips: Sequence[Skipped]) -> None:
        connection, now = _of(transaction).connection, _of(transaction).at
        rows = [
            occurrences.Skipped(item.job_id.bytes, item.run_id.bytes, item.lane_id, stamp(item.due_at), item.reason)
            for item in skips
        ]
        occurrences.skip_runs(connection, now, rows)
        if skips:
            append_events(connection, now, EventKind.SKIPPED, skips[0].tenant_id, [item.run_id for item in skips])


def _of(transaction: Transaction) -> SqliteTransaction:
    assert isinstance(transaction, SqliteTransaction)
    return transaction
