"""The conditions of lists as the store's filters. Lists and bulk actions share them."""

from datetime import datetime

from duetime import ids
from duetime.model.failure import FailureClass
from duetime.model.lists import DeadFilter, JobFilter, RunFilter
from duetime.model.run import RunState
from duetime.model.schedule import check_moment
from duetime.model.scope import scope_of
from duetime.model.structs import struct_like
from duetime.wire.jobs import JobConditions
from duetime.wire.runs import DeadLetterFilter, DeadLetterQuery, RunConditions, RunQuery, RunsOfJobQuery


def job_filter(given: JobConditions) -> JobFilter:
    return struct_like(
        JobFilter,
        given,
        due_from=_moment(given.start_time, "start_time"),
        due_until=_moment(given.end_time, "end_time"),
        ids=None,
        within=None,
    )


def run_filter(given: RunConditions | RunsOfJobQuery | RunQuery) -> RunFilter:
    return RunFilter(
        state=None if given.status is None else RunState[given.status],
        task=given.task if isinstance(given, RunConditions) else None,
        queue=given.queue if isinstance(given, RunConditions) else None,
        within=scope_of(owner=given.owner) if isinstance(given, RunConditions) else None,
        due_from=_moment(given.start_time, "start_time"),
        due_until=_moment(given.end_time, "end_time"),
    )


def dead_filter(given: DeadLetterQuery | DeadLetterFilter) -> DeadFilter:
    run_id = given.run_id if isinstance(given, DeadLetterFilter) else None
    return DeadFilter(
        run_id=None if run_id is None else ids.parse("run", run_id),
        job_id=None if given.job_id is None else ids.parse("job", given.job_id),
        task=given.task,
        queue=given.queue,
        failure=None if given.failure is None else FailureClass[given.failure.upper()],
        died_from=_moment(given.start_time, "start_time"),
        died_until=_moment(given.end_time, "end_time"),
        error=given.error,
        fingerprint=given.fingerprint,
    )


def _moment(given: str | datetime | None, field: str) -> datetime | None:
    return None if given is None else check_moment(given, field)
