"""Time zones that cannot be loaded."""

from collections.abc import Callable
from zoneinfo import ZoneInfo

import pytest

from duetime.model.schedule import decode_schedule, zone
from duetime.model.schedule.walk import cron_walk


def load_zones_with(load: Callable[[str], ZoneInfo], monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces the function that loads zones, and forgets those that this process has loaded."""
    zone.zone_named.cache_clear()
    cron_walk.cache_clear()
    decode_schedule.cache_clear()  # a schedule keeps its walk, which keeps its zone
    monkeypatch.setattr(zone, "ZoneInfo", load)
