"""How a schedule is stored: as JSON with its kind and its non-default fields."""

from functools import lru_cache

import msgspec

from duetime.model.schedule.after import After
from duetime.model.schedule.cron import Cron
from duetime.model.schedule.every import Every
from duetime.model.schedule.moment import UnknownHere, UnusableSchedule
from duetime.model.schedule.once import NOW, Once
from duetime.model.schedule.rrule import RRule

Recurring = Cron | Every | After | RRule
Schedule = Once | Cron | Every | After | RRule

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Schedule] = msgspec.json.Decoder(Schedule)


def encode_schedule(schedule: Schedule) -> bytes:
    return _encoder.encode(schedule)


@lru_cache(maxsize=4096)
def decode_schedule(body: bytes) -> Schedule:
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError as error:
        # It is JSON, but not a schedule that this release knows: a newer one may have written it.
        raise UnknownHere(f"this release cannot read the stored schedule: {error}") from error
    except msgspec.DecodeError as error:
        raise UnusableSchedule(f"the stored schedule cannot be read: {error}") from error


def shown_schedule(body: bytes) -> Schedule:
    """For display. A schedule that cannot be read, such as that of a newer release, shows as none; the scanner leaves
    its job alone and reports why. One row must not make a whole list unreadable."""
    try:
        return decode_schedule(body)
    except UnusableSchedule:
        return NOW


def same_schedule(one: Schedule, other: Schedule) -> bool:
    """Whether two requests ask for the same schedule. A schedule that is counted from the moment of the request never
    is."""
    if isinstance(one, Once) or isinstance(other, Once):
        return one == other and isinstance(one, Once) and one.at is not None
    first, second = one.as_asked(), other.as_asked()
    if first.said is None or first.said != second.said:
        return first == second
    # The same words may be counted from another day.
    return all(getattr(first, name) == getattr(second, name) for name in ("zone", "start_at", "end_at", "exclude"))
