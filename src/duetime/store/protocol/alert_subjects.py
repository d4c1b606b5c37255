"""What alerts about jobs read: each call has a bounded cost, whatever the number of jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

import msgspec

from duetime.model.job import JobState, Options
from duetime.model.run import RunState


class WatchedJob(msgspec.Struct, frozen=True):
    task: str
    queue: str
    state: JobState
    problem: str | None
    options: Options
    next_fire_at: datetime | None


class WaitingRun(msgspec.Struct, frozen=True):
    run_id: UUID
    job_id: UUID
    task: str
    queue: str
    due_at: datetime
    ready_at: datetime
    attempt: int
    lost: int
    options: Options

    @property
    def never_started(self) -> bool:
        return self.attempt == 0 and self.lost == 0


class UnfiredJob(msgspec.Struct, frozen=True):
    job_id: UUID
    task: str
    queue: str
    next_fire_at: datetime
    options: Options


class RunningRun(msgspec.Struct, frozen=True):
    run_id: UUID
    job_id: UUID
    task: str
    queue: str
    started_at: datetime
    options: Options


class EndedRun(msgspec.Struct, frozen=True):
    run_id: UUID
    end_state: RunState
    started_at: datetime | None
    finished_at: datetime


class AlertSubjects(Protocol):
    async def watched_job(self, tenant_id: int, job_id: UUID) -> WatchedJob | None:
        """A job that has a future; None for one that was deleted, or has fired for the last time."""

    async def states_of_tag(self, tenant_id: int, tag: str, limit: int) -> Sequence[JobState]:
        """The states of the newest jobs with a tag. Those without a future are omitted."""

    async def paused_queues(self, tenant_id: int) -> frozenset[str]:
        """The queues of a tenant that are paused."""

    async def waiting_of_job(self, tenant_id: int, job_id: UUID) -> WaitingRun | None:
        """The run of a job that has waited longest for its first start, of those that could start."""

    async def waiting_in_lane(self, lane_id: int, until: datetime, limit: int) -> Sequence[WaitingRun]:
        """The runs of a lane that were ready at `until` and still wait, the longest waiting first."""

    async def unstarted(self, run_ids: Sequence[UUID]) -> Sequence[datetime]:
        """When those of these runs were due that wait for their first start."""

    async def unfired_jobs(self, tenant_id: int, until: datetime, limit: int) -> Sequence[UnfiredJob]:
        """Jobs whose occurrence was due at `until` and has not been fired, the earliest first. At most `limit` overdue
        jobs of all tenants, and as many that the tenant's rate of fires holds back, are looked at."""

    async def running_of_job(self, tenant_id: int, job_id: UUID, limit: int) -> Sequence[RunningRun]:
        """The runs of a job that have been running for longest."""

    async def longest_running(self, tenant_id: int, limit: int) -> Sequence[RunningRun]:
        """The runs of a tenant that have been running for longest. Reads all running runs."""

    async def newest_ends(self, tenant_id: int, job_id: UUID, limit: int) -> Sequence[EndedRun]:
        """The newest runs of a job that have ended, the newest first."""
