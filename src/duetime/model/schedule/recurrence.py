"""What every recurring schedule has in common: bounds, and days that it leaves out."""

from datetime import datetime

import msgspec

from duetime.model.schedule.exclusion import Calendar
from duetime.model.schedule.moment import MICROSECOND
from duetime.model.schedule.walk import Walk


class Recurrence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pure function from a moment to the next fire after it.

    `next_after` grows with its moment, and answers the same for every moment up to the fire it names. `latest_until`
    is its counterpart: the greatest fire that is not after the moment.
    """

    start_at: datetime | None = None
    """No fire before it."""
    end_at: datetime | None = None
    """No fire after it."""
    exclude: Calendar | None = None

    def next_after(self, moment: datetime) -> datetime | None:
        if self.start_at is not None and moment < self.start_at:
            moment = self.start_at - MICROSECOND
        found = self._walk().next_after(moment)
        return None if found is None or (self.end_at is not None and found > self.end_at) else found

    def latest_until(self, moment: datetime) -> datetime | None:
        if self.end_at is not None and moment > self.end_at:
            moment = self.end_at
        found = self._walk().latest_until(moment)
        return None if found is None or (self.start_at is not None and found < self.start_at) else found

    def asked(self, fire: datetime) -> datetime | None:
        """The wall time that the schedule names for one of its fires; None for an exact interval."""
        return self._walk().asked(fire)

    def _walk(self) -> Walk:
        raise NotImplementedError
