"""Firing: turns a due job into runs, and moves its cursor to the next occurrence.

Three rules make this safe on any number of nodes. A recurring job has at most one run that is not yet due: its cursor
comes into view no earlier than its previous fire is due. A job whose fire needs a decision (overlap, a maximum count,
skipping late occurrences) is fired when it is due, not ahead. And a run's id is computed from its occurrence.

Every occurrence is accounted for: one that makes no run is recorded as skipped, with the reason.

A job that cannot be planned is one of two cases. Either no node can plan it, because of its own content: it is set
aside, which pauses it at its current cursor. Or this node cannot: it is out of file descriptors or memory, or the job
needs a newer release or time zone database. Then this node skips it without a change, and another node fires it.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import NamedTuple
from uuid import UUID

import msgspec

from duetime.duration import format_duration
from duetime.ids import once_run_id, run_id, time_of
from duetime.model.job import UNREADABLE, Options, decode_options
from duetime.model.lane import LaneKey, Tier
from duetime.model.schedule import Once, Recurring, UnknownHere, UnusableSchedule, decode_schedule
from duetime.model.withdrawn_runs import decode_owed

LOOK_AHEAD = timedelta(seconds=15)
"""How long before its due time a run is created, so that all runs of one second exist when that second comes."""
MOST_MISSED = 200
"""How many missed occurrences one fire examines, unless more must be caught up; older ones are counted as one."""

_MOMENT = timedelta(microseconds=1)
_TIERS = frozenset(Tier)


class LiveRun(msgspec.Struct, frozen=True, gc=False):
    """A run of a job that has not ended."""

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
    owed: bytes | None = None
    """Occurrences before the cursor whose runs were withdrawn."""


class PlannedRun(msgspec.Struct, frozen=True, gc=False):
    run_id: UUID
    due_at: datetime
    blocked: bool = False
    """Whether it waits until no other run of its job is live."""
    fence: int = 0
    """Of the last claim of a run that was withdrawn: its next claim goes on from there."""


class Skip(msgspec.Struct, frozen=True, gc=False):
    """An occurrence that makes no run, and why."""

    run_id: UUID
    due_at: datetime
    reason: str


class Fire(msgspec.Struct, frozen=True, gc=False):
    """One job's fire: the runs to create, the skips, and the new cursor."""

    job_id: UUID
    lane: LaneKey
    runs: tuple[PlannedRun, ...]
    next_fire_at: datetime | None
    """None: there is no further occurrence."""
    scan_at: datetime | None
    last_fire_at: datetime | None
    """None: it stays unchanged."""
    recurring: bool
    skips: tuple[Skip, ...] = ()
    replaces: bool = False
    """Whether other live runs of the job are stopped for this one."""


class Course(msgspec.Struct, frozen=True, gc=False):
    """The future runs of a job, if no scanner is late from now on."""

    due: tuple[datetime, ...]
    """The due times of the runs that its cursor creates: several, if missed occurrences are caught up."""
    following: datetime | None = None
    """The next occurrence after those. It and every later one make one run each."""
    left: int | None = None
    """How many runs there can be from `following` on; None: any number."""


class Backfill(msgspec.Struct, frozen=True):
    """Runs of a past range."""

    fires: Sequence[datetime]
    rate: float
    """How many become ready in a second."""


class SetAside(msgspec.Struct, frozen=True):
    """A job that no node can process: it is paused at its cursor, with its reason, and the batch continues."""

    job_id: UUID
    problem: str


class PassedBy(msgspec.Struct, frozen=True):
    """A job that this node cannot process, while others may: it stays unchanged, and the batch continues."""

    job_id: UUID
    problem: str


Decided = Fire | SetAside | PassedBy


