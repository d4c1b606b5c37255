"""Backfill: lists the runs that a past range would have had, bounded in number and rate."""

from datetime import datetime, timedelta

from duetime.errors import InvalidInput
from duetime.model.schedule import Once, Schedule

MOST = 10_000
FASTEST = 1_000.0
_MOMENT = timedelta(microseconds=1)


def fires_between(schedule: Schedule, start: datetime, end: datetime, limit: int) -> list[datetime]:
    """The fires in `[start, end)`, oldest first. Refuses a range with more than `limit` fires."""
    if isinstance(schedule, Once):
        raise InvalidInput("a job that runs once has no past fires to backfill", field="job", remedy="submit it again")
    if not start < end:
        raise InvalidInput("the range is empty", field="end", remedy="set an end after the start")
    if type(limit) is not int or not 1 <= limit <= MOST:
        raise InvalidInput(f"{limit!r} is not a limit", field="limit", remedy=f"1 to {MOST}")
    fires: list[datetime] = []
    at = schedule.next_after(start - _MOMENT)
    while at is not None and at < end:
        if len(fires) == limit:
            raise InvalidInput(
                f"the range holds more than {limit} fires",
                field="end",
                remedy="raise limit=, or choose a shorter range",
            )
        fires.append(at)
        at = schedule.next_after(at)
    return fires


def check_rate(rate: float) -> None:
    if not isinstance(rate, int | float) or not 0 < rate <= FASTEST:
        raise InvalidInput(f"{rate!r} is not a rate", field="rate", remedy=f"runs per second, at most {FASTEST:g}")
