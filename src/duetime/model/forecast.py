"""Forecasts how many runs are due when: counted from the stored jobs, by time interval and queue.

A forecast uses the same functions as the scanner: what a cursor creates, and which occurrence follows
(`model/firing.py`). It counts future runs: those that exist and are not yet due, and those that are not created yet. So
it agrees with what fires, to the run, while nothing is changed and no scanner is late.

The work is bounded, and an inexact answer says how it was estimated. If there are more jobs than were read, or more
fires than can be computed, a sample of the jobs stands for all. A job that fires too often for that is extrapolated
from its observed rate.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random

import msgspec

from duetime.model.firing import Course, DueJob, course_of, jittered, policies_of
from duetime.model.job import Options, decode_options
from duetime.model.lane import LaneKey, Tier
from duetime.model.overview import Ahead, ComingJob
from duetime.model.schedule import Once, Recurring, decode_schedule

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
        due = DueJob(job.job_id, _NO_LANE, job.schedule, job.next_fire_at, job.options, job.made, owed=job.owed)
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


_NO_LANE = LaneKey(0, "", Tier.MEDIUM, "")


def runs_of(job: ComingJob, now: datetime, start: datetime, end: datetime) -> int:
    """How many runs of a job are due in an interval, as a forecast counts them."""
    return _Counting(now, start, end - start, 1).count(job)[0]


def forecast(ahead: Ahead, start: datetime, step: timedelta, steps: int, most: int = MOST_STEPS) -> Forecast:
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
    recurring = [job for job in ahead.jobs if job.recurring]
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
    counts = Counter(ahead.made)
    for weight, counted in ((ahead.weight, sums), (ahead.weight * share, found)):
        for place, count in counted.items():
            counts[place] += count if weight == 1.0 else max(1, round(count * weight))
    return Forecast({place: count for place, count in counts.items() if count}, (*notes, *counting.notes))


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
