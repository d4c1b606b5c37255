"""How many runs fire when: the next fire of each job, and those behind it, counted by stretches of time and queues.

The work is bounded. Where there are more jobs than were looked at, each stands for several; a job that fires more often
than can be walked through goes on at the pace it was seen to have.
"""

from collections import Counter
from datetime import datetime, timedelta

import msgspec

from duetime.model.figures import Ahead, Upcoming
from duetime.model.firing import jittered
from duetime.model.job import decode_options
from duetime.model.schedule import Recurring, UnusableSchedule, decode_schedule

MOST_STEPS = 6000
"""Fires that one forecast computes, for all jobs together."""
_LEAST_STEPS = 10


class Forecast(msgspec.Struct, frozen=True):
    counts: dict[tuple[int, str], int]
    """By the number of the stretch, and queue."""
    exact: bool


class _Forecaster:
    def __init__(self, start: datetime, step: timedelta, steps: int) -> None:
        self._start, self._step, self._steps = start, step, steps
        self._end = start + step * steps
        self.counts: Counter[tuple[int, str]] = Counter()
        self.exact = True

    def add(self, at: datetime, queue: str, weight: float) -> None:
        number = (at - self._start) // self._step
        if 0 <= number < self._steps:
            self.counts[number, queue] += weight  # type: ignore[assignment]

    def follow(self, first: Upcoming, schedule: Recurring, weight: float, budget: int) -> int:
        """Add all fires of a job; returns how many were computed."""
        jitter = decode_options(first.options).jitter
        moment, made = first.at, 0
        fire: datetime | None = first.at
        while fire is not None and fire < self._end and made < budget:
            shown = fire if not jitter or first.job_id is None else jittered(first.job_id, fire, jitter)
            self.add(shown, first.queue, weight)
            moment, made = fire, made + 1
            fire = schedule.next_after(moment)
        if fire is not None and fire < self._end:
            self._extrapolate(first, (fire - first.at) / made, fire, weight)
        return made

    def _extrapolate(self, first: Upcoming, pace: timedelta, moment: datetime, weight: float) -> None:
        self.exact = False
        while moment < self._end:
            number = (moment - self._start) // self._step
            upto = min(self._start + self._step * (number + 1), self._end)
            self.add(moment, first.queue, weight * max((upto - moment) / pace, 0.0))
            moment = upto


def forecast(ahead: Ahead, start: datetime, step: timedelta, steps: int) -> Forecast:
    found = _Forecaster(start, step, steps)
    found.exact = all(stretch.looked >= stretch.there and stretch.whole for stretch in ahead.stretches)
    recurring: list[tuple[Upcoming, Recurring, float]] = []
    for each in ahead.upcoming:
        weight = ahead.stretches[each.stretch].weight if each.job_id is not None else 1.0
        schedule = _recurring(each)
        if schedule is None:
            found.add(each.at, each.queue, weight)
        else:
            recurring.append((each, schedule, weight))
    budget = MOST_STEPS
    for left, (each, schedule, weight) in zip(range(len(recurring), 0, -1), recurring, strict=True):
        budget -= found.follow(each, schedule, weight, max(_LEAST_STEPS, budget // left))
    return Forecast({place: max(1, round(count)) for place, count in found.counts.items()}, found.exact)


def _recurring(each: Upcoming) -> Recurring | None:
    if each.schedule is None:
        return None
    try:
        schedule = decode_schedule(each.schedule)
    except UnusableSchedule:
        return None
    return schedule if isinstance(schedule, Recurring) else None