def plan_fire(due: DueJob, now: datetime) -> Decided:
    """Plan one job's fire."""
    try:
        schedule = decode_schedule(due.schedule)
        if due.lane.tier not in _TIERS:
            return PassedBy(due.job_id, f"this release does not know the priority tier {due.lane.tier}")
        if isinstance(schedule, Once):
            return _fire_once(due)
        return _fire_recurring(due, schedule, policies_of(due.options), now)
    except UnknownHere as error:
        return PassedBy(due.job_id, str(error))
    except UnusableSchedule as error:
        return SetAside(due.job_id, str(error))
    except Exception as error:  # a row that cannot be processed must never stop the others
        # Exhausted descriptors or memory, or a bug of this release: as far as can be known here, a problem of this
        # node.
        return PassedBy(due.job_id, f"its next fire cannot be computed here: {type(error).__name__}: {error}")


def policies_of(body: bytes | None) -> Options:
    """The policies of a job. A node that cannot read them must not create a run that another node would not."""
    options = decode_options(body)
    if options is UNREADABLE:
        raise UnknownHere("this release cannot read its options")
    return options


def course_of(due: DueJob, schedule: Recurring | Once, options: Options, now: datetime) -> Course:
    """The future of a stored job, if each of its runs ends before the next one is due."""
    first = due.next_fire_at
    if isinstance(schedule, Once):
        return Course((first,))
    runs: tuple[datetime, ...]
    if first > now and due.owed is None:
        runs, following = (jittered(due.job_id, first, options.jitter),), schedule.next_after(first)
    else:
        fire = _fire_recurring(due, schedule, options, now)
        runs, following = tuple(run.due_at for run in fire.runs), fire.next_fire_at
    if options.max_runs is None:
        return Course(runs, following)
    left = max(0, options.max_runs - due.made)
    return Course(runs[:left], following, max(0, left - len(runs)))


def scan_time(next_fire_at: datetime, *, after: datetime | None = None, exact: bool = False) -> datetime:
    """When the cursor comes into the scanner's view: ahead of its time, but not before the previous fire is due."""
    if exact:
        return next_fire_at
    ahead = next_fire_at - LOOK_AHEAD
    return ahead if after is None else max(ahead, after)


def jittered(job_id: UUID, fire_at: datetime, seconds: float) -> datetime:
    """The moment of a fire, delayed by up to `seconds`: always the same for one fire, spread evenly over many."""
    if not seconds:
        return fire_at
    digest = blake2b(job_id.bytes + fire_at.isoformat().encode(), digest_size=8).digest()
    return fire_at + timedelta(seconds=seconds * int.from_bytes(digest, "big") / 2**64)


def _fire_once(due: DueJob) -> Fire:
    at = due.next_fire_at
    run = PlannedRun(once_run_id(due.job_id, at), at)
    return Fire(due.job_id, due.lane, (run,), None, None, at, recurring=False)


def _fire_recurring(due: DueJob, schedule: Recurring, options: Options, now: datetime) -> Fire:
    runs, skips, last = _occurrences(due, schedule, options, now)
    following = due.next_fire_at if last is None else schedule.next_after(last)
    if options.max_runs is not None:
        left = max(0, options.max_runs - due.made)
        skips += [Skip(run.run_id, run.due_at, "its job has reached max_runs") for run in runs[left:]]
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


class _Missed(NamedTuple):
    """An occurrence that was not fired in time, or whose run was withdrawn."""

    at: datetime
    run: PlannedRun
    like: str | None = None
    """The other occurrences that it stands for."""

    def skip(self, now: datetime) -> Skip:
        reason = self.like or f": {format_duration(_whole(now - self.at))} late"
        return Skip(self.run.run_id, self.at, f"missed{reason}")


