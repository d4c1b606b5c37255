"""What alerts about jobs read."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

import msgspec

from duetime.model.job import JobState, decode_options
from duetime.model.run import RunState
from duetime.store.protocol.alert_subjects import EndedRun, RunningRun, UnfiredJob, WaitingRun, WatchedJob
from duetime.store.rules.job_rows import Fields, from_row
from duetime.store.shared.transaction import SharedRole

S = TypeVar("S", bound=msgspec.Struct)


class SubjectRole(SharedRole):
    async def watched_job(self, tenant_id: int, job_id: UUID) -> WatchedJob | None:
        row = await self.transactions.row("job_of_rule", tenant_id=tenant_id, job_id=job_id)
        return None if row is None else _with_options(WatchedJob, row, state=JobState(row["state"]))

    async def states_of_tag(self, tenant_id: int, tag: str, limit: int) -> Sequence[JobState]:
        rows = await self.transactions.rows("states_of_tag", tenant_id=tenant_id, tag=tag, limit=limit)
        return [JobState(row["state"]) for row in rows]

    async def paused_queues(self, tenant_id: int) -> frozenset[str]:
        rows = await self.transactions.rows("paused_queues", tenant_id=tenant_id)
        return frozenset(row["name"] for row in rows)

    async def waiting_of_job(self, tenant_id: int, job_id: UUID) -> WaitingRun | None:
        row = await self.transactions.row("waiting_of_job", tenant_id=tenant_id, job_id=job_id)
        return None if row is None else _with_options(WaitingRun, row)

    async def waiting_in_lane(self, lane_id: int, until: datetime, limit: int) -> Sequence[WaitingRun]:
        rows = await self.transactions.rows("waiting_in_lane", lane_id=lane_id, until=until, limit=limit)
        return [_with_options(WaitingRun, row) for row in rows]

    async def unstarted(self, run_ids: Sequence[UUID]) -> Sequence[datetime]:
        return [row["due_at"] for row in await self.transactions.rows("unstarted", ids=list(run_ids))]

    async def unfired_jobs(self, tenant_id: int, until: datetime, limit: int) -> Sequence[UnfiredJob]:
        wanted = {"tenant_id": tenant_id, "until": until, "limit": limit}
        rows = [
            *await self.transactions.rows("unfired_jobs", **wanted),
            *await self.transactions.rows("unfired_in_backlog", **wanted),
        ]
        return sorted((_with_options(UnfiredJob, row) for row in rows), key=lambda job: job.next_fire_at)

    async def running_of_job(self, tenant_id: int, job_id: UUID, limit: int) -> Sequence[RunningRun]:
        rows = await self.transactions.rows("running_of_job", tenant_id=tenant_id, job_id=job_id, limit=limit)
        return [_with_options(RunningRun, row) for row in rows if row["started_at"] is not None]

    async def longest_running(self, tenant_id: int, limit: int) -> Sequence[RunningRun]:
        rows = await self.transactions.rows("longest_running", tenant_id=tenant_id, limit=limit)
        return [_with_options(RunningRun, row) for row in rows if row["started_at"] is not None]

    async def newest_ends(self, tenant_id: int, job_id: UUID, limit: int) -> Sequence[EndedRun]:
        rows = await self.transactions.rows("newest_ends", tenant_id=tenant_id, job_id=job_id, limit=limit)
        return [from_row(EndedRun, row, end_state=RunState(row["end_state"])) for row in rows]


def _with_options(kind: type[S], row: Fields, **given: object) -> S:
    return from_row(kind, row, options=decode_options(row["options"]), **given)
