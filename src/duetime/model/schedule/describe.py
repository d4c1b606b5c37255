"""Describes a schedule for people: in one sentence, and in its exact form."""

from datetime import datetime, timedelta
from typing import assert_never

from duetime.ids import show
from duetime.model.schedule.after import After
from duetime.model.schedule.clock_note import once_note
from duetime.model.schedule.cron import Cron
from duetime.model.schedule.cron_hash import is_hashed, settled_line
from duetime.model.schedule.cron_line import read_lines
from duetime.model.schedule.describe_cron import WEEKDAY_NAMES, describe_lines, listed
from duetime.model.schedule.describe_rrule import describe_rrule
from duetime.model.schedule.every import Every
from duetime.model.schedule.exclusion import Exclusion
from duetime.model.schedule.once import Once
from duetime.model.schedule.period import Period
from duetime.model.schedule.rrule import RRule
from duetime.model.schedule.stored import Recurring, Schedule
from duetime.model.schedule.zone import wall_of, zone_named

_FEW_DATES = 3


def explain(schedule: Schedule, zone: str = "UTC") -> str:
    """One sentence. Moments of a schedule without its own zone are shown in the given one."""
    match schedule:
        case Once():
            return _once(schedule, zone)
        case Cron():
            return ", ".join([*_cron(schedule), *_limits(schedule), schedule.zone])
        case Every():
            return _every(schedule)
        case RRule():
            return ", ".join([*describe_rrule(schedule.parts), *_limits(schedule), schedule.zone])
        case After():
            how = {"success": "succeeded", "failure": "failed", "any": "ended"}[schedule.on]
            return f"After each run of {show('job', schedule.job)} that {how}"
        case _:
            assert_never(schedule)


def exact_form(schedule: Schedule) -> str:
    """The kind and its exact text, which can be parsed again: "cron 0 9 * * MON-FRI", "every P2W"."""
    match schedule:
        case Once():
            if schedule.at is not None:
                return f"at {_rfc_3339(schedule.at)}"
            return "now" if schedule.delay is None else f"in {Period(exact=schedule.delay)}"
        case Cron():
            return f"cron {schedule.line}"
        case RRule():
            return f"rrule {schedule.rule}"
        case Every():
            interval = str(schedule.period)
            if schedule.count is None and (schedule.anchor is None or schedule.first):
                return f"every {interval}"
            start = "" if schedule.anchor is None or schedule.first else f"{_rfc_3339(schedule.anchor)}/"
            return f"every R{'' if schedule.count is None else schedule.count}/{start}{interval}"
        case After():
            return str(schedule)
        case _:
            assert_never(schedule)


def spell(period: Period) -> str:
    """A duration in words: "2 weeks", "1 hour and 30 minutes"."""
    years, months = divmod(period.months, 12)
    weeks, days = divmod(period.days, 7)
    if weeks and days:
        weeks, days = 0, period.days
    minutes, seconds = divmod(period.exact, timedelta(minutes=1))
    hours, minutes = divmod(minutes, 60)
    counted: list[tuple[float, str]] = [
        (years, "year"),
        (months, "month"),
        (weeks, "week"),
        (days, "day"),
        (hours, "hour"),
        (minutes, "minute"),
        (seconds.total_seconds(), "second"),
    ]
    parts = [f"{count:.12g} {unit}{'' if count == 1 else 's'}" for count, unit in counted if count]
    return listed(parts) if parts else "0 seconds"


def _once(schedule: Once, zone: str) -> str:
    if schedule.at is not None:
        note = once_note(schedule)
        phrases = "" if note is None else f" ({note[1]})"
        return f"Once, at {_shown(schedule.at, zone)}{phrases}, {zone}"
    return "Once, now" if schedule.delay is None else f"Once, {spell(Period(exact=schedule.delay))} after submission"


def _cron(schedule: Cron) -> list[str]:
    phrases = describe_lines(read_lines(settled_line(schedule.line, "")))
    if not is_hashed(schedule.line):
        return [phrases]
    return [phrases, "as an example: H stands for values that are computed from a job's key, or from its id"]


def _every(schedule: Every) -> str:
    spelled = spell(schedule.period)
    alone = spelled.removeprefix("1 ") if " and " not in spelled and "," not in spelled else spelled
    parts = [f"Every {alone}"]
    parts.append(
        "counted from creation" if schedule.anchor is None else f"counted from {_shown(schedule.anchor, schedule.zone)}"
    )
    if schedule.count is not None:
        parts.append("once" if schedule.count == 1 else f"{schedule.count} times")
    return ", ".join([*parts, *_limits(schedule), schedule.zone])


def _limits(schedule: Recurring) -> list[str]:
    phrases = []
    if schedule.start_at is not None:
        phrases.append(f"from {_shown(schedule.start_at, schedule.zone)}")
    if schedule.end_at is not None:
        phrases.append(f"until {_shown(schedule.end_at, schedule.zone)}")
    if schedule.exclude is not None:
        phrases.append(_exclusion(schedule.exclude))
    return phrases


def _exclusion(exclusion: Exclusion) -> str:
    names = [next(name for name in WEEKDAY_NAMES if name.upper().startswith(short)) for short in exclusion.weekdays]
    if len(exclusion.dates) <= _FEW_DATES:
        names += [day.isoformat() for day in exclusion.dates]
    else:
        names.append(f"{len(exclusion.dates)} dates")
    names += [f"the days of {name}" for name in exclusion.calendars]
    return f"not on {listed(names)}{' but on the next other day' if exclusion.instead == 'next_day' else ''}"


def _shown(moment: datetime, zone: str) -> str:
    wall = wall_of(moment, zone_named(zone))
    if wall.microsecond:
        return wall.isoformat(" ", "milliseconds")
    return wall.isoformat(" ", "seconds" if wall.second else "minutes")


def _rfc_3339(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
