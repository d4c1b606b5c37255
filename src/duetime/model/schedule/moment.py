"""Valid moments of a schedule, and the errors for a schedule that cannot be computed."""

import re
from datetime import UTC, datetime, timedelta

from duetime.errors import InvalidInput

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9000, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)

_RFC_3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)


class UnusableSchedule(Exception):
    """A stored schedule cannot be computed: no node could, so its job is set aside."""


class UnknownHere(UnusableSchedule):
    """A stored schedule contains something that this release or its time zone database does not know. A node with a
    newer one may know it, so its job is left to the other nodes."""


def check_moment(value: object, field: str) -> datetime:
    """A moment with its offset, in UTC. A naive time means different moments on different machines."""
    if isinstance(value, str):
        value = _read(value, field)
    if not isinstance(value, datetime):
        raise InvalidInput(f"must be a datetime, not {type(value).__name__}", field=field)
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(
            f"{value.isoformat()} has no time zone",
            field=field,
            remedy="use an aware datetime, with tzinfo or an offset",
        )
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        moment = LATEST
    if not EARLIEST <= moment < LATEST:
        raise InvalidInput(f"{value.isoformat()} is out of range", field=field, remedy="from 1970 to 9000")
    if type(moment) is not datetime:  # a subclass, such as pendulum's or pandas's, cannot be encoded
        moment = datetime.combine(moment.date(), moment.time(), UTC)
    return moment


def looks_like_a_moment(text: str) -> bool:
    return _RFC_3339.fullmatch(text.upper()) is not None


def _read(text: str, field: str) -> datetime:
    try:
        if looks_like_a_moment(text):
            return datetime.fromisoformat(text.upper())
    except ValueError:
        pass  # 30 February
    raise InvalidInput(
        f"{text[:60]!r} is not a time", field=field, remedy="RFC 3339, such as 2026-11-15T09:00:00+01:00"
    )
