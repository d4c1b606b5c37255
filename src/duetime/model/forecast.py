"""Forecasts how many runs are due when: counted from the stored jobs, by time interval and queue.

A forecast uses the same functions as the scanner: what a cursor creates, and which occurrence follows
(`model/firing.py`). It counts future runs: those that exist and are not yet due, and those that are not created yet. So
it agrees with what fires, to the run, while nothing is changed and no scanner is late. Nothing of a suspended tenant
fires. A tenant's fire rate matters if occurrences pass while its fires wait (`model/fire_rate.py`).

The work is bounded, and an inexact answer says how it was estimated. If there are more jobs than were read, or more
fires than can be computed, a sample of the jobs stands for all. A job that fires too often for that is extrapolated
from its observed rate.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from math import ceil
from random import Random
from uuid import UUID

import msgspec

from duetime.model.fire_rate import NO_LANE, Paced, is_ample, paced
from duetime.model.firing import Course, DueJob, course_of, jittered, policies_of
from duetime.model.job import Options, decode_options
from duetime.model.overview import Ahead, ComingJob
from duetime.model.schedule import Once, Recurring, decode_schedule
from duetime.model.tenant import TenantState

FARTHEST = timedelta(days=35)
"""How far ahead it looks."""
MOST_STEPS = 150_000
"""Fires that one forecast computes before it starts with no further job."""
_COUNTED_AT_ONCE = 4
"""A job with more fires than this in one interval is counted there without computing each of them."""
_MOST_COUNTED = 1000
_MOST_JITTERED = 5000
"""Fires of one job with jitter: each is computed individually."""
_COST_OF_COUNT = 6
_MOMENT = timedelta(microseconds=1)

_SAMPLE = "a random sample of {looked:,} of {there:,} jobs was read: each stands for {weight:.1f}"
_UNCOUNTED = "there are more jobs or waiting runs than were counted"
_BUDGET = "the fires of {looked:,} of {there:,} recurring jobs were computed: each stands for {weight:.1f}"
_PACE = "a job that fires too often to compute each fire is counted at its observed rate"
_UNJITTERED = "jitter is ignored for a job that fires very often"
_OVERLAP = "runs of jobs with an overlap policy are assumed to end before their next occurrence"
_RATE = "fires wait for the tenant's rate of {rate:g} per second, and what passes meanwhile is estimated"
_RATE_ALONE = (
    "from {until:%Y-%m-%d %H:%M} UTC on there are too many fires to compute their order: at most the tenant's rate of"
    " {rate:g} fires per second is counted"
)
_FULL = (
    "the tenant is at its limit of stored jobs, and occurrences of its recurring jobs are skipped until it has fewer"
)
IDLE = {
    TenantState.SUSPENDED: (
        "the tenant is suspended, and nothing fires; when it is resumed, its waiting runs start, and misfire policies"
        " decide about the occurrences that were missed by then"
    ),
    TenantState.DELETING: "the tenant is being deleted, and nothing fires",
}
"""Why nothing of a tenant fires."""


class Forecast(msgspec.Struct, frozen=True):
    counts: dict[tuple[int, str], int]
    """By the number of the interval, and queue."""
    notes: tuple[str, ...] = ()
    """How it was estimated; none: it is exact."""

    @property
    def exact(self) -> bool:
        return not self.notes


class _Counting:
    """Counts the runs of one job after the other."""

    def __init__(self, now: datetime, start: datetime, step: timedelta, steps: int) -> None:
        self._now, self._start, self._step, self._steps = now, start, step, steps
        self._end = start + step * steps
        self.notes: dict[str, None] = {}
        self.spent = 0

    def count(self, job: ComingJob) -> Counter[int]:
        """How many of its runs are due in each interval."""
        found: Counter[int] = Counter()
        if not job.recurring:
            self._add(found, job.next_fire_at)
            return found
        try:
            self._follow(found, job)
        except Exception:  # the scanner will set it aside: it has no run, and stops no other
            return Counter()
        return found

    def _follow(self, found: Counter[int], job: ComingJob) -> None:
        schedule, options = decode_schedule(job.schedule), policies_of(job.options)
        # Its lane and its live runs do not matter here.
        due = DueJob(job.job_id, NO_LANE, job.schedule, job.next_fire_at, job.options, job.made, owed=job.owed)
        course = course_of(due, schedule, options, self._now)
        self.spent += 1
        for at in course.due:
            self._add(found, at)
        if not isinstance(schedule, Once):
            if options.jitter:
                self._one_by_one(found, job, schedule, options, course)
            else:
                self._by_stretch(found, schedule, course)
        if found.total() and _depends_on_runs(options):
            self.notes[_OVERLAP] = None

    def _add(self, found: Counter[int], at: datetime, count: int = 1) -> None:
        number = (at - self._start) // self._step
        if 0 <= number < self._steps:
            found[number] += count

    def _one_by_one(
        self, found: Counter[int], job: ComingJob, schedule: Recurring, options: Options, course: Course
    ) -> None:
        fire, left = self._enter(schedule, course, timedelta(seconds=options.jitter))
        walked: Counter[int] = Counter()
        computed = 0
        while fire is not None and fire < self._end and left != 0:
            if computed >= _MOST_JITTERED:
                self.notes[_UNJITTERED] = None
                self._by_stretch(found, schedule, course)
                return
            self._add(walked, jittered(job.job_id, fire, options.jitter))
            computed += 1
            self.spent += 2
            left = None if left is None else left - 1
            fire = schedule.next_after(fire)
        found.update(walked)

    def _by_stretch(self, found: Counter[int], schedule: Recurring, course: Course) -> None:
        fire, left = self._enter(schedule, course)
        count = 0
        while fire is not None and fire < self._end and left != 0:
            number = (fire - self._start) // self._step
            until = self._start + self._step * (number + 1)
            singly = _COUNTED_AT_ONCE if count <= _COUNTED_AT_ONCE else 0  # as often as in the previous interval
            count = 0
            while fire is not None and fire < until:
                if count == singly:
                    last = until - _MOMENT
                    count += 1 + self._counted(schedule, fire, last)
                    fire = schedule.next_after(last)
                    break
                count += 1
                self.spent += 1
                fire = schedule.next_after(fire)
            if left is not None:
                count = min(count, left)
                left -= count
            found[number] += count

    def _enter(
        self, schedule: Recurring, course: Course, jitter: timedelta = timedelta()
    ) -> tuple[datetime | None, int | None]:
        """The first occurrence that may be due in this time, and how many runs there can be from it on."""
        fire, left, before = course.following, course.left, self._start - jitter - _MOMENT
        if fire is None or fire > before:
            return fire, left
        if left:
            left = max(0, left - 1 - self._counted(schedule, fire, before))
        return schedule.next_after(before), left

    def _counted(self, schedule: Recurring, after: datetime, until: datetime) -> int:
        self.spent += _COST_OF_COUNT
        count = schedule.count_between(after, until, _MOST_COUNTED)
        if count is not None:
            return count
        self.spent += _MOST_COUNTED
        self.notes[_PACE] = None
        fire = after
        for _ in range(_MOST_COUNTED):
            fire = schedule.next_after(fire) or until
        return max(_MOST_COUNTED, round(_MOST_COUNTED * ((until - after) / (fire - after))))


def _depends_on_runs(options: Options) -> bool:
    """Whether its occurrences depend on how long its other runs take, or wait."""
    return options.overlap in ("skip", "queue") or (options.overlap == "replace" and options.jitter > 0)


def runs_of(job: ComingJob, now: datetime, start: datetime, end: datetime) -> int:
    """How many runs of a job are due in an interval, as a forecast counts them."""
    return _Counting(now, start, end - start, 1).count(job)[0]


def runs_at_rate(ahead: Ahead, start: datetime, end: datetime) -> Counter[UUID] | None:
    """How many runs of each job are due in an interval; None: its tenant's rate does not change what `runs_of` says, or
    it is not known how."""
    if ahead.is_full:
        return Counter(job.job_id for job in ahead.jobs if not job.recurring and runs_of(job, ahead.now, start, end))
    if ahead.looked < ahead.there or (found := _held_to_rate(ahead, start, end)) is None or found.until < end:
        return None
    return Counter(ahead.jobs[place].job_id for place, _ in found.runs)


def _held_to_rate(ahead: Ahead, start: datetime, end: datetime) -> Paced | None:
    """None: the rate of the tenant changes nothing."""
    rate = ahead.fires_per_second
    if rate is None or ahead.is_full or is_ample(ahead.jobs, rate, ahead.now, ahead.weight):
        return None
    found = paced(ahead.jobs, rate / ahead.weight, ahead.now, start, end)
    return found if found.changed or found.until < end else None


def forecast(ahead: Ahead, start: datetime, step: timedelta, steps: int, most: int = MOST_STEPS) -> Forecast:
    if ahead.state is not TenantState.ACTIVE:
        return Forecast({}, (IDLE[ahead.state],))
    counting = _Counting(ahead.now, start, step, steps)
    notes: list[str] = []
    if ahead.looked < ahead.there:
        notes.append(_SAMPLE.format(looked=ahead.looked, there=ahead.there, weight=ahead.weight))
    if not ahead.whole:
        notes.append(_UNCOUNTED)
    sums: Counter[tuple[int, str]] = Counter()
    for job in ahead.jobs:
        if not job.recurring:
            for number in counting.count(job):
                sums[number, job.queue] += 1
    recurring = [job for job in ahead.jobs if job.recurring and not ahead.is_full]
    if ahead.is_full:
        notes.append(_FULL)
    walked, found = 0, Counter[tuple[int, str]]()
    for job, size in _groups(recurring):
        if counting.spent >= most:
            break
        for number, count in counting.count(job).items():
            found[number, job.queue] += count * size
        walked += size
    share = len(recurring) / walked if walked else 1.0
    if walked < len(recurring):
        notes.append(_BUDGET.format(looked=walked, there=len(recurring), weight=share))
    fires = Counter[tuple[int, str]]()
    for weight, counted in ((ahead.weight, sums), (ahead.weight * share, found)):
        for place, count in counted.items():
            fires[place] += _weighted(count, weight)
    notes += counting.notes
    if (held := _held_to_rate(ahead, start, start + step * steps)) is not None:
        assert ahead.fires_per_second is not None
        if held.changed:
            notes.append(_RATE.format(rate=ahead.fires_per_second))
        if held.until < start + step * steps:
            notes.append(_RATE_ALONE.format(until=held.until, rate=ahead.fires_per_second))
        fires = _at_rate(fires, held, ahead, start, step)
    counts = fires + Counter(ahead.made)
    return Forecast({place: count for place, count in counts.items() if count}, tuple(notes))


def _at_rate(
    fires: Counter[tuple[int, str]], held: Paced, ahead: Ahead, start: datetime, step: timedelta
) -> Counter[tuple[int, str]]:
    """What the rate leaves of the fires: computed for the intervals that were computed, and limited for those after."""
    assert ahead.fires_per_second is not None
    known = (held.until - start) // step
    counts = Counter[tuple[int, str]]()
    if held.changed:
        for place, due in held.runs:
            counts[(due - start) // step, ahead.jobs[place].queue] += 1
        counts = Counter({place: _weighted(count, ahead.weight) for place, count in counts.items() if place[0] < known})
    else:
        counts = Counter({place: count for place, count in fires.items() if place[0] < known})
    most = ceil(ahead.fires_per_second * step.total_seconds())
    rest = {place: count for place, count in fires.items() if place[0] >= known}
    sums = Counter[int]()
    for (number, _), count in rest.items():
        sums[number] += count
    for (number, queue), count in rest.items():
        share = min(1.0, most / sums[number]) if sums[number] else 1.0
        counts[number, queue] = count if share == 1.0 else int(count * share)
    return counts


def _weighted(count: int, weight: float) -> int:
    return count if weight == 1.0 else max(1, round(count * weight))


def _groups(jobs: Iterable[ComingJob]) -> list[tuple[ComingJob, int]]:
    """Groups equal jobs, which are computed once. The order is independent of how often they fire, so that the groups
    computed before the budget is used up are a fair sample."""
    first: dict[object, ComingJob] = {}
    sizes: Counter[object] = Counter()
    for job in jobs:
        options = decode_options(job.options)
        place: object
        if options.jitter:
            place = job.job_id
        else:
            policies = (options.max_runs and (options.max_runs, job.made), options.overlap, options.misfire)
            place = (job.queue, job.next_fire_at, job.schedule, job.owed, policies)
        first.setdefault(place, job)
        sizes[place] += 1
    groups = [(job, sizes[place]) for place, job in first.items()]
    Random(len(groups)).shuffle(groups)
    return groups
