"""Where a cursor belongs after a change of the rules behind it: the time zone database, or a calendar.

Fired occurrences stay fired, and owed ones stay owed: a cursor that is already due is left to the misfire policy. A
cursor never moves back to an occurrence that was fired, nor forward over one that was not.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from duetime.model.schedule import Recurring

_FARTHEST_SHIFT = timedelta(hours=3)
"""How far a change of rules moves one occurrence; moments farther apart are two occurrences."""
_MOMENT = timedelta(microseconds=1)


class Moved(NamedTuple):
    """The new position of a cursor. Without a next fire, the new rules leave none."""

    next_fire_at: datetime | None
    last_fire_at: datetime | None
    withdraws: bool = False
    """Whether the run that was created ahead for the last fire is withdrawn."""


def after_zone_change(
    schedule: Recurring, next_fire_at: datetime, last_fire_at: datetime | None, now: datetime
) -> datetime:
    """The next fire by the current time zone database, for a cursor that was computed with another one.

    The same occurrence may have another moment now: one that was fired an hour before its new time is not fired again,
    and one whose new time has passed is owed.
    """
    if next_fire_at <= now:
        return next_fire_at
    fired = None if last_fire_at is None else _counterpart(schedule, last_fire_at)
    if fired is not None:
        return schedule.next_after(fired) or next_fire_at
    same = _counterpart(schedule, next_fire_at)
    if same is not None and same <= now and (last_fire_at is None or same > last_fire_at):
        return same
    return schedule.next_after(now if last_fire_at is None else max(now, last_fire_at)) or next_fire_at


def after_calendar_change(
    schedule: Recurring, next_fire_at: datetime, last_fire_at: datetime | None, now: datetime
) -> Moved:
    """The next fire of a schedule whose excluded days have changed: as after an edit, nothing is owed for the past."""
    if next_fire_at <= now:
        return Moved(next_fire_at, last_fire_at)
    if last_fire_at is None or schedule.latest_until(last_fire_at) == last_fire_at:
        return Moved(schedule.next_after(now if last_fire_at is None else max(now, last_fire_at)), last_fire_at)
    # The last fire is no occurrence any more. Earlier ones have been fired, even if the clock was set back since.
    before = schedule.latest_until(last_fire_at)
    next_fire = schedule.next_after(now if before is None else max(now, before))
    return Moved(next_fire, before, withdraws=last_fire_at > now)


def _counterpart(schedule: Recurring, fire: datetime) -> datetime | None:
    """The fire that an earlier database had at this moment: the nearest, the earlier of two; None if none is near."""
    near = [at for at in (schedule.latest_until(fire), schedule.next_after(fire - _MOMENT)) if at is not None]
    found = min(near, key=lambda at: abs(at - fire), default=None)
    return None if found is None or abs(found - fire) > _FARTHEST_SHIFT else found
