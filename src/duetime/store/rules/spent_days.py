"""How long a store remembers which carried runs have acted: by the day in their ids.

A day is forgotten two days after it at the earliest, and never while a stream may hold a message from it. Ids of
forgotten days are refused from then on, even if the clock is set back.
"""

from datetime import UTC, date, datetime, time, timedelta

SPENT_FROM = "spent from"
"""The row of `meta` with the first day that was not forgotten."""
_KEPT = timedelta(days=2)


def forgettable(before: date, now: datetime) -> datetime:
    """The start of the first day that stays, if the days before `before` are to be forgotten."""
    return datetime.combine(min(before, (now - _KEPT).date()), time(), UTC)
