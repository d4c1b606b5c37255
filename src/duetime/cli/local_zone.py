"""The machine's time zone by name."""

import os
from pathlib import Path

from duetime.clock import SystemClock
from duetime.errors import DuetimeError
from duetime.model.schedule import check_zone
from duetime.sdk.preview import preview

_LOCALTIME = Path("/etc/localtime")
_TIMEZONE = Path("/etc/timezone")


def local_zone() -> str | None:
    """Its name, such as Europe/Berlin; None if it cannot be determined."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        name = _of_files()
    try:
        check_zone(name)
    except DuetimeError:
        return None
    return name


def _of_files() -> str:
    """A link to the zone's file, or a copy of it with the name beside it; without a file, the clock shows UTC."""
    if not _LOCALTIME.exists():
        return "UTC"
    linked = str(_LOCALTIME.resolve()).partition("/zoneinfo/")[2]
    return linked or (_TIMEZONE.read_text().strip() if _TIMEZONE.is_file() else "")


def fires_by_another_clock(when: str, zone: str) -> bool:
    """Whether a schedule fires at other times in this zone than in UTC: an interval of minutes does not."""
    now = SystemClock().now()
    try:
        there, here = (preview(when, tz=each, start=now, count=2) for each in ("UTC", zone))
    except DuetimeError:
        return False  # the server may be newer and understand it
    return [fire.utc for fire in there.fires] != [fire.utc for fire in here.fires]
