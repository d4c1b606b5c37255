"""What a tenant's fire rate does to the runs of its jobs: computed with the rules of the scanner.

Fires above the rate wait in the tenant's backlog and happen in order. That alone changes no due time: a run that is
created late is due when its occurrence was. But a recurring job whose next occurrence passes before it may fire makes
one run for both, or none, as its misfire policy says. So a rate matters to a forecast only if fires wait for that long.

`is_ample` proves for most tenants, without computing a fire, that none waits for that long. For the others `paced`
fires their cursors one after the other, each as early as the rate allows. A real scanner fires some tenths of a second
later, so that occurrences which pass while a fire waits are an estimate: `Paced.changed` says whether there were any.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

import msgspec

from duetime.model.firing import LOOK_AHEAD, DueJob, Fire, jittered, plan_fire, policies_of, scan_time
from duetime.model.job import Options
from duetime.model.lane import LaneKey, Tier
from duetime.model.overview import ComingJob
from duetime.model.schedule import Cron, Every, Once, Recurring, RRule, decode_schedule
from duetime.model.schedule.cron_line import read_lines
from duetime.model.schedule.rrule_parts import FREQUENCIES

MOST_FIRES = 40_000
"""Fires that are computed one by one."""
NO_LANE = LaneKey(0, "", Tier.MEDIUM, "")
_LATE = timedelta(seconds=0.6)
"""How much later than the rate allows a scanner may fire: it looks every half a second."""
_MINUTE, _HOUR = 60.0, 3_600.0
_SHORT_DAY = 20 * _HOUR
"""Clock changes included."""
_OFTEN = {"SECONDLY": 1.0, "MINUTELY": _MINUTE, "HOURLY": _HOUR}


class Paced(NamedTuple):
    """The runs of jobs whose fires are held to a rate."""

    runs: list[tuple[int, datetime]]
    """The place of the job among those given, and when the run is due."""
    until: datetime
    """Every run that is due before it is in `runs`."""
    changed: bool
    """Whether occurrences pass while fires wait."""


class Rhythm(NamedTuple):
    """How often a schedule can fire."""

    gaps: tuple[float, ...]
    """Seconds between two fires at least, for each of the lines of the schedule."""
    least: float
    """Seconds between any two of its fires."""


def is_ample(jobs: Sequence[ComingJob], rate: float, now: datetime, weight: float = 1.0) -> bool:
    """Whether no fire can wait until the next occurrence of its job, or as long as its misfire policy tolerates; False:
    it cannot be told this way. Each job stands for `weight` jobs.

    `count` schedules with these gaps fire at most `2 × count + seconds / gap` times in a time, clock changes included.
    If that is less than the rate, no fire waits longer than `2 × count / rate`.
    """
    load, count = 0.0, 0
    tolerance = inf
    for job in jobs:
        if not job.recurring:
            count += 1
            continue
        if job.next_fire_at <= now or job.owed is not None:
            return False
        try:
            schedule, options = decode_schedule(job.schedule), policies_of(job.options)
        except Exception:  # the scanner will set it aside
            continue
        rhythm = None if isinstance(schedule, Once) else rhythm_of(schedule)
        if rhythm is None:
            return False
        count += len(rhythm.gaps)
        load += sum(1.0 / gap for gap in rhythm.gaps)
        tolerance = min(tolerance, _tolerance(options, rhythm.least))
    return load * weight <= rate and (2 * count * weight + 1) / rate + _LATE.total_seconds() < tolerance


def _tolerance(options: Options, least: float) -> float:
    """Seconds that a fire may wait, after its cursor came into view, without any effect."""
    if options.misfire.mode == "skip":
        return min(options.misfire.after, least)
    return least if options.is_decided_when_due else least + min(LOOK_AHEAD.total_seconds(), least)


def rhythm_of(schedule: Recurring) -> Rhythm | None:
    match schedule:
        case Every(months=0, days=0):
            gap = schedule.interval.total_seconds()
            return Rhythm((gap,), gap) if gap > 0 else None
        case Every():
            return Rhythm((_SHORT_DAY,), _SHORT_DAY)
        case Cron():
            lines = read_lines(schedule.line)
            gaps = tuple(
                _gap(line.second.values, line.minute.values, line.hour.values, other=_SHORT_DAY) for line in lines
            )
        case RRule():
            parts = schedule.parts
            often = _OFTEN.get(FREQUENCIES[parts.frequency], _SHORT_DAY)
            gaps = (_gap(parts.seconds, parts.minutes, parts.hours, other=often),)
        case _:
            return None
    least = min(gaps)
    if len(gaps) > 1 or schedule.goes_by_zone:
        # Lines may be close to each other, and clock changes move times together.
        least = min(least, _MINUTE if least >= _MINUTE else 1.0)
    return Rhythm(gaps, least)


def _gap(seconds: Sequence[int], minutes: Sequence[int], hours: Sequence[int], *, other: float) -> float:
    if len(seconds) > 1:
        return min(other, 1.0)
    if len(minutes) > 1:
        return min(other, _MINUTE * _closest(minutes, 60))
    return min(other, _HOUR) if len(hours) > 1 else other


def _closest(values: Sequence[int], around: int) -> int:
    ordered = sorted(values)
    return min(later - value for value, later in zip(ordered, [*ordered[1:], ordered[0] + around], strict=True))


class _Bucket:
    """The rate as `charge_fires` of the stores applies it: a tenant saves up for one second, or for one fire if that
    takes longer. It starts empty: how far it is used up matters for a second at most."""

    def __init__(self, rate: float, now: datetime) -> None:
        self._cost = timedelta(seconds=1 / rate)
        self._saved = max(timedelta(seconds=1), self._cost)
        self._used = self._clock = now

    def take(self, wanted: datetime) -> datetime:
        """Charge one fire, which is possible from this moment on."""
        self._clock = max(wanted, self._clock, self._used + self._cost)
        self._used = max(self._used, self._clock - self._saved) + self._cost
        return self._clock


def paced(
    jobs: Sequence[ComingJob], rate: float, now: datetime, start: datetime, end: datetime, most: int = MOST_FIRES
) -> Paced:
    """The runs that are due in a time: those whose cursors fire first come first, each as early as the rate allows.
    Cursors that come into view at the same moment may fire in any order, so each of them may be the last."""
    bucket = _Bucket(rate, now)
    cursors = [(job.scan_at or job.next_fire_at - LOOK_AHEAD, place, job) for place, job in enumerate(jobs)]
    heapify(cursors)
    left = sum(_matters(job, end) for job in jobs)
    runs: list[tuple[int, datetime]] = []
    changed = False
    while left and cursors:
        in_view = cursors[0][0]
        if most <= 0:
            return Paced(runs, max(start, in_view), changed)  # no cursor is due before it comes into view
        together = []
        while cursors and cursors[0][0] == in_view:
            together.append(heappop(cursors)[1:])
        most -= len(together)
        arrived = max(in_view, now)
        moments = [bucket.take(arrived) for _ in together]
        latest = moments[-1] + _LATE
        for (place, job), at in zip(together, moments, strict=True):
            fire = _fire(job, at)
            if fire is not None and moments[-1] > arrived and (job.next_fire_at < latest or job.owed is not None):
                changed = changed or not _same(_fire(job, arrived), _fire(job, latest))
            left -= _matters(job, end)
            if fire is None:
                continue
            runs += [(place, run) for run in fire.runs if start <= run < end]
            if fire.next_fire_at is not None and fire.scan_at is not None:
                made = job.made + len(fire.runs)
                following = msgspec.structs.replace(job, next_fire_at=fire.next_fire_at, made=made, owed=None)
                left += _matters(following, end)
                heappush(cursors, (max(fire.scan_at, at), place, following))
    return Paced(runs, end, changed)


def _matters(job: ComingJob, end: datetime) -> bool:
    return job.next_fire_at < end or job.owed is not None


class _Fired(NamedTuple):
    runs: tuple[datetime, ...]
    next_fire_at: datetime | None = None
    scan_at: datetime | None = None


def _fire(job: ComingJob, at: datetime) -> _Fired | None:
    """The runs that a cursor makes at a moment, if its other runs are over, and where it moves; None: it is set
    aside."""
    if not job.recurring:
        return _Fired((job.next_fire_at,))
    first = job.next_fire_at
    try:
        schedule, options = decode_schedule(job.schedule), policies_of(job.options)
        if isinstance(schedule, Once):
            return _Fired((first,))
        if at > first or job.owed is not None or options.max_runs is not None:
            due = DueJob(job.job_id, NO_LANE, job.schedule, first, job.options, job.made, owed=job.owed)
            fire = plan_fire(due, at)
            if not isinstance(fire, Fire):
                return None
            return _Fired(tuple(run.due_at for run in fire.runs), fire.next_fire_at, fire.scan_at)
        following = schedule.next_after(first)
    except Exception:  # the scanner will set it aside: it has no run, and stops no other
        return None
    runs = (jittered(job.job_id, first, options.jitter),)
    if following is None:
        return _Fired(runs)
    return _Fired(runs, following, scan_time(following, after=first, exact=options.is_decided_when_due))


def _same(one: _Fired | None, other: _Fired | None) -> bool:
    return one is not None and other is not None and one[:2] == other[:2]
