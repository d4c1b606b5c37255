"""Carried runs on PostgreSQL: one function call ends or lands a batch (`functions/streams.sql`)."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, TypeVar
from uuid import UUID

from duetime.clock import elapsed
from duetime.errors import LeaseLost
from duetime.ids import stamp_of
from duetime.model.carried import CarriedEnd, CarriedRun
from duetime.model.job import NewJob
from duetime.model.lane import LaneKey
from duetime.model.microseconds import EPOCH, moment, stamp
from duetime.store.postgres.database import LaneGone, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.lanes import LANE_TRIES, Home
from duetime.store.postgres.partitions import drop_spent
from duetime.store.postgres.role import Role
from duetime.store.rules.carried_rows import Landing, Stored, as_carried, found_by
from duetime.store.rules.spent_days import ID_MARGIN, clocks_differ, forgettable
from duetime.store.shared.streams import StreamQueueRole
from duetime.store.shared.transaction import NotUnique

T = TypeVar("T")

_DAYS_USABLE = 60.0
"""Seconds for which the days whose ids act are cached."""
_SECOND, _DAY, _MARGIN = 10**6, 86_400 * 10**6, ID_MARGIN // timedelta(microseconds=1)
"""In microseconds: datetimes would cost a submission more than the rest of the check."""
_FIRST_DAY = EPOCH.date()


class StreamsRole(Role, StreamQueueRole):
    _days: frozenset[int] = frozenset()
    """The days whose ids act, numbered from 1970, and when they were read: on the database's clock and by `elapsed`."""
    _days_at: tuple[int, float] | None = None

    async def carry(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[CarriedRun]:
        if self._days_at is None or elapsed() - self._days_at[1] > _DAYS_USABLE:
            began = elapsed()
            row = await self.database.fetchrow("spent_days")
            assert row is not None
            self._days_at, days = (stamp(row[0]), began), row[1] or ()
            self._days = frozenset((date.fromisoformat(day) - _FIRST_DAY).days for day in days)
        read_at, began = self._days_at
        now = read_at + round((elapsed() - began) * _SECOND)
        for drawn in {stamp_of(job.id) for job in jobs}:  # one for all jobs of a millisecond
            if abs(drawn - now) > _MARGIN or drawn // _DAY not in self._days:
                raise clocks_differ(moment(drawn), moment(now))
        lanes = {job.lane for job in jobs}
        if not self.lane_book.knows_homes(lanes):
            await self.lane_book.homes(lanes, new_work=True)
        return as_carried(jobs)

    @retry_on_deadlock
    async def _end(self, worker_id: UUID, ends: Sequence[CarriedEnd]) -> frozenset[UUID]:
        keys = set({id(end.run.lane): end.run.lane for end in ends}.values())
        tries = 0
        while True:
            tries += 1
            try:
                return await self._try_to_end(worker_id, ends, keys)
            except LaneGone:  # nothing was stored
                if tries == LANE_TRIES:
                    raise
                self.lane_book.forget_homes(keys)

    async def _try_to_end(
        self, worker_id: UUID, ends: Sequence[CarriedEnd], keys: Collection[LaneKey]
    ) -> frozenset[UUID]:
        lanes = await self.lane_book.homes(keys)
        runs = [end.run for end in ends]
        used = sorted(set(lanes.values()))
        tenants, lane_ids = _places(runs, lanes)
        of_runs = (
            [run.run_id for run in runs],
            [run.job_id for run in runs],
            _once(tenants),
            [run.due for run in runs],
            _once([run.timeout_ms for run in runs]),
            [run.args for run in runs],
            _once([run.options for run in runs]),
            _once(lane_ids),
            [end.started for end in ends],
            _once([end.result for end in ends]),
            _once([end.logs for end in ends]),
        )
        arguments = (*of_runs, worker_id, *columns(used, 2), *_found(runs))
        refused: list[UUID] | None = await self.database.fetchval("end_carried", *arguments)
        return frozenset(refused or ())

    @retry_on_deadlock
    async def _land(self, landing: Landing) -> Stored:
        keys, found = landing.lanes, _found(landing.runs)
        starts, seats = landing.starts.get, landing.seat_of.get
        holders = columns([(seat.worker_id, seat.claim_no) for seat in landing.seats], 2)
        how = (landing.is_suspect, *holders, landing.is_shared)
        tries = 0
        while True:
            tries += 1
            lanes = await self.lane_book.ids({*keys, *keys.values()}, new_work=False)
            rows = [
                (*_event_fields(run), lanes[keys[run.lane]], lanes[run.lane], starts(run.run_id), seats(run.run_id))
                for run in landing.runs
            ]
            try:
                arguments = (*columns(rows, 11), *how, *self.lane_book.stamped(lanes.values()), *found)
                row = await self.database.fetchrow("land", *arguments)
                assert row is not None
                return Stored(row[0], frozenset(row[1]), lanes)
            except LaneGone:  # nothing was stored
                if tries == LANE_TRIES:
                    raise
                await self.lane_book.doubt(lanes.values())
            except NotUnique:
                raise LeaseLost("the number of this claim was used before") from None

    async def prune_spent(self, before: date) -> int:
        now = await self.database.fetchval("clock")
        return await drop_spent(self.database, forgettable(before, now))


def _places(runs: Sequence[CarriedRun], lanes: Mapping[LaneKey, Home]) -> tuple[list[int], list[int]]:
    """The tenants and the lanes of these runs. Most runs share the lane, and its key, with the run before."""
    tenants, lane_ids = [], []
    key: LaneKey | None = None
    tenant_id = lane_id = 0
    for run in runs:
        if run.lane is not key:
            key = run.lane
            tenant_id, lane_id = key.tenant_id, lanes[key].id
        tenants.append(tenant_id)
        lane_ids.append(lane_id)
    return tenants, lane_ids


def _once(values: list[T]) -> list[T]:
    """One value for all, if they are the same."""
    return values[:1] if values.count(values[0]) == len(values) else values


def _event_fields(run: CarriedRun) -> tuple[Any, ...]:
    """What both functions are given of a run."""
    ids = (run.run_id, run.job_id, run.lane.tenant_id)
    return (*ids, run.due, run.timeout_ms, run.args, run.options)


def _found(runs: Sequence[CarriedRun]) -> list[list[Any]]:
    found = found_by(runs)
    return [*columns(found.labels, 3), *columns(found.payloads, 2)]
