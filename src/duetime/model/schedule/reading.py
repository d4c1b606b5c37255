"""One text, any kind: a cron line, a duration, a repeating interval, a moment or plain words."""

import re
from datetime import datetime

import msgspec

from duetime.errors import InvalidInput
from duetime.model.schedule.after import parse_after
from duetime.model.schedule.cron import make_cron
from duetime.model.schedule.making import delayed, make_every
from duetime.model.schedule.moment import check_moment, looks_like_a_moment
from duetime.model.schedule.once import Once
from duetime.model.schedule.stored import Schedule
from duetime.model.schedule.words import parse_words
from duetime.model.schedule.zone import check_zone

LONGEST = 500
_CRON_FIELD = re.compile(r"[0-9*/,\-?#]+|L|LW", re.IGNORECASE)
_DURATION = re.compile(r"P[0-9T].*|(?:[0-9.]+ ?(?:w|d|h|ms|m|s) ?)+")


def parse_schedule(text: str, *, zone: str = "UTC", now: datetime) -> Schedule:
    """The schedule that a text means: `0 9 * * MON`, `PT15M` (every 15 minutes), `R5/2026-01-01T00:00:00Z/PT1H`,
    `2026-11-15T09:00:00+01:00`, or words such as "every weekday at 9am". What `exact_form` writes is read back.

    What was told in words and repeats remembers them, for the same words mean the same schedule whenever they are said.
    """
    check_zone(zone)
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
        raise InvalidInput("is not a schedule", field="schedule", remedy="such as '0 9 * * MON' or 'every 15 minutes'")
    given = " ".join(text.split())
    kind, _, rest = given.partition(" ")
    if kind == "cron" or given.startswith("@") or _is_cron(given.split(" ")):
        return make_cron(given.removeprefix("cron "), zone)
    if looks_like_a_moment(moment := given.removeprefix("at ")):
        return Once(at=check_moment(moment, "schedule"))
    if _is_interval(interval := given.removeprefix("every ")):
        return make_every(interval, zone)
    if (chain := parse_after(given)) is not None:
        return chain
    if kind == "in" and _DURATION.fullmatch(rest):
        return delayed(rest, zone, check_moment(now, "now"))
    told = parse_words(given, zone=zone, now=check_moment(now, "now"))
    return told if isinstance(told, Once) else msgspec.structs.replace(told, said=given.lower())


def _is_cron(parts: list[str]) -> bool:
    """Words never start with three fields of a cron line, nor do they hold a star."""
    if any("*" in part for part in parts):
        return True
    return len(parts) in (5, 6) and all(_CRON_FIELD.fullmatch(part) for part in parts[:3])


def _is_interval(text: str) -> bool:
    return bool(re.match(r"R[0-9]*/", text) or _DURATION.fullmatch(text))
