"""One field of a cron line: a list of values, ranges and steps.

    *  */15  5  1-5  22-2  0-30/10  5/15  MON  MONDAY  JAN-MAR    any field (names: month and day of week)
    ?                                                             either field of days: the same as *
    L  L-3  LW  15W                                               day of month: the last day, three days before it,
                                                                  the last weekday, the weekday nearest to the 15th
    5L  FRIL  TUE#2  +FRI                                         day of week: the last Friday, the second Tuesday,
                                                                  and: the day of month must match as well

A range whose end is less than its start wraps around the end of the hour, day, week, month or year. Probable mistakes
are refused, by the name of the field.
"""

import re
from functools import lru_cache
from typing import NamedTuple, NoReturn

from duetime.errors import InvalidInput

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
FULL_MONTHS = (
    *("JANUARY", "FEBRUARY", "MARCH", "APRIL", "MAY", "JUNE"),
    *("JULY", "AUGUST", "SEPTEMBER", "OCTOBER", "NOVEMBER", "DECEMBER"),
)
FULL_WEEKDAYS = ("SUNDAY", "MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY")
LAST = -1
"""As `nth`: the last such weekday in a month."""

_NUMBER = re.compile(r"[0-9]{1,4}")
_BEFORE_LAST = re.compile(r"L-([0-9]{1,2})")
_NEAREST = re.compile(r"([0-9]{1,2})W")


