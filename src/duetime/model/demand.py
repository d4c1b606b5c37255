"""How many workers a queue needs, now and in the next minutes.

A worker has slots, and a run occupies one for some seconds, so within `seconds` a worker can start
`slots × (1 + seconds / duration)` runs. Runs are started in order. So every run starts within the target lag if and
only if, for each stretch of time, the runs that become due in it are no more than what the workers can start from its
begin until the target lag after its end. The number of workers is the highest that any stretch needs. What waits or
runs now is due at the begin of the first stretch.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from math import ceil
from typing import NamedTuple

import msgspec

from duetime.model.firing import LOOK_AHEAD
from duetime.model.forecast import forecast
from duetime.model.limits import QueueLimits
from duetime.model.overview import Ahead, ComingJob

MOST_STEPS = 600
"""Intervals into which the time ahead is divided."""
_SHORTEST = 1e-4
"""Seconds that a run takes at least: a duration of zero would let one slot run everything."""
_EXPECTED = 60.0
"""Seconds for which runs are expected to arrive as they did before."""
_ROUNDING = 1e-9
_RATE = "fires of all queues together wait for the tenant's rate of {rate:g} per second"


class WorkerShape(msgspec.Struct, frozen=True):
    """What one worker can do, and what is expected of all."""

    slots: int
    duration: float
    """Seconds that a run occupies a slot, on average."""
    lag: float
    """Seconds within which a run is to start."""
    rate: float | None = None
    """Runs that a worker can start per second; None: its slots are the only limit."""

    def starts(self, seconds: float) -> float:
        """How many runs one worker can start within these seconds."""
        by_slots = self.slots * (1 + seconds / self._duration)
        return by_slots if self.rate is None else min(by_slots, max(1.0, self.rate * seconds))

    @property
    def _duration(self) -> float:
        return max(self.duration, _SHORTEST)


class Peak(NamedTuple):
    workers: int
    step: int | None
    """The interval from which on they are needed; None: from now on."""


def workers_now(live: float, arrivals: float, shape: WorkerShape) -> int:
    """For `live` runs that wait or run, and for a minute of so many arrivals per second."""
    minute = live + arrivals * _EXPECTED
    return _whole(max(live / shape.starts(shape.lag), minute / shape.starts(shape.lag + _EXPECTED)))


def peak_ahead(live: float, due: Sequence[float], step: float, shape: WorkerShape) -> Peak:
    """The most that is needed in the time ahead: for live runs, and for those that become due in each interval of
    `step` seconds. The runs of one interval may all be due at once."""
    sums = list(accumulate(due, initial=0.0))
    busy = [place for place, count in enumerate(due) if count > 0]
    room = [shape.starts(shape.lag + step * length) for length in range(len(due) + 1)]
    most, where = live / room[0], None
    # What is live comes before the first interval.
    for last in busy:
        most = max(most, (live + sums[last + 1]) / room[last])
    for place, first in enumerate(busy):
        for last in busy[place:]:
            needed = (sums[last + 1] - sums[first]) / room[last - first]
            if needed > most + _ROUNDING:
                most, where = needed, first
    return Peak(_whole(most), where)


def limited(workers: int, shape: WorkerShape, limits: QueueLimits, running: int | None) -> int:
    """No more than the limits of the queue, and a limit on running runs of its tenant, can keep busy."""
    bounds = [float(bound) for bound in (limits.running, running) if bound is not None]
    if limits.rate is not None:
        bounds.append(limits.rate.count / limits.rate.period.total_seconds() * shape.duration)
    return min([workers, *(max(1, _whole(bound / shape.slots)) for bound in bounds)])


def _whole(workers: float) -> int:
    return ceil(workers - _ROUNDING)


class QueueActivity(msgspec.Struct, frozen=True):
    """What a queue did lately, and what runs."""

    running: int = 0
    """Runs in slots of workers. Runs that were handed over to their receivers have no slot."""
    ended: int = 0
    attempts: int = 0
    busy: float = 0.0
    """Seconds of those attempts together."""
    arrived: int = 0
    """Runs that were due since the begin of the covered period, and run or have ended."""
    unplanned: int = 0
    """Of these, the runs that were due when they were submitted."""


class Activity(msgspec.Struct, frozen=True):
    """What all queues did in the period before now."""

    now: datetime
    since: datetime
    """The begin of the covered period: later than requested when more runs ended than are read."""
    queues: Mapping[tuple[int, str], QueueActivity]
    """By tenant and queue."""
    whole: bool = True
    """False: there are more running runs than were counted."""

    def rate(self, arrived: int) -> float:
        """Per second."""
        return arrived / max(1.0, (self.now - self.since).total_seconds())


class LaneDepth(msgspec.Struct, frozen=True):
    """The due runs of a lane that wait."""

    lane_id: int
    runs: int
    arrived: int
    """Of these, the runs that were due since a moment."""
    ready_at: datetime
    """When the first of them became ready."""


class QueueAhead(msgspec.Struct, frozen=True):
    """The runs of a queue that exist and have not started."""

    now: datetime
    waiting: int
    """Those that are due."""
    arrived: int
    """Of these, the runs that were due since a moment."""
    unplanned: int
    """Of these, the runs that were due when they were submitted."""
    oldest: datetime | None
    """When the first of them became ready."""
    made: Mapping[int, int]
    """Those that become ready later, by the number of the interval."""
    lanes: int = 0
    whole: bool = True
    """False: there are more than were counted."""


class Coming(msgspec.Struct, frozen=True):
    """The jobs, of all tenants, that fire soon."""

    now: datetime
    jobs: Mapping[int, Sequence[ComingJob]]
    """By tenant."""
    sampled: Mapping[int, Sequence[ComingJob]]
    """A random sample of those in crowded minutes."""
    weight: float = 1.0
    """How many jobs each of the sampled ones stands for."""
    horizon: datetime | None = None
    """Up to when they were read; None: up to the requested moment."""
    rates: Mapping[int, float] = {}
    """The fires per second of the tenants that have such a limit."""

    def of(self, tenant_id: int, queue: str, before: datetime) -> tuple[list[Ahead], list[Ahead]]:
        """The jobs of a queue: those that fire before a moment, and the others."""
        soon: list[Ahead] = []
        later: list[Ahead] = []
        for jobs, weight in ((self.jobs, 1.0), (self.sampled, self.weight)):
            mine = [job for job in jobs.get(tenant_id, ()) if job.queue == queue]
            for found, some in (
                (soon, [job for job in mine if job.next_fire_at < before]),
                (later, [job for job in mine if job.next_fire_at >= before]),
            ):
                if some:
                    found.append(Ahead(self.now, some, {}, len(some), round(len(some) * weight)))
        return soon, later


def hold_to_rate(fires: Sequence[int], step: float, rate: float) -> list[int]:
    """When fires happen at the latest that are due in intervals of `step` seconds: those above the rate wait. What is
    due in an interval may fire ahead of it, and a tenant saves up for a second."""
    ahead = LOOK_AHEAD.total_seconds() + 1
    held, due, fired = [], 0, 0
    for number, count in enumerate(fires, start=1):
        due += count
        most = max(1, int((step * number + ahead) * rate + _ROUNDING))
        held.append(max(0, min(due, most) - fired))
        fired += held[-1]
    return held


class DueRuns(NamedTuple):
    counts: list[int]
    """By interval."""
    notes: tuple[str, ...]


def due_runs(coming: Coming, ahead: QueueAhead, tenant_id: int, queue: str, step: timedelta, steps: int) -> DueRuns:
    """How many runs of a queue become due in each interval from now on.

    The jobs may have been read some seconds before the runs. A job that fires within the look-ahead may have its run
    already, so such jobs and the existing runs are not added: the higher of the two counts.
    """
    notes: dict[str, None] = {}

    def counted(jobs: Sequence[Ahead]) -> list[int]:
        counts = [0] * steps
        for each in jobs:
            found = forecast(each, ahead.now, step, steps)
            notes.update(dict.fromkeys(found.notes))
            for (number, _), count in found.counts.items():
                counts[number] += count
        return counts

    soon, later = coming.of(tenant_id, queue, ahead.now + LOOK_AHEAD)
    firing, following = counted(soon), counted(later)
    rate = coming.rates.get(tenant_id)
    if rate is not None:
        seconds = step.total_seconds()
        fires = [fire + more for fire, more in zip(firing, following, strict=True)]
        held = hold_to_rate(fires, seconds, rate)
        if held != fires:
            notes[_RATE.format(rate=rate)] = None
            firing = [min(fire, left) for fire, left in zip(firing, held, strict=True)]
            following = [left - fire for fire, left in zip(firing, held, strict=True)]
    made = [ahead.made.get(number, 0) for number in range(steps)]
    return DueRuns(
        [max(run, fire) + more for run, fire, more in zip(made, firing, following, strict=True)], tuple(notes)
    )
