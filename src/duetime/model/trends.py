"""Trends: how late runs started, how long attempts took and how many ended, over an hour, a day or a week.

A node adds up the newest part of history once a minute, for all tenants at once, so no run pays for it. Lags and
durations are counted by *size class*: the first two digits and the magnitude, in units of 0.1 ms. Counts of size
classes can be added, so an hour is the sum of its minutes, and a percentile is exact to five percent.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from duetime.model.attempt import AttemptState
from duetime.model.run import RunState

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
KEPT = {MINUTE: timedelta(hours=26), HOUR: timedelta(days=9)}
"""For how long minutes and hours are kept."""
LOOK_BACK = timedelta(minutes=5)
"""How far back a node counts what no node has counted."""
SETTLING = timedelta(seconds=10)
"""After its end, a minute is counted so much later: attempts arrive in batches."""
_UNIT = 1e-4
_OPEN = 99
"""Stands for the end state of an attempt whose run went on."""


class Pace(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ended in one interval."""

    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
    retried: int = 0
    lost: int = 0
    lags: dict[int, int] = {}
    """First starts by the size class of their lag."""
    took: dict[int, int] = {}
    """Attempts by the size class of their duration."""
    estimated: bool = False
    """More attempts ended than were read: the counts are those of a part, scaled up."""


class Percentiles(NamedTuple):
    """Seconds."""

    p50: float
    p95: float


_ENDS = {
    RunState.SUCCEEDED: "succeeded",
    RunState.FAILED: "failed",
    RunState.CANCELLED: "cancelled",
    RunState.SKIPPED: "skipped",
}


def outcome_of(number: int) -> str | None:
    """What a row counts, by its states as the statement `pace` writes them: the state of the attempt times 100, and the
    end of the run."""
    attempt, end = divmod(number, 100)
    if end != _OPEN:
        return _ENDS.get(RunState(end))
    return {AttemptState.FAILED: "retried", AttemptState.LOST: "lost"}.get(AttemptState(attempt))


def added(paces: Iterable[Pace]) -> Pace:
    """The sum of intervals."""
    counts = dict.fromkeys((*_ENDS.values(), "retried", "lost"), 0)
    lags: dict[int, int] = {}
    took: dict[int, int] = {}
    estimated = False
    for pace in paces:
        for name in counts:
            counts[name] += getattr(pace, name)
        for total, more in ((lags, pace.lags), (took, pace.took)):
            for size, count in more.items():
                total[size] = total.get(size, 0) + count
        estimated |= pace.estimated
    return Pace(**counts, lags=lags, took=took, estimated=estimated)


def scaled(pace: Pace, factor: float) -> Pace:
    """The interval, from the part of it that was read."""
    return Pace(
        **{name: round(getattr(pace, name) * factor) for name in (*_ENDS.values(), "retried", "lost")},
        lags={size: max(1, round(count * factor)) for size, count in pace.lags.items()},
        took={size: max(1, round(count * factor)) for size, count in pace.took.items()},
        estimated=True,
    )


def percentiles(sizes: Mapping[int, int]) -> Percentiles | None:
    total = sum(sizes.values())
    if not total:
        return None
    return Percentiles(_at(sizes, 0.5 * total), _at(sizes, 0.95 * total))


def _at(sizes: Mapping[int, int], place: float) -> float:
    passed = 0
    for size in sorted(sizes):
        passed += sizes[size]
        if passed >= place:
            break
    return seconds_of(size)


def seconds_of(size: int) -> float:
    """The middle of a size class."""
    magnitude, digits = divmod(size, 100)
    return (digits + (0.5 if magnitude else 0.0)) * 10.0**magnitude * _UNIT


class TrendStep(NamedTuple):
    at: datetime
    pace: Pace


def stepped(found: Iterable[tuple[datetime, Pace]], start: datetime, step: timedelta, steps: int) -> list[TrendStep]:
    """The intervals between `start` and now, summed up to these steps."""
    parts: dict[int, list[Pace]] = {}
    for at, pace in found:
        parts.setdefault((at - start) // step, []).append(pace)
    return [TrendStep(start + step * number, added(parts.get(number, ()))) for number in range(steps)]