class Kind(NamedTuple):
    """What a field counts."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    full_names: tuple[str, ...] = ()

    @property
    def top(self) -> int:
        """The greatest number that may be written: Sunday is 0 and 7."""
        return 7 if self is DAY_OF_WEEK else self.high

    @property
    def span(self) -> int:
        """How many values there are before they wrap around; 0 for years, which do not."""
        return 0 if self is YEAR else self.high - self.low + 1


SECOND = Kind("second", 0, 59)
MINUTE = Kind("minute", 0, 59)
HOUR = Kind("hour", 0, 23)
DAY_OF_MONTH = Kind("day of month", 1, 31)
MONTH = Kind("month", 1, 12, MONTHS, FULL_MONTHS)
DAY_OF_WEEK = Kind("day of week", 0, 6, WEEKDAYS, FULL_WEEKDAYS)
YEAR = Kind("year", 1970, 2199)


class Item(NamedTuple):
    """One part of a list: `low` to `high` by `step`; or, with a mark, days that depend on the month."""

    low: int
    high: int
    """Greater than the greatest value of its kind if the range wraps around."""
    step: int = 1
    mark: str = ""
    """`L`: `low` days before the last of the month; `W`: the weekday nearest to day `low`; `LW`: the last weekday; `#`:
    the `nth` day of week `low` of the month."""
    nth: int = 0


class Field(NamedTuple):
    """A parsed field."""

    kind: Kind
    items: tuple[Item, ...]
    open: bool
    """It starts with `*`: it does not restrict the days, and it keeps a rhythm through clock changes."""
    values: tuple[int, ...]
    """The plain values, in order, without those that depend on the month."""
    text: str
    both: bool = False
    """A day of week that starts with `+`: a day must match the day of month as well."""

    @property
    def every(self) -> bool:
        """Whether it is just `*`."""
        return self.open and self.items == (Item(self.kind.low, self.kind.high),)

    @property
    def marked(self) -> tuple[Item, ...]:
        """The items that depend on the month."""
        return tuple(item for item in self.items if item.mark)


@lru_cache(maxsize=8192)
def read_field(kind: Kind, text: str) -> Field:
    """Parse one field, or refuse it by name."""
    written = text.upper()
    both = kind is DAY_OF_WEEK and written.startswith("+")
    written = written[both:]
    if written == "?" and kind in (DAY_OF_MONTH, DAY_OF_WEEK):
        written = "*"
    items = tuple(_item(kind, part) for part in written.split(","))
    values = sorted({_in_turn(kind, value) for item in items if not item.mark for value in _range(item)})
    return Field(kind, items, written.startswith("*"), tuple(values), text, both)


def _range(item: Item) -> range:
    return range(item.low, item.high + 1, item.step)


def _in_turn(kind: Kind, value: int) -> int:
    return (value - kind.low) % kind.span + kind.low if kind.span else value


def _item(kind: Kind, text: str) -> Item:
    if not text:
        _refuse(f"the {kind.name} has an empty place in its list", "a value between any two commas")
    if kind is DAY_OF_MONTH and (found := _day_of_month(text)) is not None:
        return found
    if kind is DAY_OF_WEEK and "#" in text:
        return _nth(text)
    if kind is DAY_OF_WEEK and text == "L":
        _refuse("the day of week L is ambiguous", "SAT for every Saturday, SATL for the last one of the month")
    if kind is DAY_OF_WEEK and text.endswith("L") and text not in kind.names:
        day = _value(kind, text[:-1]) % 7
        return Item(day, day, mark="#", nth=LAST)
    span, slash, step_text = text.partition("/")
    step = _step(kind, step_text) if slash else 1
    if span == "*":
        return Item(kind.low, kind.high, step)
    first, dash, last = span.partition("-")
    low = _value(kind, first)
    if not dash:
        return Item(low, max(low, kind.high) if slash else low, step)
    high = _value(kind, last)
    if high < low and not kind.span:
        _refuse(f"the {kind.name} range {span} runs backwards", f"{last}-{first}")
    return Item(low, high if high >= low else high + kind.span, step)


def _day_of_month(text: str) -> Item | None:
    """A day that is counted from the end of the month, or is moved to a weekday."""
    if text == "L":
        return Item(0, 0, mark="L")
    if text == "LW":
        return Item(0, 0, mark="LW")
    if (match := _BEFORE_LAST.fullmatch(text)) is not None:
        before = int(match[1])
        if not 1 <= before <= 30:
            _refuse(f"the day of month {text} counts {before} days back from the last", "L-1 to L-30")
        return Item(before, before, mark="L")
    if (match := _NEAREST.fullmatch(text)) is not None:
        day = _value(DAY_OF_MONTH, match[1])
        return Item(day, day, mark="W")
    if "W" in text:
        _refuse(f"the day of month {_shown(text)} is not known", "15W, the weekday nearest to the 15th, or LW")
    return None


def _nth(text: str) -> Item:
    name, _, number = text.partition("#")
    day = _value(DAY_OF_WEEK, name) % 7
    if number not in ("1", "2", "3", "4", "5"):
        _refuse(f"the day of week {text} asks for number {number or 'nothing'}", "#1 to #5, or L for the last")
    return Item(day, day, mark="#", nth=int(number))


def _step(kind: Kind, text: str) -> int:
    if not _NUMBER.fullmatch(text):
        _refuse(f"the {kind.name} step {_shown(text)} is not a number", "such as */15")
    most = kind.top if kind.span else kind.high - kind.low
    if not 1 <= int(text) <= most:
        _refuse(f"the {kind.name} step {int(text)} is out of range (1 to {most})")
    return int(text)


def _value(kind: Kind, text: str) -> int:
    for names in (kind.names, kind.full_names):
        if text in names:
            return names.index(text) + kind.low
    if not _NUMBER.fullmatch(text):
        _refuse(f"the {kind.name} {_shown(text)} is not a number", _instead(kind, text))
    if not kind.low <= int(text) <= kind.top:
        _refuse(f"the {kind.name} {int(text)} is out of range ({kind.low} to {kind.top})")
    return int(text)


def _instead(kind: Kind, text: str) -> str | None:
    """What to write instead of another program's syntax."""
    if text == "?":
        return "write * for any; ? goes with the days only"
    if "~" in text:
        return "H(0-29) picks a value for each job, as 0~29 does elsewhere"
    if ".." in text:
        return f"write a range with a dash: {text.replace('..', '-')}"
    return f"{kind.low} to {kind.high}, or {kind.names[0]} to {kind.names[-1]}" if kind.names else None


def _shown(text: str) -> str:
    return repr(text[:20])


def _refuse(message: str, remedy: str | None = None) -> NoReturn:
    raise InvalidInput(message, field="cron", remedy=remedy)
