"""Repeating intervals of ISO 8601: `R5/2026-01-01T00:00:00Z/PT1H` fires five times, the first at its start.

`R/…` repeats without end. Without a start (`R5/PT1H`) it is counted from creation, like every interval.
"""

import re
from datetime import datetime
from typing import TypeGuard

from duetime.errors import InvalidInput
from duetime.model.schedule.moment import check_moment

MOST = 1_000_000_000
_REPEATING = re.compile(r"R([0-9]{0,10})/(?:([^/]+)/)?(P[^/]+)")
_REMEDY = "such as R5/2026-01-01T00:00:00Z/PT1H, or R/PT1H"


def is_repeating(text: object) -> TypeGuard[str]:
    return isinstance(text, str) and text.strip()[:1] == "R"


def parse_repeating(text: str) -> tuple[datetime | None, int | None, str]:
    """Its start, how often it fires, and the interval."""
    match = _REPEATING.fullmatch(text.strip()) if len(text) < 100 else None
    if match is None:
        raise InvalidInput(f"{text[:60]!r} is not a repeating interval", field="every", remedy=_REMEDY)
    number, start, interval = match.groups()
    count = int(number) if number else None
    if count is not None and not 1 <= count <= MOST:
        raise InvalidInput(f"R{number} never fires" if not count else f"R{number} is too often", field="every")
    return None if start is None else check_moment(start, "every"), count, interval
