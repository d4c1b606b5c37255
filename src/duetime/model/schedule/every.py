"""An interval from an anchor: exact seconds, or steps through the calendar of a zone.

The n-th fire is counted from the anchor, never from the previous fire. So nothing drifts, a month that was too short
does not shorten those after it (31 January, 28 February, 31 March), and the last fire of a counted series is known from
the start.
"""

from datetime import datetime, timedelta

import msgspec

from duetime.duration import format_duration
from duetime.model.schedule.moment import UnusableSchedule
from duetime.model.schedule.period import Period
from duetime.model.schedule.recurrence import Recurrence
from duetime.model.schedule.steps import calendar_steps, exact_steps
from duetime.model.schedule.walk import Walk


class Every(Recurrence, frozen=True, tag="every", omit_defaults=True):
    """Runs at anchor, anchor + interval, anchor + 2 × interval and so on."""

    interval: timedelta
    """The exact part of the interval."""
    anchor: datetime | None = None
    """Set when the job is stored. Without `start_at` it is the moment of creation, which itself does not fire."""
    months: int = 0
    days: int = 0
    zone: str = "UTC"
    """The zone whose calendar `months` and `days` follow, and whose days `exclude` excludes."""
    first: int = 0
    """The number of the first fire: 1 when the anchor itself does not fire."""
    count: int | None = None
    """The number of fires."""

    @property
    def period(self) -> Period:
        return Period(self.months, self.days, self.interval)

    def anchored(self, moment: datetime) -> "Every":
        """Counted from this moment, unless it already has an anchor."""
        return self if self.anchor is not None else msgspec.structs.replace(self, anchor=moment, first=1)

    def settled(self, moment: datetime, seed: str) -> "Every":
        return self.anchored(moment)

    def as_asked(self) -> "Every":
        asked = self.holding(())
        return msgspec.structs.replace(asked, anchor=None, first=0) if self.first else asked

    @property
    def goes_by_zone(self) -> bool:
        return self.zone != "UTC" and bool(self.months or self.days or self.exclude)

    def __str__(self) -> str:
        if self.months or self.days:
            return f"every {self.period} in {self.zone}"
        return f"every {format_duration(self.interval)}"

    def _make_walk(self) -> Walk:
        if self.anchor is None:
            raise UnusableSchedule("an interval without an anchor")
        if self.months or self.days:
            return calendar_steps(self.anchor, self.period, self.zone, self.first, self.count, self.exclude)
        return exact_steps(self.anchor, self.interval, self.zone, self.first, self.count, self.exclude)
