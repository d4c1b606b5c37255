"""A recurrence rule of iCalendar (RFC 5545) as text and as its parts: `DTSTART:20260105T090000 RRULE:FREQ=WEEKLY`.

A rule takes what it does not name from its DTSTART; without one it must name everything. Parts that are ambiguous in
the RFC, or that programs interpret differently, are refused by name.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

from duetime.errors import InvalidInput
from duetime.model.schedule.moment import check_moment

FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
DAILY = FREQUENCIES.index("DAILY")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
LONGEST_RULE = 500
MOST_INTERVAL = 10_000
MOST_COUNT = 1_000_000_000
NUMBERS = {
    "BYSECOND": (0, 59),
    "BYMINUTE": (0, 59),
    "BYHOUR": (0, 23),
    "BYMONTHDAY": (-31, 31),
    "BYYEARDAY": (-366, 366),
    "BYWEEKNO": (-53, 53),
    "BYMONTH": (1, 12),
    "BYSETPOS": (-366, 366),
}
KNOWN = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *NUMBERS)
_INSTEAD = {
    "EXDATE": "exclude={'dates': […]}",
    "EXRULE": "exclude, or a rule that leaves those days out",
    "RDATE": "another job for those dates",
    "RSCALE": "a rule of the Gregorian calendar",
    "SKIP": "BYMONTHDAY=-1 for the last day of a month",
    "BYEASTER": "a calendar with those dates",
}
_TIME = re.compile(r"[0-9]{8}T[0-9]{6}Z?")
_BYDAY = re.compile(r"([+-]?[0-9]{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_DTSTART = re.compile(r'DTSTART(?:;TZID="?([^:;"]+)"?)?(?:;VALUE=DATE-TIME)?:(\S+)', re.IGNORECASE)
_PROPERTY = re.compile(r"([A-Z-]+)[:;]", re.IGNORECASE)


class Written(NamedTuple):
    """The lines of a rule."""

    rule: str
    begin: str | None
    zone: str | None


class Parts(NamedTuple):
    """The parts of a rule, with what it takes from its DTSTART."""

    frequency: int
    interval: int
    begin: datetime | None
    """DTSTART, as a wall time."""
    most: int | None
    """COUNT: how many times it names."""
    until: datetime | None
    """A moment, or a wall time."""
    week_start: int
    positions: tuple[int, ...]
    months: tuple[int, ...]
    month_days: tuple[int, ...]
    year_days: tuple[int, ...]
    weeks: tuple[int, ...]
    weekdays: tuple[tuple[int, int], ...]
    """The weekday, and which of them in its month or year: 0 for each."""
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    """Empty: any, for a more frequent rule."""


def looks_like_a_rule(text: str) -> bool:
    return bool(re.match(r"(RRULE:|FREQ=|(DTSTART|EXDATE|RDATE|EXRULE)[:;])", text, re.IGNORECASE))


def split_rule(text: object) -> Written:
    """The lines of a rule, which may be separated by any white space."""
    if not isinstance(text, str) or not text.isascii() or not 0 < len(text) <= LONGEST_RULE or "=" not in text:
        refuse("is not a recurrence rule", "such as FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0")
    rules, begin, zone = [], None, None
    for line in text.split():
        if (match := _DTSTART.fullmatch(line)) is not None:
            zone, begin = match[1], match[2].upper()
        elif (named := _PROPERTY.match(line)) is not None and named[1].upper() != "RRULE":
            _unknown(named[1].upper())
        else:
            rules.append(re.sub(r"^RRULE:", "", line, flags=re.IGNORECASE).upper())
    if len(rules) != 1:
        refuse(f"{len(rules)} rules are given", "one; make a job for each rule")
    return Written(rules[0].strip(";"), begin, zone)


@lru_cache(maxsize=16_384)
def read_parts(rule: str, begin: datetime | None) -> Parts:
    """Parse a rule that starts at a wall time, or refuse the invalid part."""
    given: dict[str, str] = {}
    for part in rule.split(";"):
        name, equals, value = part.partition("=")
        if name not in KNOWN:
            _unknown(name)
        if not equals or not value:
            refuse(f"{name} has no value", f"such as {name}=1")
        if name in given:
            refuse(f"{name} appears twice", "give it once, with commas between its values")
        given[name] = value
    if given.get("FREQ") not in FREQUENCIES:
        refuse(f"FREQ is {given.get('FREQ', 'missing')}", ", ".join(FREQUENCIES))
    frequency = FREQUENCIES.index(given["FREQ"])
    numbers = {name: _numbers(name, given.get(name, "")) for name in NUMBERS}
    if "COUNT" in given and "UNTIL" in given:
        refuse("COUNT and UNTIL cannot be combined", "give one of them")
    week_start = given.get("WKST", "MO")
    if week_start not in WEEKDAYS:
        refuse(f"WKST is {week_start[:10]}", ", ".join(WEEKDAYS))
    parts = Parts(
        frequency=frequency,
        interval=_number("INTERVAL", given.get("INTERVAL", "1"), MOST_INTERVAL),
        begin=begin,
        most=_number("COUNT", given["COUNT"], MOST_COUNT) if "COUNT" in given else None,
        until=read_time("UNTIL", given["UNTIL"]) if "UNTIL" in given else None,
        week_start=WEEKDAYS.index(week_start),
        positions=numbers["BYSETPOS"],
        months=numbers["BYMONTH"],
        month_days=numbers["BYMONTHDAY"],
        year_days=numbers["BYYEARDAY"],
        weeks=numbers["BYWEEKNO"],
        weekdays=_weekdays(given.get("BYDAY", "")),
        hours=numbers["BYHOUR"],
        minutes=numbers["BYMINUTE"],
        seconds=numbers["BYSECOND"],
    )
    _check(parts)
    return _completed(parts)


def read_time(name: str, text: str) -> datetime:
    """A time in iCalendar's format: a moment with Z, a wall time without."""
    try:
        found = datetime.strptime(text[:15], "%Y%m%dT%H%M%S") if _TIME.fullmatch(text) else None  # noqa: DTZ007
    except ValueError:
        found = None  # 30 February
    if found is None:
        sign = ":" if name == "DTSTART" else "="
        refuse(f"{name} is {text[:20]}", f"a day and a time, such as {name}{sign}20261231T235959")
    check_moment(found.replace(tzinfo=UTC), "rrule")
    return found.replace(tzinfo=UTC) if text.endswith("Z") else found


