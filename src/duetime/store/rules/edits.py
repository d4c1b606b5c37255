"""What an edit changes in a stored job: the same for every store and every way to edit.

Runs and edits: a run that no worker has held takes on what the job says now, unless it was requested (a trigger, a
backfill) (a trigger, a backfill). One that is running or waits for a retry goes on with what it started with. A new
schedule takes back the waiting runs of the old one, and starts from the moment of the edit: nothing is owed for its
past. Any other edit leaves the rhythm alone.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET

from duetime.errors import Conflict, InvalidInput, StaleVersion
from duetime.ids import show
from duetime.model.calendar import Calendar, dates_of
from duetime.model.edit import Changes
from duetime.model.firing import scan_time
from duetime.model.job import JobState, NewJob, Options, Submitted, decode_options, encode_options, schedule_seed
from duetime.model.schedule import After, Once, Schedule, encode_schedule, same_schedule, shown_schedule
from duetime.store.rules.caller_keys import LiveRun
from duetime.store.rules.job_control import HELD, end_of, in_view_at, last_occurrence
from duetime.store.rules.job_rows import Fields, planned_for
from duetime.store.rules.placement import no_occurrence_left, past_note


class Content(NamedTuple):
    """The parts of a job that its runs copy."""

    task: str
    queue: str
    tier: int
    args: bytes
    options: bytes | None
    timeout_ms: int | None


class NewCursor(NamedTuple):
    next_fire_at: datetime
    scan_at: datetime
    last_fire_at: datetime | None
    exact: bool


class Edit(NamedTuple):
    """The result of an edit."""

    content: Content
    schedule: bytes
    recurring: bool
    cursor: NewCursor | None
    """None: it does not move."""
    starts_anew: bool
    """The schedule changes: waiting runs of the old one are withdrawn."""
    withdraws: UUID | None
    """A run that was made ahead, and is withdrawn because the job is now decided when it is due."""
    calendars: tuple[Calendar, ...]
    """The calendars whose days the new schedule excludes."""
    revises: bool
    """Waiting runs get the new content."""


def check_version(job_id: UUID, row: Fields, version: int | None) -> None:
    if version is not None and version != row["version"]:
        raise StaleVersion(
            f"{show('job', job_id)} is at version {row['version']}, not {version}",
            field="version",
            remedy="read it again, and edit the current version",
        )


def plan_edit(
    job_id: UUID,
    row: Fields,
    runs: Sequence[LiveRun],
    changes: Changes,
    now: datetime,
    calendars: Sequence[Calendar] = (),
    ended: UUID | None = None,
) -> Edit | None:
    """Decide an edit; None when it changes nothing. `runs` are the job's live ones, held against claims, and `ended` is
    the newest of those that are over."""
    old, options = _content(row), _options(row, changes)
    content = Content(
        old.task if changes.task is UNSET else changes.task,
        old.queue if changes.queue is UNSET else changes.queue,
        old.tier if changes.tier is UNSET else int(changes.tier),
        old.args if changes.args is UNSET else changes.args,
        encode_options(options),
        old.timeout_ms if changes.timeout_ms is UNSET else changes.timeout_ms,
    )
    schedule = None if changes.schedule is UNSET else _other_schedule(row, changes.schedule)
    if schedule is not None and (isinstance(schedule, After) or isinstance(shown_schedule(row["schedule"]), After)):
        raise InvalidInput("`after` cannot be changed", field="after", remedy="cancel this job, and create another one")
    if schedule is None and content == old:
        return None
    last = last_occurrence(job_id, row)
    unclaimed = {run.id: run.due_at for run in runs if run.unclaimed}
    if schedule is not None:
        if not isinstance(schedule, Once):
            schedule = schedule.holding(dates_of(schedule.calendars, calendars))
        fired = None if last in unclaimed else row["last_fire_at"]
        stays = [run.id for run in runs if not run.unclaimed] + ([] if ended is None else [ended])
        schedule, cursor = _start(schedule, options, schedule_seed(options.key, job_id), _latest(fired, stays), now)
        return Edit(
            content,
            encode_schedule(schedule),
            not isinstance(schedule, Once),
            _held(cursor, row),
            starts_anew=True,
            withdraws=None,
            calendars=tuple(calendars),
            revises=False,
        )
    exact = bool(row["recurring"]) and options.is_decided_when_due
    changed = row["next_fire_at"] is not None and exact != bool(row["exact"])
    ahead = last if changed and exact and row["last_fire_at"] is not None and row["last_fire_at"] > now else None
    ahead = ahead if ahead in unclaimed else None
    return Edit(
        content,
        row["schedule"],
        bool(row["recurring"]),
        _held(_decided(row, exact=exact, rewound=ahead is not None, now=now), row) if changed else None,
        starts_anew=False,
        withdraws=ahead,
        calendars=(),
        revises=content != old,
    )


def changes_rhythm(changes: Changes) -> bool:
    """Whether an edit may need to know which runs have ended."""
    return changes.schedule is not UNSET and not isinstance(changes.schedule, Once)


def comes_to_repeat(row: Fields, changes: Changes) -> bool:
    """Whether an edit makes a one-off job recurring."""
    return changes_rhythm(changes) and not row["recurring"]


def check_no_dependents(job_id: UUID, waits: object) -> None:
    """Dependents wait for the end of a one-off. A recurring job has no such end."""
    if waits:
        raise Conflict(
            f"other jobs depend on {show('job', job_id)}: it cannot become recurring",
            field="schedule",
            remedy="create another job, or cancel the dependents",
        )


def must_not_be_waited_for(job: NewJob) -> bool:
    """Whether a job must not take the place of one that others wait for: it repeats, or waits itself, perhaps for
    those."""
    return job.depends_on is not None or not isinstance(job.schedule, Once)


def check_replaced(job: NewJob, job_id: UUID, waits: object) -> None:
    if job.depends_on is None:
        check_no_dependents(job_id, waits)
    elif waits:
        raise Conflict(
            f"other jobs depend on {show('job', job_id)}: it cannot depend on others itself",
            field="depends_on",
            remedy="use another key, or cancel the dependents",
        )


def calendars_named(changes: Changes) -> tuple[str, ...]:
    """The calendars that an edit needs to know."""
    return () if changes.schedule is UNSET or isinstance(changes.schedule, Once) else changes.schedule.calendars


def answer_edit(job_id: UUID, asked: NewJob, edit: Edit | None, row: Fields, runs: Sequence[LiveRun]) -> Submitted:
    """The answer to a request that was an edit of the job with this id."""
    next_run = _next_run(edit, row, runs)
    at = asked.schedule.at if isinstance(asked.schedule, Once) else None
    return Submitted(job_id, next_run, created=False, note=None if next_run is None else past_note(at, next_run))


def _next_run(edit: Edit | None, row: Fields, runs: Iterable[LiveRun]) -> datetime | None:
    if edit is not None and edit.starts_anew:
        return edit.cursor.next_fire_at if edit.cursor is not None else None
    waiting = [run.due_at for run in runs if run.unclaimed and (edit is None or run.id != edit.withdraws)]
    planned = planned_for(row)
    if planned is not None and edit is not None and edit.cursor is not None:
        planned = edit.cursor.next_fire_at
    return min([*waiting, *([] if planned is None else [planned])], default=None)


def _content(row: Fields) -> Content:
    return Content(row["task"], row["queue"], row["tier"], row["args"], row["options"], row["timeout_ms"])


def _options(row: Fields, changes: Changes) -> Options:
    return msgspec.structs.replace(decode_options(row["options"]), **changes.options)


def _latest(fired: datetime | None, runs: Iterable[UUID]) -> datetime | None:
    """The end of what was fired and cannot be taken back. It lies ahead of now when a run was made ahead, or when the
    clock was put back: then what the clock has shown once before is not run again."""
    moments = [end_of(run) for run in runs]
    return max([*moments, *([] if fired is None else [fired])], default=None)


def _other_schedule(row: Fields, asked: Schedule) -> Schedule | None:
    """The requested schedule, if it differs from the job's."""
    return None if same_schedule(shown_schedule(row["schedule"]), asked) else asked


