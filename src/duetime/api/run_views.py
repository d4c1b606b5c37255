"""Runs, attempts and dead letters as responses show them."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from duetime.ids import show
from duetime.model import json
from duetime.model.attempt import Attempt, AttemptState, Run
from duetime.model.failure import FailureClass
from duetime.model.lane import Tier
from duetime.model.lists import DeadGroup, DeadGroups, DeadLetter, RunItem
from duetime.wire.runs import AttemptView, DeadLetterGroup, DeadLetterGroups, DeadLetterView, RunSummary, RunView


def run_summary(run: RunItem) -> RunSummary:
    return RunSummary(**_common(run), replays=run.replays)


def run_view(run: Run) -> RunView:
    return RunView(
        **_common(run),
        replays=run.replays,
        args=run.arguments if run.args_problem is None else {},
        args_problem=run.args_problem,
        result=run.value,
        progress=run.progress,
        message=run.message,
        logs=_lines(run.logs),
        attempts=tuple(_attempt(attempt) for attempt in run.attempts),
    )


def dead_letter_view(dead: DeadLetter) -> DeadLetterView:
    return DeadLetterView(
        run_id=show("run", dead.run_id),
        job_id=show("job", dead.job_id),
        name=dead.options.name,
        owner=dead.options.owner,
        task=dead.task,
        queue=dead.queue,
        priority=_priority(dead.tier),
        attempt=dead.attempt,
        lost=dead.lost,
        failure=_failure(dead.failure),
        error=dead.error,
        due_at=dead.due_at,
        died_at=dead.died_at,
        fingerprint=dead.fingerprint,
    )


def dead_groups_view(found: DeadGroups) -> DeadLetterGroups:
    return DeadLetterGroups(tuple(_dead_group(group) for group in found.groups), found.counted, found.more)


def _dead_group(group: DeadGroup) -> DeadLetterGroup:
    return DeadLetterGroup(
        fingerprint=group.fingerprint,
        count=group.count,
        failure=_failure(group.failure),
        error=group.error,
        tasks=group.tasks,
        first_died_at=group.first_died_at,
        last_died_at=group.last_died_at,
        newest_run=show("run", group.newest_run),
    )


def _common(run: Run | RunItem) -> dict[str, Any]:
    return {
        "run_id": show("run", run.id),
        "job_id": show("job", run.job_id),
        "task": run.task,
        "queue": run.queue,
        "priority": _priority(run.tier),
        "status": run.state.name,
        "attempt": run.attempt,
        "lost": run.lost,
        "due_at": run.due_at,
        "ready_at": run.ready_at,
        "first_started_at": run.first_started_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "lag": _seconds(run.due_at, run.first_started_at),
        "retry_delay": _seconds(
            run.first_started_at, None if run.started_at == run.first_started_at else run.started_at
        ),
        "worker_id": _worker(run.worker_id),
        "failure": _failure(run.failure),
        "error": run.error,
    }


def _last_start(run: Run | RunItem) -> datetime | None:
    """When the last attempt started, if it was not the first."""
    return None if run.started_at == run.first_started_at else run.started_at


def _attempt(attempt: Attempt) -> AttemptView:
    return AttemptView(
        attempt=attempt.attempt,
        status=_attempt_state(attempt.state),
        worker_id=_worker(attempt.worker_id),
        started_at=attempt.started_at,
        finished_at=attempt.finished_at,
        duration=_seconds(attempt.started_at, attempt.finished_at),
        failure=_failure(attempt.failure),
        error=attempt.error,
        logs=_lines(attempt.logs),
    )


def _lines(logs: bytes | None) -> tuple[dict[str, Any], ...]:
    return tuple(json.decode(logs)["lines"]) if logs else ()


def _attempt_state(state: AttemptState) -> Any:
    return state.name


def _priority(tier: Tier) -> Any:
    return Tier(tier).name


def _failure(failure: FailureClass | None) -> Any:
    return None if failure is None else failure.label


def _worker(worker_id: UUID | None) -> str | None:
    return None if worker_id is None else show("wrk", worker_id)


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start) / timedelta(seconds=1)
