"""Durations as people write them: "90s", "1h30m", "500ms", "30d", PT15M, or a plain number of seconds.

A day is 24 hours and a week is seven days. Months and years have no fixed length and are refused: "every month" is a
calendar rule, not a duration. Negative, infinite and absurd durations (over 100 years) are refused for input and
output.
"""

import math
import re
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache

LONGEST = timedelta(days=36_525)

_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_MICROSECOND = timedelta(microseconds=1)

_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_PLAIN = re.compile(_NUMBER)
_SHORT = re.compile(" ?".join(f"(?:(?P<{unit}>{_NUMBER}) ?{unit})?" for unit in _UNITS))
_ISO = re.compile(
    rf"P(?:(?P<w>{_NUMBER})W)?(?:(?P<d>{_NUMBER})D)?"
    rf"(?:T(?=[0-9])(?:(?P<h>{_NUMBER})H)?(?:(?P<m>{_NUMBER})M)?(?:(?P<s>{_NUMBER})S)?)?"
)
_ISO_CALENDAR = re.compile(rf"P(?=[^T]*[YM])(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}[WD])*(?:T.*)?")
_LONGEST_TEXT = 100
_ACCEPTED = 'write it like "90s", "15m", "1h30m", "500ms", "30d", "PT15M", or as a number of seconds'


def parse_duration(text: str | int | float | timedelta) -> timedelta:
    """Parse a duration; a number, or text that is only a number, counts seconds.

    Raises ValueError with a message that says what is wrong and what is accepted.
    """
    if isinstance(text, str):
        return _read(text)
    if isinstance(text, timedelta):
        return _within_bounds(text, text)
    if isinstance(text, bool) or not isinstance(text, int | float):
        raise ValueError(f"{text!r} is not a duration: {_ACCEPTED}")
    if isinstance(text, float) and not math.isfinite(text):
        raise ValueError(f"{text} is not a duration")
    if abs(text) > LONGEST.total_seconds():
        raise ValueError(_out_of_bounds(text))
    return _within_bounds(timedelta(seconds=text), text)


def format_duration(duration: timedelta) -> str:
    """Format a duration in the short form ("1h30m", "500ms"), which `parse_duration` reads back unchanged."""
    left = _within_bounds(duration, duration)
    written = ""
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, _UNITS[unit])
        written += f"{count}{unit}" if count else ""
    if left:
        milliseconds, microseconds = divmod(left // _MICROSECOND, 1000)
        fraction = f".{microseconds:03d}".rstrip("0") if microseconds else ""
        written += f"{milliseconds}{fraction}ms"
    return written or "0s"


@lru_cache(maxsize=1024)  # all jobs of a batch repeat the same few durations
def _read(text: str) -> timedelta:
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"a text of {len(text)} characters is not a duration: {_ACCEPTED}")
    stripped = " ".join(text.split())
    if stripped.startswith("-"):
        raise ValueError(f"{text!r} is negative: a duration is zero or more")
    if _PLAIN.fullmatch(stripped):
        parts: dict[str, str | None] = {"s": stripped}
    elif (match := _SHORT.fullmatch(stripped) or _ISO.fullmatch(stripped)) and any(match.groups()):
        parts = match.groupdict()
    elif _ISO_CALENDAR.fullmatch(stripped):
        raise ValueError(f"{text!r} counts in months or years, which have no fixed length: use days or weeks")
    else:
        raise ValueError(f"{text!r} is not a duration: {_ACCEPTED}")
    microseconds = sum(
        (Fraction(number) * (_UNITS[unit] // _MICROSECOND) for unit, number in parts.items() if number),
        start=Fraction(0),
    )
    if microseconds > LONGEST // _MICROSECOND:
        raise ValueError(_out_of_bounds(text))
    return round(microseconds) * _MICROSECOND


def _within_bounds(duration: timedelta, given: object) -> timedelta:
    if not timedelta(0) <= duration <= LONGEST:
        raise ValueError(_out_of_bounds(given))
    return duration


def _out_of_bounds(given: object) -> str:
    shown = repr(given) if isinstance(given, str) else str(given)
    return f"{shown} is out of range: a duration is zero to 100 years"
