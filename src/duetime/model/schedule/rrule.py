"""A recurrence rule of iCalendar: fires at the wall times that it names, in a time zone."""

from datetime import UTC, datetime
from functools import lru_cache

from duetime.errors import InvalidInput
from duetime.model.schedule.allowed import AllowedDays, FilteredDays
from duetime.model.schedule.exclusion import Exclusion
from duetime.model.schedule.moment import UnknownHere, UnusableSchedule
from duetime.model.schedule.recurrence import Recurrence
from duetime.model.schedule.rrule_parts import DAILY, Parts, Written, read_parts, read_time, refuse, split_rule
from duetime.model.schedule.rrule_times import ENDLESS, RRuleTimes, Steps, times_of
from duetime.model.schedule.walk import FixedTimes, Rhythm, Until, Walk
from duetime.model.schedule.zone import check_zone, wall_of, zone_named


class RRule(Recurrence, frozen=True, tag="rrule", omit_defaults=True):
    """Runs at the wall times that a recurrence rule names."""

    rule: str
    """`DTSTART:20260105T090000 RRULE:FREQ=WEEKLY`: DTSTART is a wall time of the zone."""
    zone: str = "UTC"

    @property
    def parts(self) -> Parts:
        return _parts(self.rule)

    @property
    def can_move_days(self) -> bool:
        """Whether its times are the same on every day, so that an occurrence can keep its time on another day."""
        return not isinstance(_times(self.rule).times, Steps)

    def __str__(self) -> str:
        return f"rrule {self.rule!r} in {self.zone}"

    @property
    def goes_by_zone(self) -> bool:
        return self.zone != "UTC"

    def _make_walk(self) -> Walk:
        return rrule_walk(self.rule, self.zone, self.exclude)


def make_rrule(text: str, zone: str | None = None, start_at: datetime | None = None, usual_zone: str = "UTC") -> RRule:
    """Validate a rule. Its zone is that of its DTSTART, or the given one, or `usual_zone`; `start_at` may replace its
    DTSTART."""
    written = split_rule(text)
    if written.zone is not None:
        named = _checked(written.zone)
        if zone is not None and zone != named:
            raise InvalidInput(f"DTSTART says {named}, and tz says {zone}", field="tz", remedy="give one of them")
        zone = named
    if zone is None and written.begin is not None and written.begin.endswith("Z"):
        usual_zone = "UTC"
    place = usual_zone if zone is None else check_zone(zone)
    begin = _begin(written, place)
    if begin is None and start_at is not None:
        begin = wall_of(start_at, zone_named(place)).replace(microsecond=0, fold=0)
    start = "" if begin is None else f"DTSTART:{begin:%Y%m%dT%H%M%S} "
    plain = f"{start}RRULE:{written.rule}"
    _times(plain)
    return RRule(plain, place)


@lru_cache(maxsize=16_384)
def rrule_walk(text: str, zone_name: str, exclude: Exclusion | None) -> Walk:
    """The shared walk of all jobs with this rule, zone and calendar."""
    zone = zone_named(zone_name)
    try:
        parts, times = _parts(text), _times(text)
    except InvalidInput as error:
        raise UnknownHere(f"this release cannot read the rule {text!r}: {error}") from error
    if exclude is not None:
        allowed = AllowedDays(exclude, zone)
        if allowed.moves and isinstance(times.times, Steps):
            raise UnusableSchedule("`next_day` requires a rule with the same times every day")
        if allowed.moves and parts.most is not None and times.end < ENDLESS:
            # The last occurrence of a counted series runs as well, though on another day.
            times = times._replace(end=datetime.combine(allowed.first_from(times.end.date()), times.end.time()))
        times = times.on_days(FilteredDays(times.times.days, allowed))
    walk = (Rhythm if parts.frequency > DAILY else FixedTimes)(times, zone)
    return walk if parts.until is None or parts.until.tzinfo is None else Until(walk, parts.until)


@lru_cache(maxsize=16_384)
def _times(text: str) -> RRuleTimes:
    return times_of(_parts(text))


def _parts(text: str) -> Parts:
    written = split_rule(text)
    return read_parts(written.rule, _begin(written, "UTC"))


def _begin(written: Written, zone: str) -> datetime | None:
    if written.begin is None:
        return None
    begin = read_time("DTSTART", written.begin)
    if begin.tzinfo is None:
        return begin
    if written.zone is not None:
        refuse("DTSTART has both a TZID and a Z", "leave out the Z: it is a time of that zone")
    wall = wall_of(begin.astimezone(UTC), zone_named(zone))
    if wall.fold:
        # The wall time alone would start the rule an hour early, in the first pass.
        refuse(
            f"DTSTART {written.begin} is the second {wall:%H:%M} of that day in {zone}",
            f"a time of the wall, which is the first: DTSTART:{wall:%Y%m%dT%H%M%S}; or one that comes once",
        )
    return wall


def _checked(zone: str) -> str:
    try:
        return check_zone(zone)
    except InvalidInput as error:
        raise InvalidInput(error.message, field="rrule", remedy=error.remedy) from None