def refuse(message: str, remedy: str | None = None) -> NoReturn:
    raise InvalidInput(message, field="rrule", remedy=remedy)


def _unknown(name: str) -> NoReturn:
    known = f"DTSTART, and a rule of {', '.join(KNOWN)}"
    refuse(f"{name[:20] or 'an empty part'} is not known", _INSTEAD.get(name, known))


def _number(name: str, text: str, most: int) -> int:
    if not text.isdigit() or len(text) > 10 or not 1 <= int(text) <= most:
        refuse(f"{name} is {text[:20]}", f"1 to {most}")
    return int(text)


def _numbers(name: str, text: str) -> tuple[int, ...]:
    low, high = NUMBERS[name]
    found = set()
    for part in text.split(",") if text else ():
        if not re.fullmatch(r"[+-]?[0-9]{1,3}", part) or not low <= int(part) <= high or (low < 0 and not int(part)):
            refuse(f"{name} has {part[:20] or 'an empty place'}", f"{low} to {high}{', but not 0' if low < 0 else ''}")
        found.add(int(part))
    return tuple(sorted(found))


def _weekdays(text: str) -> tuple[tuple[int, int], ...]:
    found = set()
    for part in text.split(",") if text else ():
        match = _BYDAY.fullmatch(part)
        if match is None or (match[1] is not None and not 1 <= abs(int(match[1])) <= 53):
            refuse(f"BYDAY has {part[:20] or 'an empty place'}", "MO to SU; 1MO and -1MO are the first and the last")
        found.add((WEEKDAYS.index(match[2]), int(match[1] or 0)))
    return tuple(sorted(found))


