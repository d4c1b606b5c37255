"""Runs, attempts and dead letters as responses show them."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from duetime.ids import show
from duetime.model import json
from duetime.model.attempt import Attempt, Run
from duetime.model.failure import FailureClass
from duetime.model.lists import DeadGroup, DeadGroups, DeadLetter, RunItem
from duetime.model.notification import shown_arguments
from duetime.model.structs import struct_like
from duetime.wire.runs import AttemptView, DeadLetterGroup, DeadLetterGroups, DeadLetterView, RunSummary, RunView


def run_summary(run: RunItem) -> RunSummary:
    return struct_like(RunSummary, run, **_common(run))


def run_view(run: Run) -> RunView:
    return struct_like(
        RunView,
        run,
        **_common(run),
        certain=True,
        args=shown_arguments(run.task, run.queue, run.arguments) if run.args_problem is None else {},
        result=run.value,
        logs=_lines(run.logs),
        attempts=tuple(_attempt(attempt) for attempt in run.attempts),
    )


def dead_letter_view(dead: DeadLetter) -> DeadLetterView:
    return struct_like(
        DeadLetterView,
        dead,
        run_id=show("run", dead.run_id),
        job_id=show("job", dead.job_id),
        name=dead.options.name,
        owner=dead.options.owner,
        priority=dead.tier.name,
        failure=_failure(dead.failure),
    )


def dead_groups_view(found: DeadGroups) -> DeadLetterGroups:
    return DeadLetterGroups(tuple(_dead_group(group) for group in found.groups), found.counted, found.more)


def _dead_group(group: DeadGroup) -> DeadLetterGroup:
    newest_run = show("run", group.newest_run)
    return struct_like(DeadLetterGroup, group, failure=_failure(group.failure), newest_run=newest_run)


def _common(run: Run | RunItem) -> dict[str, Any]:
    return {
        "run_id": show("run", run.id),
        "job_id": show("job", run.job_id),
        "priority": run.tier.name,
        "status": run.state.name,
        "lag": _seconds(run.due_at, run.first_started_at),
        "retry_delay": _seconds(
            run.first_started_at, None if run.started_at == run.first_started_at else run.started_at
        ),
        "worker_id": _worker(run.worker_id),
        "failure": _failure(run.failure),
    }


def _attempt(attempt: Attempt) -> AttemptView:
    return struct_like(
        AttemptView,
        attempt,
        status=attempt.state.name,
        worker_id=_worker(attempt.worker_id),
        duration=_seconds(attempt.started_at, attempt.finished_at),
        failure=_failure(attempt.failure),
        logs=_lines(attempt.logs),
    )


def _lines(logs: bytes | None) -> tuple[dict[str, Any], ...]:
    return tuple(json.decode(logs)["lines"]) if logs else ()


def _failure(failure: FailureClass | None) -> str | None:
    return None if failure is None else failure.label


def _worker(worker_id: UUID | None) -> str | None:
    return None if worker_id is None else show("wrk", worker_id)


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start) / timedelta(seconds=1)
