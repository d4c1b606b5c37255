"""Days as people name them: of the week, of the month, of the year."""

from typing import NamedTuple

from duetime.model.schedule.cron_field import WEEKDAYS
from duetime.model.schedule.words.tokens import NotUnderstood, Words
from duetime.model.schedule.words.vocabulary import (
    MONTH_NAMES,
    ORDINALS,
    WEEKDAY_GROUPS,
    WEEKDAY_NAMES,
    WEEKDAY_PLURALS,
)


class Days(NamedTuple):
    """The day fields of a cron line."""

    of_month: str = "*"
    month: str = "*"
    of_week: str = "*"

    @property
    def fields(self) -> str:
        return f"{self.of_month} {self.month} {self.of_week}"


def read_weekdays(words: Words, *, every: bool) -> Days:
    """Days of the week. Without "every" they must be plural or a range: "monday at 9" may mean just one."""
    plural = every
    found = []
    while True:
        group = words.look_up(WEEKDAY_GROUPS)
        if group is not None:
            plural = True
            found.append(group)
        else:
            plural = plural or words.peek() in WEEKDAY_PLURALS
            name = words.need_one_of(WEEKDAY_NAMES)
            if words.take("to", "through"):
                plural = True
                name = _range(name, words.need_one_of(WEEKDAY_NAMES))
            found.append(name)
        if not words.separator():
            break
    if not plural:
        raise NotUnderstood
    return Days(of_week=",".join(dict.fromkeys(found)))


def read_weekday(words: Words) -> str:
    return words.need_one_of(WEEKDAY_NAMES)


def read_month_days(words: Words, *, every: bool = False) -> Days:
    """Days of the month: "the 1st and 15th", "the last day", "the first and third monday", "the last weekday".

    After "every" a count may mean an interval as well: "every second day" is not the 2nd of the month, and "every
    second tuesday" may be every other one.
    """
    words.take("the")
    numbers = [_ordinal(words)]
    while words.separator():
        words.take("the")
        numbers.append(_ordinal(words))
    name = words.look_up(WEEKDAY_NAMES)
    if name is not None:
        if not _of_the_month(words) and every and len(numbers) == 1 and numbers[0] not in (1, -1):
            day = next(full for full, short in WEEKDAY_NAMES.items() if short == name)
            raise words.place.refusal(
                f"every so many weeks, or once a month: number {numbers[0]} of {day} can mean both",
                f"every {numbers[0]} weeks on {day}, or {numbers[0]}{_suffix(numbers[0])} {day} of the month",
            )
        return Days(of_week=",".join(_nth_weekday(number, name) for number in numbers))
    if numbers == [-1] and words.take("weekday"):
        _of_the_month(words)
        return Days(of_month="LW")
    counts_days = bool(words.take("day", "days"))
    if not counts_days and -1 in numbers:
        raise NotUnderstood
    if not _of_the_month(words) and every and counts_days and -1 not in numbers:
        raise words.place.refusal("that can mean a day of the month", "every 2 days, or second day of the month")
    if any(number > 31 or number == 0 for number in numbers):
        raise words.place.refusal("a month has no such day", "1st to 31st, or last day")
    return Days(of_month=",".join("L" if number == -1 else str(number) for number in dict.fromkeys(numbers)))


def read_date_of_year(words: Words) -> Days:
    """A day of every year: "24 december", "december 24", "the 24th of december"."""
    words.take("the")
    month = words.look_up(MONTH_NAMES)
    day = _number(words)
    if month is None:
        words.take("of")
        month = words.need_one_of(MONTH_NAMES)
    return Days(of_month=str(day), month=str(month))


def _range(first: str, last: str) -> str:
    """The days from one to another; as a list if they pass the end of cron's week, which is Saturday."""
    begin, end = WEEKDAYS.index(first), WEEKDAYS.index(last)
    if begin < end:
        return f"{first}-{last}"
    return ",".join(WEEKDAYS[(begin + step) % 7] for step in range((end - begin) % 7 + 1))


def _nth_weekday(number: int, name: str) -> str:
    if number == -1:
        return f"{name}L"
    if not 1 <= number <= 5:
        raise NotUnderstood
    return f"{name}#{number}"


def ordinal_of(text: str) -> int | None:
    """The number of "second", "5th" or "last" (-1)."""
    if text in ORDINALS:
        return ORDINALS[text]
    return int(text[:-2]) if text[:1].isdigit() and text[-2:].isalpha() and len(text) <= 6 else None


def _suffix(number: int) -> str:
    return {2: "nd", 3: "rd"}.get(number, "th")


def _of_the_month(words: Words) -> bool:
    if not words.take("of"):
        return False
    words.take("the", "every", "each")
    words.need("month")
    return True


def _ordinal(words: Words) -> int:
    number = ordinal_of(words.peek())
    if number is None:
        raise NotUnderstood
    words.take()
    return number


def _number(words: Words) -> int:
    text = words.peek()
    if text.isdigit() and len(text) <= 2:
        words.take()
        return int(text)
    return _ordinal(words)
