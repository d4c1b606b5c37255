"""Other programs' syntax for schedules, where it is unambiguous here.

CRON_TZ=Europe/Berlin 0 9 * * *      a zone before the line, as in cronie and Kubernetes (TZ= as well)
@every 90s                           an interval, as in Go's cron libraries
rate(5 minutes)                      an interval of EventBridge, counted from creation; a day has 24 hours
cron(0 10 ? * 2-6 *)                 a line of EventBridge: the year last, and days of week from 1, which is SUN
"""

import re
from datetime import timedelta

from duetime.errors import InvalidInput
from duetime.model.schedule.cron import Cron, make_cron
from duetime.model.schedule.cron_field import WEEKDAYS
from duetime.model.schedule.every import Every
from duetime.model.schedule.parts import make_every
from duetime.model.schedule.zone import check_zone

_ZONE = re.compile(r"(?:CRON_)?TZ=(\S*)\s+(.*)")
_LATER_ZONE = re.compile(r";\s*(?:CRON_)?TZ=")
_CALL = re.compile(r"(rate|cron|at)\s*\((.*)\)", re.IGNORECASE)
_RATE = re.compile(r"([1-9][0-9]{0,5}) (minute|hour|day)s?")
_RATES = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(hours=24)}
_WEEKDAY_NUMBER = re.compile(r"(?<![#/0-9])[0-9]+")


def is_dialect(text: str) -> bool:
    return text.startswith("@") or bool(_ZONE.match(text) or _CALL.fullmatch(text))


def read_cron(text: str, zone: str | None = None, usual_zone: str = "UTC") -> Cron | Every:
    """The schedule of a cron line, or of another program's syntax for one. Without a zone, here or in the text, it uses
    `usual_zone`."""
    if not isinstance(text, str):
        return make_cron(text, zone or usual_zone)
    given = " ".join(text.split())
    if (named := _ZONE.fullmatch(given)) is not None:
        zone, given = _one_zone(named[1], zone), named[2]
    if _LATER_ZONE.search(given):
        raise InvalidInput(
            "has a zone after a semicolon",
            field="cron",
            remedy="give one zone, before the first line, or create a job per zone",
        )
    place = usual_zone if zone is None else zone
    if given.lower().startswith("@every"):
        return _interval(given[len("@every") :].strip(), place)
    if (call := _CALL.fullmatch(given)) is not None:
        return _eventbridge(call[1].lower(), " ".join(call[2].split()), place)
    return make_cron(given, place)


def _one_zone(named: str, zone: str | None) -> str:
    try:
        check_zone(named)
    except InvalidInput as error:
        raise InvalidInput(error.message, field="cron", remedy=error.remedy) from None
    if zone is not None and zone != named:
        raise InvalidInput(f"the line says {named}, and tz says {zone}", field="tz", remedy="give one of them")
    return named


def _interval(length: str, zone: str) -> Every:
    try:
        return make_every(length, zone)
    except InvalidInput as error:
        raise InvalidInput(error.message, field="cron", remedy=error.remedy or "such as @every 90s") from None


def _eventbridge(function: str, inside: str, zone: str) -> Cron | Every:
    if function == "at":
        raise InvalidInput(f"at({inside[:40]}) runs once", field="cron", remedy="run_at, with an offset")
    if function == "rate":
        match = _RATE.fullmatch(inside.lower())
        if match is None:
            raise InvalidInput(f"rate({inside[:40]}) is not known", field="cron", remedy="such as rate(5 minutes)")
        return Every(int(match[1]) * _RATES[match[2]], zone=zone)
    fields = inside.split(" ")
    if len(fields) != 6:
        raise InvalidInput(
            f"cron({inside[:40]}) has {len(fields)} fields",
            field="cron",
            remedy="EventBridge has six, with the year last; without cron(), five, with seconds first six",
        )
    minute, hour, day_of_month, month, day_of_week, year = fields
    if not {day_of_month, day_of_week} & {"?", "*"}:
        raise InvalidInput(
            f"cron({inside[:40]}) restricts both kinds of day, which EventBridge refuses",
            field="cron",
            remedy="? in one of them; or five fields and day_match='both'",
        )
    days = [_any(day_of_month), month, _any(_WEEKDAY_NUMBER.sub(_weekday, day_of_week))]
    if year == "*":
        return make_cron(" ".join([minute, hour, *days]), zone)
    return make_cron(" ".join(["0", minute, hour, *days, year]), zone)


def _weekday(number: re.Match[str]) -> str:
    if not 1 <= int(number[0]) <= 7:
        raise InvalidInput(
            f"the day of week {number[0]} is out of range in cron(…)", field="cron", remedy="1 (SUN) to 7 (SAT)"
        )
    return WEEKDAYS[int(number[0]) - 1]


def _any(field: str) -> str:
    return "*" if field == "?" else field
