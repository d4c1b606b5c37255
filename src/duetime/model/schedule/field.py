"""One field of a cron line: a list of values, ranges and steps.

    *  */15  5  1-5  0-30/10  5/15  MON  JAN-MAR        any field (names: month and day of week)
    L  LW                                               day of month: the last day, the last weekday
    5L  FRIL  TUE#2                                     day of week: the last Friday, the second Tuesday

Whatever is probably a mistake is refused, by the name of its field.
"""

import re
from functools import lru_cache
from typing import NamedTuple, NoReturn

from duetime.errors import InvalidInput

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
LAST = -1
"""As `nth`: the last weekday of that name; as `low` of a day of month: the last day."""
LAST_WEEKDAY = -2

_NUMBER = re.compile(r"[0-9]{1,4}")


class Kind(NamedTuple):
    """What a field counts."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def top(self) -> int:
        """The greatest number that may be written: Sunday is 0 and 7."""
        return 7 if self is DAY_OF_WEEK else self.high


SECOND = Kind("second", 0, 59)
MINUTE = Kind("minute", 0, 59)
HOUR = Kind("hour", 0, 23)
DAY_OF_MONTH = Kind("day of month", 1, 31)
MONTH = Kind("month", 1, 12, MONTHS)
DAY_OF_WEEK = Kind("day of week", 0, 6, WEEKDAYS)


class Item(NamedTuple):
    """One part of a list: `low` to `high` by `step`; or the `nth` day of week `low` of a month."""

    low: int
    high: int
    step: int = 1
    nth: int = 0

    def values(self) -> range:
        return range(self.low, self.high + 1, self.step)


class Field(NamedTuple):
    """A field that has been read."""

    kind: Kind
    items: tuple[Item, ...]
    open: bool
    """It starts with `*`: it does not restrict the days, and it keeps a rhythm through clock changes."""
    values: tuple[int, ...]
    """The plain values, in order, without those that depend on the month (`L`, `LW`, `#`)."""

    @property
    def every(self) -> bool:
        """It is just `*`."""
        return self.open and self.items == (Item(self.kind.low, self.kind.high),)

    def numbers(self) -> str:
        """The field in numbers only, as a comma list that still starts with `*` if it did."""
        special = {(LAST, 0): "L", (LAST_WEEKDAY, 0): "LW"}
        written = []
        for index, item in enumerate(self.items):
            if self.open and index == 0:
                written.append("*" if item.step == 1 else f"*/{item.step}")
            elif item.nth:
                written.append(f"{item.low}L" if item.nth == LAST else f"{item.low}#{item.nth}")
            elif (item.low, item.nth) in special:
                written.append(special[item.low, item.nth])
            else:
                written.extend(map(str, item.values()))
        return ",".join(written)


@lru_cache(maxsize=8192)
def read_field(kind: Kind, text: str) -> Field:
    """Read one field, or refuse it by name."""
    items = tuple(_item(kind, part) for part in text.upper().split(","))
    values = sorted({value % 7 if kind is DAY_OF_WEEK else value for item in items for value in _plain(item)})
    return Field(kind, items, text.startswith("*"), tuple(values))


def _plain(item: Item) -> range:
    return range(0) if item.nth or item.low < 0 else item.values()


def _item(kind: Kind, text: str) -> Item:
    if not text:
        _refuse(f"the {kind.name} has an empty place in its list", "a value between any two commas")
    if kind is DAY_OF_MONTH and text in ("L", "LW"):
        return Item(LAST, LAST) if text == "L" else Item(LAST_WEEKDAY, LAST_WEEKDAY)
    if kind is DAY_OF_WEEK and "#" in text:
        return _nth(text)
    if kind is DAY_OF_WEEK and text.endswith("L") and len(text) > 1:
        day = _value(kind, text[:-1]) % 7
        return Item(day, day, nth=LAST)
    span, slash, step_text = text.partition("/")
    step = _step(kind, step_text) if slash else 1
    if span == "*":
        return Item(kind.low, kind.high, step)
    first, dash, last = span.partition("-")
    low = _value(kind, first)
    if not dash:
        return Item(low, max(low, kind.high) if slash else low, step)
    high = _value(kind, last)
    if high < low:
        remedy = (
            "as a list, such as SAT,SUN" if kind is DAY_OF_WEEK else f"as a list: {first}-{kind.top},{kind.low}-{last}"
        )
        _refuse(f"the {kind.name} range {span} runs backwards", remedy)
    return Item(low, high, step)


def _nth(text: str) -> Item:
    name, _, number = text.partition("#")
    day = _value(DAY_OF_WEEK, name) % 7
    if number not in ("1", "2", "3", "4", "5"):
        _refuse(f"the day of week {text} asks for number {number or 'nothing'}", "#1 to #5, or L for the last")
    return Item(day, day, nth=int(number))


def _step(kind: Kind, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        _refuse(f"the {kind.name} step {_shown(text)} is not a number", "such as */15")
    if not 1 <= int(text) <= kind.top:
        _refuse(f"the {kind.name} step {int(text)} is out of range (1 to {kind.top})")
    return int(text)


def _value(kind: Kind, text: str) -> int:
    if text in kind.names:
        return kind.names.index(text) + kind.low
    if not _NUMBER.fullmatch(text):
        known = f"{kind.low} to {kind.high}, or {kind.names[0]} to {kind.names[-1]}" if kind.names else None
        if text == "?":
            known = "write * for any"
        _refuse(f"the {kind.name} {_shown(text)} is not a number", known)
    if not kind.low <= int(text) <= kind.top:
        _refuse(f"the {kind.name} {int(text)} is out of range ({kind.low} to {kind.top})")
    return int(text)


def _shown(text: str) -> str:
    return repr(text[:20])


def _refuse(message: str, remedy: str | None = None) -> NoReturn:
    raise InvalidInput(message, field="cron", remedy=remedy)
