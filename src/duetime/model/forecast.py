"""How many runs fire when: the next fire of each job, and those behind it, counted by stretches of time and queues.

The work is bounded. Where there are more jobs than were looked at, each stands for several; a job that fires more often
than can be walked through goes on at the pace it was seen to have.
"""

from collections import Counter
from datetime import datetime, timedelta
from itertools import accumulate

import msgspec

from duetime.model.figures import Ahead, Upcoming
from duetime.model.firing import jittered
from duetime.model.job import decode_options
from duetime.model.schedule import Recurring, UnusableSchedule, decode_schedule

MOST_STEPS = 6000
"""Fires that one forecast computes, for all jobs together."""
_LEAST_STEPS = 8
_PACE = 4
_OFTEN = 4
"""A job that fires so often in a stretch of time is counted by its pace, seen over a few fires."""


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
        self._paces: dict[str, list[float]] = {}
        """By queue: how many fires a stretch are added from each stretch on."""

    def add(self, at: datetime, queue: str, weight: float) -> None:
        number = (at - self._start) // self._step
        if 0 <= number < self._steps:
            self.counts[number, queue] += weight  # type: ignore[assignment]

    def follow(self, first: Upcoming, schedule: Recurring, weight: float, budget: int) -> int:
        """Add all fires of a job; returns how many were computed."""
        jitter = decode_options(first.options).jitter
        made = 0
        fire: datetime | None = first.at
        while fire is not None and fire < self._end and made < budget:
            shown = fire if not jitter or first.job_id is None else jittered(first.job_id, fire, jitter)
            self.add(shown, first.queue, weight)
            made += 1
            fire = schedule.next_after(fire)
            if made == _PACE and fire is not None and fire - first.at < made * self._step / _OFTEN:
                break  # it fires many times in every stretch: where exactly cannot be seen
        if fire is not None and fire < self._end:
            self._extrapolate(first, (fire - first.at) / made, fire, weight)
        return made

    def _extrapolate(self, first: Upcoming, pace: timedelta, moment: datetime, weight: float) -> None:
        """Go on at a pace: up to the end of this stretch now, and from the next one on when all is summed up."""
        self.exact = False
        number = (moment - self._start) // self._step
        upto = min(self._start + self._step * (number + 1), self._end)
        self.counts[number, first.queue] += weight * ((upto - moment) / pace)  # type: ignore[assignment]
        self._paces.setdefault(first.queue, [0.0] * (self._steps + 1))[number + 1] += weight * (self._step / pace)

    def summed(self) -> dict[tuple[int, str], int]:
        for queue, starts in self._paces.items():
            for number, pace in enumerate(accumulate(starts[: self._steps])):
                self.counts[number, queue] += pace  # type: ignore[assignment]
        return {place: max(1, round(count)) for place, count in self.counts.items() if count > 0.5}


def forecast(ahead: Ahead, start: datetime, step: timedelta, steps: int) -> Forecast:
    found = _Forecaster(start, step, steps)
    found.exact = all(stretch.looked >= stretch.there and stretch.whole for stretch in ahead.stretches)
    groups: dict[tuple[object, ...], tuple[Upcoming, float]] = {}
    for each in ahead.upcoming:
        weight = ahead.stretches[each.stretch].weight if each.job_id is not None else 1.0
        if each.schedule is None:
            found.add(each.at, each.queue, weight)
        else:
            # Jobs with one schedule fire together, unless a jitter keeps them apart: they are walked through once.
            apart = each.job_id if each.options and b"jitter" in each.options else None
            place = each.schedule, each.at, each.queue, apart
            groups[place] = each, groups[place][1] + weight if place in groups else weight
    budget = MOST_STEPS
    for left, (each, weight) in zip(range(len(groups), 0, -1), groups.values(), strict=True):
        schedule = _recurring(each)
        if schedule is None:
            found.add(each.at, each.queue, weight)
        else:
            budget -= found.follow(each, schedule, weight, max(_LEAST_STEPS, budget // left))
    return Forecast(found.summed(), found.exact)


def _recurring(each: Upcoming) -> Recurring | None:
    if each.schedule is None:
        return None
    try:
        schedule = decode_schedule(each.schedule)
    except UnusableSchedule:
        return None
    return schedule if isinstance(schedule, Recurring) else None
