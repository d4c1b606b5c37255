"""Firing: turning a job that is due into runs, and moving its cursor to the next occurrence.

Three rules keep this safe on any number of nodes. A recurring job has at most one run that is not yet due: the cursor
is looked at again no earlier than the fire before it. A job whose fire needs a decision (overlap, a maximum count,
skipping what is late) is fired when it is due, not ahead of it. And a run's id is computed from its occurrence.

No occurrence is lost from sight: one that makes no run is kept as skipped, with the reason.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from uuid import UUID

import msgspec

from duetime.duration import format_duration
from duetime.ids import once_run_id, run_id
from duetime.model.job import Options, decode_options
from duetime.model.lane import LaneKey, Tier
from duetime.model.schedule import Once, Recurring, UnusableSchedule, decode_schedule

LOOK_AHEAD = timedelta(seconds=15)
"""How long before its time a run is made, so that a herd is in place when its second comes."""
MOST_MISSED = 200
"""How many missed occurrences one fire looks back at, unless more are to be caught up with; older ones are counted as
one."""

_MOMENT = timedelta(microseconds=1)
_TIERS = frozenset(Tier)


class LiveRun(msgspec.Struct, frozen=True, gc=False):
    """A run of a job that is not over."""

    run_id: UUID
    running: bool


class DueJob(msgspec.Struct, frozen=True, gc=False):
    """A cursor that has come into view."""

    job_id: UUID
    lane: LaneKey
    schedule: bytes
    next_fire_at: datetime
    options: bytes | None = None
    made: int = 0
    live: tuple[LiveRun, ...] = ()
    """Its live runs, for a job that is decided when it is due."""


class PlannedRun(msgspec.Struct, frozen=True, gc=False):
    run_id: UUID
    due_at: datetime
    blocked: bool = False
    """It waits until no other run of its job is live."""


class Skip(msgspec.Struct, frozen=True, gc=False):
    """An occurrence that makes no run, and why."""

    run_id: UUID
    due_at: datetime
    reason: str


class Fire(msgspec.Struct, frozen=True, gc=False):
    """One job's fire: the runs to make, what is skipped, and where its cursor goes."""

    job_id: UUID
    lane: LaneKey
    runs: tuple[PlannedRun, ...]
    next_fire_at: datetime | None
    """None: there is no further occurrence."""
    scan_at: datetime | None
    last_fire_at: datetime
    recurring: bool
    skips: tuple[Skip, ...] = ()
    replaces: bool = False
    """Other live runs of the job are stopped for this one."""


class SetAside(msgspec.Struct, frozen=True):
    """A job that cannot be processed: it is paused with its reason, and the batch goes on."""

    job_id: UUID
    problem: str


def plan_fire(due: DueJob, now: datetime) -> Fire | SetAside:
    """Decide one job's fire."""
    try:
        schedule = decode_schedule(due.schedule)
        if due.lane.tier not in _TIERS:
            return SetAside(due.job_id, f"there is no priority tier {due.lane.tier}")
        if isinstance(schedule, Once):
            return _fire_once(due)
        return _fire_recurring(due, schedule, decode_options(due.options), now)
    except UnusableSchedule as error:
        return SetAside(due.job_id, str(error))
    except Exception as error:  # a row that cannot be processed must never stop the others
        return SetAside(due.job_id, f"its next fire cannot be computed: {type(error).__name__}: {error}")


def scan_time(next_fire_at: datetime, *, after: datetime | None = None, exact: bool = False) -> datetime:
    """When the scanner shall look at a cursor: ahead of its time, but not before the previous fire is due."""
    if exact:
        return next_fire_at
    ahead = next_fire_at - LOOK_AHEAD
    return ahead if after is None else max(ahead, after)


def jittered(job_id: UUID, fire_at: datetime, seconds: float) -> datetime:
    """The moment of a fire, moved back by up to `seconds`: always the same for one fire, spread evenly over many."""
    if not seconds:
        return fire_at
    digest = blake2b(job_id.bytes + fire_at.isoformat().encode(), digest_size=8).digest()
    return fire_at + timedelta(seconds=seconds * int.from_bytes(digest, "big") / 2**64)