def _start(
    schedule: Schedule, options: Options, seed: str, after: datetime | None, now: datetime
) -> tuple[Schedule, NewCursor]:
    """The cursor of a new schedule: after now, and after all fires that cannot be withdrawn."""
    if isinstance(schedule, Once):
        due_at = now + schedule.delay if schedule.delay is not None else max(schedule.at or now, now)
        return schedule, NewCursor(due_at, scan_time(due_at), None, exact=False)
    schedule = schedule.settled(now, seed)
    ahead = after if after is not None and after > now else None
    next_fire_at = schedule.next_after(ahead or now)
    if next_fire_at is None:
        raise no_occurrence_left()
    exact = options.is_decided_when_due
    return schedule, NewCursor(next_fire_at, scan_time(next_fire_at, after=ahead, exact=exact), ahead, exact)


def _decided(row: Fields, *, exact: bool, rewound: bool, now: datetime) -> NewCursor:
    """The cursor of an edited job whose schedule stays: only the time at which it is decided may change."""
    last = row["last_fire_at"]
    if rewound:
        return NewCursor(last, in_view_at(row, scan_time(last, exact=exact), now), None, exact)
    scan_at = scan_time(row["next_fire_at"], after=last, exact=exact)
    return NewCursor(row["next_fire_at"], in_view_at(row, scan_at, now), last, exact)


def _held(cursor: NewCursor, row: Fields) -> NewCursor:
    """A paused job stays paused: its cursor is out of view."""
    return cursor._replace(scan_at=HELD) if row["state"] == JobState.PAUSED else cursor
