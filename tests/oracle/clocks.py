"""When the clocks of a zone were changed, found by looking at them."""

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

FROM = datetime(2000, 1, 1, tzinfo=UTC)
TO = datetime(2041, 1, 1, tzinfo=UTC)
_LOOK = timedelta(days=3)
_NOT_ZONES = ("localtime", "posixrules", "Factory")


def offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    found = moment.astimezone(zone).utcoffset()
    assert found is not None
    return found


@cache
def changes(name: str) -> list[datetime]:
    """Every moment from 2000 to 2040 at which the clock of this zone was changed."""
    zone = ZoneInfo(name)
    found = []
    earlier = FROM
    before = offset(earlier, zone)
    while earlier < TO:
        later = earlier + _LOOK
        if offset(later, zone) != before:
            low, high = earlier, later
            while high - low > timedelta(seconds=1):
                middle = low + (high - low) // 2
                middle = middle.replace(microsecond=0)
                if offset(middle, zone) == before:
                    low = middle
                else:
                    high = middle
            found.append(high)
            before = offset(later, zone)
        earlier = later
    return found


def all_zones() -> list[str]:
    return sorted(name for name in available_timezones() if name not in _NOT_ZONES)
