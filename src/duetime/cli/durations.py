"""Durations on the command line."""

from duetime.duration import parse_duration
from duetime.errors import InvalidInput


def read_seconds(text: str, field: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except (ValueError, TypeError):
        raise InvalidInput(f"{text!r} is not a duration", field=field, remedy="such as 90s, 15m or 25h") from None
