"""What lost workers mean for jobs, tasks and runs: the same for every store."""

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from duetime.model.lane import LaneKey, trial_after
from duetime.model.suspicion import Loss, TaskOf


def deaths_of_jobs(losses: Iterable[Loss]) -> dict[tuple[int, str, UUID], int]:
    """How many workers each job has lost with these runs. A worker counts once, even with several of them."""
    workers: dict[tuple[int, str, UUID], set[UUID]] = {}
    for loss in losses:
        workers.setdefault((loss.lane.tenant_id, loss.lane.task, loss.job_id), set()).add(loss.worker_id)
    return {job: len(died) for job, died in sorted(workers.items())}


def worst_of_tasks(losses: Iterable[Loss], in_a_row: Mapping[UUID, int]) -> dict[TaskOf, int]:
    """The most workers that a run or a job of each task has lost in a row."""
    worst: dict[TaskOf, int] = {}
    for loss in losses:
        task = (loss.lane.tenant_id, loss.lane.task)
        worst[task] = max(worst.get(task, 0), _count(loss, in_a_row))
    return worst


def trial_lanes(losses: Sequence[Loss], in_a_row: Mapping[UUID, int]) -> dict[UUID, LaneKey]:
    """The lane in which each run is tried next."""
    return {loss.run_id: loss.lane.on_trial(trial_after(_count(loss, in_a_row))) for loss in losses}


def _count(loss: Loss, in_a_row: Mapping[UUID, int]) -> int:
    return max(loss.lost, in_a_row.get(loss.job_id, 0))
