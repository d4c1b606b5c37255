"""From wall times to moments: the fires of a schedule in a time zone, forward and backward.

The contract for clock changes, the same for every kind of schedule:

- A wall time that does not exist fires right after the gap, once, however many of them there are. A day that does not
  exist at all is skipped.
- A wall time that exists twice fires once, when it comes first.
- A cron line with a rhythm (`*` or a step in minute or hour) fires whenever the clock shows one of its times, in both
  passes of a repeated hour. A missing time inside a gap is not made up if the line fires anyway at the moment at
  which that time would have come without the change: 02:15 of `15 * * * *` is then called 03:15.

Each walk caches its last answers. The fire after a moment is also the fire after every later moment before it, so
thousands of jobs with one schedule compute it once.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime, time
from functools import lru_cache
from zoneinfo import ZoneInfo

from duetime.errors import InvalidInput
from duetime.model.schedule.allowed import AllowedDays, FilteredDays
from duetime.model.schedule.cron_count import times_between
from duetime.model.schedule.cron_hash import settled_line
from duetime.model.schedule.cron_line import CronLine, WallTimes, read_lines
from duetime.model.schedule.exclusion import Exclusion
from duetime.model.schedule.moment import DAY, EARLIEST, LATEST, SECOND, UnknownHere
from duetime.model.schedule.zone import (
    Change,
    change_at,
    offset_between,
    offsets,
    quiet_offset,
    reach,
    wall_of,
    zone_named,
)


class Walk(ABC):
    """The fires of one schedule. They depend only on the moment."""

    def __init__(self) -> None:
        self._ahead: tuple[datetime, datetime] | None = None
        self._behind: tuple[datetime, datetime] | None = None

    def next_after(self, moment: datetime) -> datetime | None:
        """The first fire after this moment."""
        ahead = self._ahead
        if ahead is not None and ahead[0] <= moment < ahead[1]:
            return ahead[1]
        if moment >= LATEST:
            return None
        found = self._next(max(moment, EARLIEST - SECOND))
        if found is None or found >= LATEST:
            return None
        self._ahead = (moment if ahead is None or ahead[1] != found else min(moment, ahead[0]), found)
        return found

    def latest_until(self, moment: datetime) -> datetime | None:
        """The last fire that is not after this moment."""
        behind = self._behind
        if behind is not None and behind[0] <= moment <= behind[1]:
            return behind[0]
        if moment < EARLIEST:
            return None
        found = self._latest(min(moment, LATEST - SECOND))
        if found is None or found < EARLIEST:
            return None
        self._behind = (found, moment)
        return found

    def count_between(self, after: datetime, until: datetime, most: int) -> int | None:
        """The number of fires in `(after, until]`; None if that takes more than `most` steps."""
        found, fire = 0, self.next_after(after)
        while fire is not None and fire <= until:
            found += 1
            if found > most:
                return None
            fire = self.next_after(fire)
        return found

    @abstractmethod
    def _next(self, moment: datetime) -> datetime | None: ...

    @abstractmethod
    def _latest(self, moment: datetime) -> datetime | None: ...

    @abstractmethod
    def asked(self, fire: datetime) -> datetime | None:
        """The wall time that the schedule names for one of its fires: not what the clock shows, if that time does not
        exist. None if fires have no wall time of their own."""


class LineWalk(Walk):
    """The fires of a cron line in a zone.

    Most of the time there is no clock change around the given moment or around the fire that is found. Then the wall
    time is a simple addition. What lies in between does not matter: the line names no time there.
    """

    def __init__(self, line: WallTimes, zone: ZoneInfo) -> None:
        super().__init__()
        self._line = line
        self._zone = zone

    def _next(self, moment: datetime) -> datetime | None:
        here = quiet_offset(moment, self._zone)
        if here is not None:
            found = self._line.first_from(moment + here + SECOND, UTC)
            if found is None:
                return None
            there = quiet_offset(found, self._zone)
            if there is not None:
                return found - there
        return self._next_by_clock(moment)

    def _latest(self, moment: datetime) -> datetime | None:
        here = quiet_offset(moment, self._zone)
        if here is not None:
            found = self._line.last_until(moment + here, UTC)
            if found is None:
                return None
            there = quiet_offset(found, self._zone)
            if there is not None:
                return found - there
        return self._latest_by_clock(moment)

    def count_between(self, after: datetime, until: datetime, most: int) -> int | None:
        quiet = offset_between(after, until, self._zone)
        if quiet is None or until < after or not isinstance(self._line, CronLine):
            return super().count_between(after, until, most)
        return times_between(self._line, after + quiet, until + quiet)

    @abstractmethod
    def _next_by_clock(self, moment: datetime) -> datetime | None: ...

    @abstractmethod
    def _latest_by_clock(self, moment: datetime) -> datetime | None: ...

    def asked(self, fire: datetime) -> datetime:
        return _asked(self._line, self._zone, fire)


class FixedTimes(LineWalk):
    """A cron line with fixed times of the day: each is reached once."""

    def _next_by_clock(self, moment: datetime) -> datetime | None:
        found = self._line.first_from(self._reached(moment) + SECOND)
        while found is not None:
            first, second = offsets(found, self._zone)
            if second <= first:
                return (found - first).replace(tzinfo=UTC)
            change = _change(found, self._zone)
            if not change.swallows(found.date()):
                return change.at
            found = self._line.first_from(_midnight(found) + DAY)
        return None

    def _latest_by_clock(self, moment: datetime) -> datetime | None:
        found = self._line.last_until(self._reached(moment))
        while found is not None:
            change = change_at(found, self._zone)
            if change is None or not change.swallows(found.date()):
                return reach(found, self._zone)
            found = self._line.last_until(_midnight(found) - SECOND)
        return None

    def _reached(self, moment: datetime) -> datetime:
        """The greatest wall time that the clock has shown so far, in whole seconds."""
        wall = wall_of(moment, self._zone).replace(microsecond=0)
        return _change(wall, self._zone).before - SECOND if wall.fold else wall


class Rhythm(LineWalk):
    """A cron line that repeats by the minute or the hour: it fires whenever the clock shows one of its times."""

    def _next_by_clock(self, moment: datetime) -> datetime | None:
        wall = wall_of(moment, self._zone).replace(microsecond=0)
        found = self._line.first_from(wall.replace(fold=0) + SECOND)
        first, second = offsets(wall, self._zone)
        if second < first and not wall.fold:
            # The first pass of a repeated hour: when it has no more fires, those of the second pass come next.
            change = _change(wall, self._zone)
            if found is None or found >= change.before:
                again = self._line.first_from(change.after)
                if again is not None and again < change.before:
                    return (again - second).replace(tzinfo=UTC)
        while found is not None:
            first, second = offsets(found, self._zone)
            if second <= first:
                at = (found - first).replace(tzinfo=UTC)
                return at if at > moment else (found - second).replace(tzinfo=UTC)
            change = _change(found, self._zone)
            if self._makes_up(change, found):
                return change.at
            found = self._line.first_from(change.after)
        return None

    def _latest_by_clock(self, moment: datetime) -> datetime | None:
        wall = wall_of(moment, self._zone).replace(microsecond=0)
        found = self._line.last_until(wall.replace(fold=0))
        if wall.fold:
            change = _change(wall, self._zone)
            if found is None or found < change.after:
                found = self._line.last_until(change.before - SECOND)
        while found is not None:
            first, second = offsets(found, self._zone)
            if second <= first:
                at = (found - second).replace(tzinfo=UTC)
                return at if at <= moment else (found - first).replace(tzinfo=UTC)
            change = _change(found, self._zone)
            begin = self._line.first_from(change.before)
            if begin is not None and self._makes_up(change, begin):
                return change.at
            found = self._line.last_until(change.before - SECOND)
        return None

    def _makes_up(self, change: Change, missing: datetime) -> bool:
        """Whether a fire is owed right after this gap, whose first missing time is given."""
        if change.after in self._line:
            return True
        found: datetime | None = missing
        while found is not None and found < change.after:
            if change.swallows(found.date()):
                found = self._line.first_from(_midnight(found) + DAY)
            elif found + change.length not in self._line:
                return True
            else:
                found = self._line.first_from(found + SECOND)
        return False


class Until(Walk):
    """The fires of another walk up to a moment."""

    def __init__(self, walk: Walk, end: datetime) -> None:
        super().__init__()
        self._walk = walk
        self._end = end

    def _next(self, moment: datetime) -> datetime | None:
        found = self._walk.next_after(moment)
        return None if found is None or found > self._end else found

    def _latest(self, moment: datetime) -> datetime | None:
        return self._walk.latest_until(min(moment, self._end))

    def asked(self, fire: datetime) -> datetime | None:
        return self._walk.asked(fire)


class Together(Walk):
    """Several lines as one schedule: the fires of all of them; two at one moment are one."""

    def __init__(self, walks: Sequence[Walk]) -> None:
        super().__init__()
        self._walks = walks

    def _next(self, moment: datetime) -> datetime | None:
        return min((found for walk in self._walks if (found := walk.next_after(moment)) is not None), default=None)

    def _latest(self, moment: datetime) -> datetime | None:
        return max((found for walk in self._walks if (found := walk.latest_until(moment)) is not None), default=None)

    def asked(self, fire: datetime) -> datetime | None:
        named = [walk.asked(fire) for walk in self._walks if walk.latest_until(fire) == fire]
        # Prefer a time that the clock shows over one that a clock change has moved to it.
        return max((wall for wall in named if wall is not None), default=None)


@lru_cache(maxsize=16_384)
def cron_walk(text: str, zone_name: str, exclude: Exclusion | None) -> Walk:
    """The shared walk of all jobs with this line, zone and calendar."""
    zone = zone_named(zone_name)
    try:
        lines = read_lines(settled_line(text, ""))
    except InvalidInput as error:
        raise UnknownHere(f"this release cannot read the cron line {text!r}: {error}") from error
    walks = [_line_walk(line, zone, exclude) for line in lines]
    return walks[0] if len(walks) == 1 else Together(walks)


def _line_walk(line: CronLine, zone: ZoneInfo, exclude: Exclusion | None) -> Walk:
    if exclude is not None:
        line = line._replace(days=FilteredDays(line.days, AllowedDays(exclude, zone)))
    return Rhythm(line, zone) if line.has_rhythm else FixedTimes(line, zone)


def _asked(line: WallTimes, zone: ZoneInfo, fire: datetime) -> datetime:
    shown = wall_of(fire, zone)
    if shown in line:
        return shown
    before = wall_of(fire - SECOND, zone).replace(fold=0) + SECOND
    return line.first_from(before) or shown


def _change(wall: datetime, zone: ZoneInfo) -> Change:
    change = change_at(wall, zone)
    assert change is not None
    return change


def _midnight(wall: datetime) -> datetime:
    return datetime.combine(wall.date(), time())
