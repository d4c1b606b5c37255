"""Beat schedules: entries become recurring jobs of duetime.

The same reader serves `Celery.schedule_beat` and the command `import-beat`; it accepts the schedules of this module and
those of Celery. The differences that it cannot translate are either notes (a person should know) or reasons to leave an
entry out.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, timedelta
from typing import Any

import msgspec

from duetime.celery.options import call_options
from duetime.errors import DuetimeError

_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
Parameters = Callable[[str], list[str] | None]
"""The names of a task's parameters, in order; None if the task is unknown."""


class crontab:
    """A schedule by the clock: `crontab(minute=0, hour=9, day_of_week="mon-fri")`."""

    def __init__(
        self,
        minute: str | int | Iterable[int] = "*",
        hour: str | int | Iterable[int] = "*",
        day_of_week: str | int | Iterable[int] = "*",
        day_of_month: str | int | Iterable[int] = "*",
        month_of_year: str | int | Iterable[int] = "*",
    ) -> None:
        # Under the names that Celery keeps them, so that one reader serves both.
        self._orig_minute = minute
        self._orig_hour = hour
        self._orig_day_of_week = day_of_week
        self._orig_day_of_month = day_of_month
        self._orig_month_of_year = month_of_year


class schedule:
    """An interval: `schedule(timedelta(minutes=5))`, or a number of seconds."""

    def __init__(self, run_every: float | timedelta, relative: bool = False) -> None:
        self.run_every = run_every if isinstance(run_every, timedelta) else timedelta(seconds=run_every)
        self.relative = relative


class Entry(msgspec.Struct, frozen=True):
    """An entry as the job that it becomes."""

    name: str
    task: str
    args: dict[str, Any]
    options: dict[str, Any]
    """For `App.schedule`."""
    notes: tuple[str, ...] = ()


class LeftOut(msgspec.Struct, frozen=True):
    name: str
    reason: str


class _Unreadable(Exception):
    pass


def read_beat(
    entries: Mapping[str, Mapping[str, Any]], tz: str, parameters: Parameters = lambda _: None
) -> tuple[list[Entry], list[LeftOut]]:
    """The entries of a `beat_schedule`. `tz` is the zone of its clock."""
    found: list[Entry] = []
    left_out: list[LeftOut] = []
    for name, entry in entries.items():
        try:
            found.append(_read(str(name), entry, tz, parameters))
        except _Unreadable as reason:
            left_out.append(LeftOut(str(name), str(reason)))
        except DuetimeError as error:
            left_out.append(LeftOut(str(name), str(error)))
    return found, left_out


def _read(name: str, entry: Mapping[str, Any], tz: str, parameters: Parameters) -> Entry:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("task"), str) or "schedule" not in entry:
        raise _Unreadable("an entry is a dict with `task` and `schedule`")
    unknown = entry.keys() - {"task", "schedule", "args", "kwargs", "options", "relative"}
    if unknown:
        raise _Unreadable(f"{sorted(unknown)[0]!r} is not a field of an entry")
    notes: list[str] = []
    when = _schedule(entry["schedule"], tz, notes)
    if entry.get("relative") and "every" in when:
        notes.append("counted from now, not from the full hour or day (relative=True)")
    options = call_options(entry.get("options") or {}, UTC)
    for field in ("run_in", "run_at"):
        if field in options:
            raise _Unreadable("a recurring job has no countdown or eta")
    args = _arguments(entry, parameters)
    return Entry(name, entry["task"], args, {**options, **when, "key": f"beat:{name}", "name": name}, tuple(notes))


def _schedule(given: Any, tz: str, notes: list[str]) -> dict[str, Any]:
    if all(hasattr(given, f"_orig_{field}") for field in _FIELDS):
        fields = {field: _field(getattr(given, f"_orig_{field}")) for field in _FIELDS}
        both = not any(fields[day].startswith("*") for day in ("day_of_month", "day_of_week"))
        # In Celery a day always has to match both fields.
        return {"cron": " ".join(fields.values()), "tz": tz} | ({"day_match": "both"} if both else {})
    if type(given).__name__ == "solar":
        raise _Unreadable("it follows the sun: compute the time in a daily task, and submit with run_at")
    if getattr(given, "relative", False):
        notes.append("counted from now, not from the full hour or day (relative=True)")
    every = getattr(given, "run_every", given)
    seconds = every.total_seconds() if isinstance(every, timedelta) else every
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        raise _Unreadable(f"{given!r} is not a crontab, a timedelta or a number of seconds")
    return {"every": float(seconds)}


def _field(value: Any) -> str:
    text = value if isinstance(value, str) else str(value) if isinstance(value, int) else ",".join(map(str, value))
    return "".join(text.split())


def _arguments(entry: Mapping[str, Any], parameters: Parameters) -> dict[str, Any]:
    """By name, as duetime stores them."""
    positional, named = list(entry.get("args") or ()), dict(entry.get("kwargs") or {})
    if not positional:
        return named
    names = parameters(entry["task"])
    if names is None:
        raise _Unreadable("its arguments have no names, and its task is unknown here: write them as kwargs")
    if len(positional) > len(names):
        raise _Unreadable(f"it has {len(positional)} arguments, and {entry['task']} takes {len(names)}")
    return {**dict(zip(names, positional, strict=False)), **named}
