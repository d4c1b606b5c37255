"""Whose clock hangs on this wall: the machine's time zone by its name, for people who meant it and did not say so."""

import os
from pathlib import Path

from duetime.clock import SystemClock
from duetime.errors import DuetimeError
from duetime.model.schedule import check_zone
from duetime.sdk.preview import preview

_LOCALTIME = Path("/etc/localtime")


def local_zone() -> str | None:
    """Its name, such as Europe/Berlin; None where nothing tells it."""
    told = os.environ.get("TZ", "").removeprefix(":")
    if not told:
        told = str(_LOCALTIME.resolve()).partition("/zoneinfo/")[2]
    try:
        check_zone(told)
    except DuetimeError:
        return None
    return told


def fires_by_another_clock(when: str, zone: str) -> bool:
    """Whether a schedule has other times in this zone than in UTC: an interval of minutes has not."""
    now = SystemClock().now()
    try:
        there, here = (preview(when, tz=each, start=now, count=2) for each in ("UTC", zone))
    except DuetimeError:
        return False  # the server, which is newer, understands it
    return [fire.utc for fire in there.fires] != [fire.utc for fire in here.fires]