def _occurrences(
    due: DueJob, schedule: Recurring, options: Options, now: datetime
) -> tuple[list[PlannedRun], list[Skip], datetime | None]:
    """The runs and the skips of the occurrences up to now, both oldest first, and the latest occurrence that the cursor
    has passed; None if it does not move, because only withdrawn occurrences are decided."""
    first, misfire = due.next_fire_at, options.misfire
    latest = first if first > now else max(first, schedule.latest_until(now) or first)
    if due.owed is None and latest == first and (misfire.mode != "skip" or _age(latest, now) <= misfire.after):
        return [_planned(due.job_id, first, options.jitter)], [], first
    found: list[datetime] = []
    one_by_one = max(MOST_MISSED, misfire.most if misfire.mode == "all" else 0)
    if due.owed is None or first <= now:
        found = _back_to(first, latest, schedule, one_by_one)
    missed = [_Missed(at, _planned(due.job_id, at, options.jitter)) for at in found]
    if len(found) == one_by_one and found[-1] > first:
        missed.append(_Missed(first, _planned(due.job_id, first, 0.0), _like_all(first, found[-1])))
    missed += _withdrawn(due.owed)
    match misfire.mode:
        case "latest":
            keep = 1
        case "skip":
            keep = 1 if _age(missed[0].at, now) <= misfire.after else 0
        case "all":
            newest = missed[: misfire.most]
            keep = sum(1 for each in newest if each.like is None and _age(each.at, now) <= misfire.age)
    runs = [each.run for each in missed[:keep]]
    skips = [each.skip(now) for each in missed[keep:]]
    return runs[::-1], skips[::-1], found[0] if found else None


def _planned(job_id: UUID, at: datetime, jitter: float) -> PlannedRun:
    return PlannedRun(run_id(job_id, at), jittered(job_id, at, jitter))


def _withdrawn(body: bytes | None) -> list[_Missed]:
    """The occurrences whose runs were withdrawn, newest first. All lie before the cursor."""
    owed = decode_owed(body)
    missed = [
        _Missed(time_of(run.run_id), PlannedRun(run.run_id, run.due_at, fence=run.fence)) for run in reversed(owed.runs)
    ]
    if owed.more:
        missed[-1] = missed[-1]._replace(like=_like_all(missed[-1].at, missed[-2].at))
    return missed


def _like_all(first: datetime, last: datetime) -> str:
    return f", like every one from {first.isoformat()} to {last.isoformat()}"


def _back_to(first: datetime, latest: datetime, schedule: Recurring, most: int) -> list[datetime]:
    """The occurrences from the latest back to the first, at most `most` of them."""
    found = [latest]
    while len(found) < most and found[-1] > first:
        earlier = schedule.latest_until(found[-1] - _MOMENT)
        if earlier is None or earlier < first:
            break
        found.append(earlier)
    return found


def _overlap(
    runs: Sequence[PlannedRun], live: Sequence[LiveRun], options: Options
) -> tuple[list[PlannedRun], list[Skip], bool]:
    """Apply the overlap policy to runs that are due now; returns the runs to create, the skips, and whether other runs
    are stopped for them."""
    if options.overlap == "allow" or not runs:
        return list(runs), [], False
    if options.overlap == "replace":
        *older, newest = runs
        skips = [_overlapped(run, "a later occurrence replaces it") for run in older]
        return [msgspec.structs.replace(newest, blocked=bool(live))], skips, bool(live)
    # `skip` lets none wait behind a live run, `queue` lets one.
    room = (1 if options.overlap == "skip" else 2) - len(live)
    kept = [
        msgspec.structs.replace(run, blocked=bool(live) or place > 0) for place, run in enumerate(runs[: max(0, room)])
    ]
    reason = "another run of its job has not ended" if options.overlap == "skip" else "another run already waits"
    return kept, [_overlapped(run, reason) for run in runs[len(kept) :]], False


def _overlapped(run: PlannedRun, why: str) -> Skip:
    return Skip(run.run_id, run.due_at, f"overlap: {why}")


def _age(at: datetime, now: datetime) -> float:
    return (now - at).total_seconds()


def _whole(age: timedelta) -> timedelta:
    return timedelta(seconds=max(0, round(age.total_seconds())))