def _check(parts: Parts) -> None:
    """Combinations that the RFC forbids, or that programs interpret differently."""
    frequency = FREQUENCIES[parts.frequency]
    if any(number for _, number in parts.weekdays) and (parts.frequency > 1 or parts.weeks):
        refuse(f"BYDAY has a number, beside FREQ={frequency}{' and BYWEEKNO' if parts.weeks else ''}", "MO, not 1MO")
    if parts.month_days and frequency == "WEEKLY":
        refuse("BYMONTHDAY cannot be combined with FREQ=WEEKLY", "FREQ=MONTHLY, or FREQ=DAILY with BYDAY")
    if parts.month_days and frequency == "YEARLY" and not parts.months:
        refuse("BYMONTHDAY is ambiguous with FREQ=YEARLY", "add BYMONTH, or FREQ=MONTHLY for every month")
    if parts.year_days and frequency in ("MONTHLY", "WEEKLY", "DAILY"):
        refuse(f"BYYEARDAY cannot be combined with FREQ={frequency}", "FREQ=YEARLY")
    if parts.weeks and frequency != "YEARLY":
        refuse(f"BYWEEKNO cannot be combined with FREQ={frequency}", "FREQ=YEARLY")
    if parts.positions and parts.frequency >= DAILY:
        refuse(f"BYSETPOS cannot be combined with FREQ={frequency}", "name the time itself, such as BYMINUTE=45")
    if parts.positions and max(len(parts.hours), 1) * max(len(parts.minutes), 1) * max(len(parts.seconds), 1) > 1:
        refuse("BYSETPOS counts days, and the rule has several times of the day", "a job for each time")
    if parts.begin is None and parts.interval > 1:
        refuse(f"INTERVAL={parts.interval} is counted from DTSTART", "add DTSTART:20260105T090000 or start_at")
    if parts.begin is None and parts.most is not None:
        refuse("COUNT is counted from DTSTART", "add DTSTART:20260105T090000 or start_at")


def _completed(parts: Parts) -> Parts:
    """With what the rule takes from its DTSTART."""
    frequency, begin = FREQUENCIES[parts.frequency], parts.begin
    bare = not (parts.month_days or parts.year_days or parts.weekdays)
    changes: dict[str, Any] = {}
    if frequency == "YEARLY" and bare and parts.weeks:
        changes["weekdays"] = ((_start(begin, "BYDAY").weekday(), 0),)
    elif frequency == "YEARLY" and bare:
        if not parts.months:
            changes["months"] = (_start(begin, "BYMONTH and BYMONTHDAY").month,)
        changes["month_days"] = (_start(begin, "BYMONTHDAY").day,)
    elif frequency == "MONTHLY" and bare:
        changes["month_days"] = (_start(begin, "BYMONTHDAY or BYDAY").day,)
    elif frequency == "WEEKLY" and bare:
        changes["weekdays"] = ((_start(begin, "BYDAY").weekday(), 0),)
    if not parts.hours and parts.frequency <= DAILY:
        changes["hours"] = (_start(begin, "BYHOUR and BYMINUTE").hour,)
    if not parts.minutes and frequency not in ("MINUTELY", "SECONDLY"):
        changes["minutes"] = (_start(begin, "BYMINUTE").minute,)
    if not parts.seconds and frequency != "SECONDLY":
        changes["seconds"] = (0 if begin is None else begin.second,)
    return parts._replace(**changes)


def _start(begin: datetime | None, missing: str) -> datetime:
    if begin is None:
        refuse(f"has neither {missing} nor DTSTART", f"add {missing}, DTSTART:20260105T090000 or start_at")
    return begin
