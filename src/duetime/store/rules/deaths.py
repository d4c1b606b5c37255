"""What lost workers mean for jobs, tasks and runs: the same for every store."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from duetime.model.lane import LaneKey, trial_after
from duetime.model.suspicion import LostRun, TaskOf


def deaths_of_jobs(losses: Iterable[LostRun]) -> dict[tuple[int, str, UUID], tuple[int, datetime]]:
    """How many workers each job has lost with these runs, and when the last one died. A worker counts once, even with
    several of them."""
    workers: dict[tuple[int, str, UUID], dict[UUID, datetime]] = {}
    for loss in losses:
        died = workers.setdefault((loss.lane.tenant_id, loss.lane.task, loss.job_id), {})
        died[loss.worker_id] = max(loss.died_at, died.get(loss.worker_id, loss.died_at))
    return {job: (len(died), max(died.values())) for job, died in sorted(workers.items())}


def worst_of_tasks(
    losses: Iterable[LostRun], in_a_row: Mapping[UUID, int]
) -> dict[TaskOf, tuple[int, datetime, datetime]]:
    """The most workers that a run or a job of each task has lost in a row, when the last of its runs started, and when
    the last worker died."""
    worst: dict[TaskOf, tuple[int, datetime, datetime]] = {}
    for loss in losses:
        task = (loss.lane.tenant_id, loss.lane.task)
        most, started_at, died_at = worst.get(task, (0, loss.started_at, loss.died_at))
        most = max(most, _count(loss, in_a_row))
        worst[task] = most, max(started_at, loss.started_at), max(died_at, loss.died_at)
    return worst


def trial_lanes(losses: Sequence[LostRun], in_a_row: Mapping[UUID, int]) -> dict[UUID, LaneKey]:
    """The lane in which each run is tried next."""
    return {loss.run_id: loss.lane.on_trial(trial_after(_count(loss, in_a_row))) for loss in losses}


def _count(loss: LostRun, in_a_row: Mapping[UUID, int]) -> int:
    return max(loss.lost, in_a_row.get(loss.job_id, 0))
