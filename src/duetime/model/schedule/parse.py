"""Parses one text of any kind: a cron line, a recurrence rule, a duration, a repeating interval, a moment or plain
words."""

import re
from datetime import datetime

import msgspec

from duetime.errors import InvalidInput
from duetime.model.schedule.after import parse_after
from duetime.model.schedule.dialect import is_dialect, read_cron
from duetime.model.schedule.moment import check_moment, looks_like_a_moment
from duetime.model.schedule.once import Once
from duetime.model.schedule.parts import delayed, make_every
from duetime.model.schedule.rrule import make_rrule
from duetime.model.schedule.rrule_parts import looks_like_a_rule
from duetime.model.schedule.stored import Schedule
from duetime.model.schedule.words import parse_words
from duetime.model.schedule.zone import check_zone

LONGEST = 500
_CRON_FIELD = re.compile(r"[0-9*/,\-?#HLW()]+", re.IGNORECASE)
_DURATION = re.compile(r"P[0-9T].*|(?:[0-9.]+ ?(?:w|d|h|ms|m|s) ?)+")


def parse_schedule(text: str, *, zone: str | None = None, now: datetime, usual_zone: str = "UTC") -> Schedule:
    """The schedule that a text means: `0 9 * * MON`, `PT15M` (every 15 minutes), `R5/2026-01-01T00:00:00Z/PT1H`,
    `2026-11-15T09:00:00+01:00`, or words such as "every weekday at 9am". It reads back what `exact_form` writes.

    `usual_zone` is the zone if neither `zone` nor the text names one. A recurring schedule in words keeps its words:
    equal words mean an equal schedule, whenever they are submitted.
    """
    place = usual_zone if zone is None else check_zone(zone)
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
        raise InvalidInput("is not a schedule", field="schedule", remedy="such as '0 9 * * MON' or 'every 15 minutes'")
    given = " ".join(text.split())
    kind, _, rest = given.partition(" ")
    if looks_like_a_rule(rule := given.removeprefix("rrule ")):
        return make_rrule(rule, zone, usual_zone=usual_zone)
    if kind == "cron" or is_dialect(given) or _is_cron(given.partition(";")[0].split(" ")):
        return read_cron(given.removeprefix("cron "), zone, usual_zone)
    if looks_like_a_moment(moment := given.removeprefix("at ")):
        return Once(at=check_moment(moment, "schedule"))
    if _is_interval(interval := given.removeprefix("every ")):
        return make_every(interval, place)
    if (chain := parse_after(given)) is not None:
        return chain
    if kind == "in" and _DURATION.fullmatch(rest):
        return delayed(rest, place, check_moment(now, "now"))
    schedule = parse_words(given, zone=place, now=check_moment(now, "now"))
    return schedule if isinstance(schedule, Once) else msgspec.structs.replace(schedule, said=given.lower())


def _is_cron(parts: list[str]) -> bool:
    """Words never start with three fields of a cron line, nor do they contain a star."""
    if any("*" in part for part in parts):
        return True
    return len(parts) in (5, 6, 7) and all(_CRON_FIELD.fullmatch(part) for part in parts[:3])


def _is_interval(text: str) -> bool:
    return bool(re.match(r"R[0-9]*/", text) or _DURATION.fullmatch(text))