def _fire_once(due: DueJob) -> Fire:
    at = due.next_fire_at
    run = PlannedRun(once_run_id(due.job_id, at), at)
    return Fire(due.job_id, due.lane, (run,), None, None, at, recurring=False)


def _fire_recurring(due: DueJob, schedule: Recurring, options: Options, now: datetime) -> Fire:
    wanted, missed = _occurrences(due.next_fire_at, schedule, options, now)
    last = wanted[-1] if wanted else missed[-1][0]
    skips = [Skip(run_id(due.job_id, at), at, reason) for at, reason in missed]
    runs = [PlannedRun(run_id(due.job_id, at), jittered(due.job_id, at, options.jitter)) for at in wanted]
    following = schedule.next_after(last)
    if options.max_runs is not None:
        left = max(0, options.max_runs - due.made)
        skips += [Skip(run.run_id, run.due_at, "its job may not run more often") for run in runs[left:]]
        runs = runs[:left]
    runs, overlapped, replaces = _overlap(runs, due.live, options)
    skips += overlapped
    if options.max_runs is not None and due.made + len(runs) >= options.max_runs:
        following = None
    scan = None
    if following is not None:
        scan = scan_time(following, after=last, exact=options.is_decided_when_due)
    return Fire(
        due.job_id, due.lane, tuple(runs), following, scan, last, recurring=True, skips=tuple(skips), replaces=replaces
    )


def _occurrences(
    first: datetime, schedule: Recurring, options: Options, now: datetime
) -> tuple[list[datetime], list[tuple[datetime, str]]]:
    """Which occurrences from the cursor up to now shall run, and which are missed, both oldest first."""
    latest = first if first > now else max(first, schedule.latest_until(now) or first)
    misfire = options.misfire
    if latest == first and (misfire.mode != "skip" or _age(latest, now) <= misfire.after):
        return [first], []
    found = [latest]
    one_by_one = max(MOST_MISSED, misfire.most if misfire.mode == "all" else 0)
    while len(found) < one_by_one and found[-1] > first:
        earlier = schedule.latest_until(found[-1] - _MOMENT)
        if earlier is None or earlier < first:
            break
        found.append(earlier)
    match misfire.mode:
        case "latest":
            keep = 1
        case "skip":
            keep = 1 if _age(latest, now) <= misfire.after else 0
        case "all":
            keep = sum(1 for at in found[: misfire.most] if _age(at, now) <= misfire.age)
    missed = [(at, f"missed: {format_duration(_whole(now - at))} late") for at in found[keep:]]
    if len(found) == one_by_one and found[-1] > first:
        missed.append((first, f"missed, like every one from {first.isoformat()} to {found[-1].isoformat()}"))
    return found[:keep][::-1], missed[::-1]


def _overlap(
    runs: Sequence[PlannedRun], live: Sequence[LiveRun], options: Options
) -> tuple[list[PlannedRun], list[Skip], bool]:
    """Apply the overlap policy to runs that are due now; returns those to make, those skipped, and whether others
    are stopped for them."""
    if options.overlap == "allow" or not runs:
        return list(runs), [], False
    if options.overlap == "replace":
        *older, newest = runs
        skips = [_overlapped(run, "a later occurrence takes its place") for run in older]
        return [msgspec.structs.replace(newest, blocked=bool(live))], skips, bool(live)
    # `skip` lets none wait behind a live run, `queue` lets one.
    room = (1 if options.overlap == "skip" else 2) - len(live)
    kept = [
        msgspec.structs.replace(run, blocked=bool(live) or place > 0) for place, run in enumerate(runs[: max(0, room)])
    ]
    reason = "another run of its job is not over" if options.overlap == "skip" else "another one waits already"
    return kept, [_overlapped(run, reason) for run in runs[len(kept) :]], False


def _overlapped(run: PlannedRun, why: str) -> Skip:
    return Skip(run.run_id, run.due_at, f"overlap: {why}")


def _age(at: datetime, now: datetime) -> float:
    return (now - at).total_seconds()


def _whole(age: timedelta) -> timedelta:
    return timedelta(seconds=max(0, round(age.total_seconds())))
