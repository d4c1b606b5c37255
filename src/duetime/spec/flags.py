"""Parses the text of command-line flags into option values."""

from datetime import date
from typing import Any

import msgspec

from duetime.errors import InvalidInput

_WEEKDAYS = frozenset({"MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"})


def typed_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{text[:60]!r} is not JSON: {error}", remedy="""such as '{"retries": 5}'""") from None


def typed_json_or_text(text: str) -> Any:
    return typed_json(text) if text.startswith("{") else text


def typed_chain(text: str) -> Any:
    return typed_json(text) if text.startswith("{") else {"job": text}


def typed_days(given: list[str]) -> dict[str, list[str]]:
    """The days to exclude: an item that is neither a date nor a day of the week is a calendar."""
    days: dict[str, list[str]] = {}
    for day in given:
        days.setdefault(_kind(day), []).append(day)
    return days


def _kind(day: str) -> str:
    if day.upper() in _WEEKDAYS:
        return "weekdays"
    try:
        date.fromisoformat(day)
    except ValueError:
        return "calendars"
    return "dates"
