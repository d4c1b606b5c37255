"""What every recurring schedule has in common: bounds, and excluded days."""

from collections.abc import Iterable
from datetime import date, datetime
from functools import cached_property
from typing import TypeVar

import msgspec

from duetime.model.schedule.exclusion import Exclusion
from duetime.model.schedule.moment import MICROSECOND
from duetime.model.schedule.walk import Walk

R = TypeVar("R", bound="Recurrence")


class Recurrence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """A pure function from a moment to the next fire after it.

    `next_after` grows with its moment, and returns the same fire for every moment before it. `latest_until` is its
    counterpart: the greatest fire that is not after the moment.
    """

    start_at: datetime | None = None
    """No fire before it."""
    end_at: datetime | None = None
    """No fire after it."""
    exclude: Exclusion | None = None
    said: str | None = None
    """The words that it was made from: equal words mean an equal schedule, whenever they are submitted."""

    def next_after(self, moment: datetime) -> datetime | None:
        if self.start_at is not None and moment < self.start_at:
            moment = self.start_at - MICROSECOND
        found = self._walk.next_after(moment)
        return None if found is None or (self.end_at is not None and found > self.end_at) else found

    def latest_until(self, moment: datetime) -> datetime | None:
        if self.end_at is not None and moment > self.end_at:
            moment = self.end_at
        found = self._walk.latest_until(moment)
        return None if found is None or (self.start_at is not None and found < self.start_at) else found

    def count_between(self, after: datetime, until: datetime, most: int) -> int | None:
        """The number of fires in `(after, until]`; None if that takes more than `most` steps."""
        if self.start_at is not None and after < self.start_at:
            after = self.start_at - MICROSECOND
        if self.end_at is not None and until > self.end_at:
            until = self.end_at
        return self._walk.count_between(after, until, most)

    def asked(self, fire: datetime) -> datetime | None:
        """The wall time that the schedule names for one of its fires; None for an exact interval."""
        return self._walk.asked(fire)

    @property
    def calendars(self) -> tuple[str, ...]:
        """The tenant's calendars whose days it excludes."""
        return () if self.exclude is None else self.exclude.calendars

    def holding(self: R, dates: Iterable[date]) -> R:
        """The same schedule, with these as the dates of its calendars."""
        if self.exclude is None:
            return self
        return msgspec.structs.replace(self, exclude=self.exclude.holding(dates))

    def as_asked(self: R) -> R:
        """Without what the store added: the form in which two requests are compared."""
        return self.holding(())

    def settled(self: R, moment: datetime, seed: str) -> R:
        """With what is only known when a job is stored: the moment that an interval is counted from, and the `seed`
        (the job's key, or its id) for the values of `H` in a cron line."""
        return self

    @property
    def goes_by_zone(self) -> bool:
        """Whether its fires depend on the clock changes of a zone."""
        raise NotImplementedError

    @cached_property
    def _walk(self) -> Walk:
        # Cached on the schedule: a lookup would hash ten thousand excluded dates at each fire.
        return self._make_walk()

    def _make_walk(self) -> Walk:
        raise NotImplementedError
