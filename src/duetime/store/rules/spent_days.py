"""How long a store remembers which carried runs have acted: by the day in their ids.

A day is forgotten two days after it at the earliest, and never while a stream may hold a message from it. Ids of
forgotten days are refused from then on, even if the clock is set back.
"""

from datetime import UTC, date, datetime, time, timedelta

from duetime.errors import StreamUnavailable

SPENT_FROM = "spent from"
"""The row of `meta` with the first day whose spent ids are still stored."""
ID_MARGIN = timedelta(hours=1)
"""How much older than its message the id of a run may be: clocks differ."""
_KEPT = timedelta(days=2)


def clocks_differ(drawn: datetime, now: datetime) -> StreamUnavailable:
    """Refuses a new id that the store might refuse when its run ends: a run that was accepted must not be lost."""
    return StreamUnavailable(
        f"the id of the run was drawn at {drawn:%Y-%m-%d %H:%M} UTC, when the database's clock showed"
        f" {now:%Y-%m-%d %H:%M}, or its day was forgotten",
        remedy="set the clocks of this machine and of the database",
    )


def forgettable(before: date, now: datetime) -> datetime:
    """The start of the first day that stays, if the days before `before` are to be forgotten."""
    return datetime.combine(min(before, (now - _KEPT).date()), time(), UTC)
