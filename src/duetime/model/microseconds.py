"""Moments as integers, microseconds since 1970, for rows where a datetime would cost more than all the rest.

They are converted back only when they are shown.
"""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def stamp(moment: datetime) -> int:
    return (moment - EPOCH) // _MICROSECOND


def moment(stamp: int) -> datetime:
    return EPOCH + timedelta(microseconds=stamp)


def maybe_stamp(at: datetime | None) -> int | None:
    return None if at is None else stamp(at)


def maybe_moment(at: int | None) -> datetime | None:
    return None if at is None else moment(at)
