"""Reads the jobs of an APScheduler 3 scheduler or job store. It only reads: nothing is started, and nothing is run."""

import inspect
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from duetime.cli.imports import Found, Skipped
from duetime.clock import SystemClock
from duetime.errors import InvalidInput

_DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_MOST = 1_000
"""How many missed runs duetime makes up for at most."""
_EVER = 36_525 * 86_400.0
_NTH = {"1st": "1", "2nd": "2", "3rd": "3", "4th": "4", "5th": "5"}


class _Unreadable(Exception):
    pass


def jobs_of(source: Any) -> list[Any]:
    """Those of a scheduler (of all its stores, also before it has started), of a job store, or of a list."""
    if hasattr(source, "get_all_jobs"):
        return list(source.get_all_jobs())
    if hasattr(source, "get_jobs"):
        found = {job.id: job for job in source.get_jobs()}
        if not source.running:
            # A scheduler that has not started lists only what waits to be added.
            stores = getattr(source, "_jobstores", {})
            found |= {job.id: job for store in stores.values() for job in store.get_all_jobs()}
        return list(found.values())
    if isinstance(source, list | tuple):
        return list(source)
    raise InvalidInput(
        f"{type(source).__name__} is no scheduler", field="source", remedy="name a scheduler or a job store"
    )


def read_jobs(jobs: Iterable[Any], queue: str | None) -> tuple[list[Found], list[Skipped]]:
    found, skipped = [], []
    for job in jobs:
        try:
            found.append(_read(job, queue))
        except _Unreadable as reason:
            skipped.append(Skipped(str(job.id), str(reason)))
    return found, skipped


def _read(job: Any, queue: str | None) -> Found:
    if not job.func_ref:
        raise _Unreadable("its function has no name to import it by")
    if getattr(job, "next_run_time", job) is None:
        raise _Unreadable("it is paused")
    notes: list[str] = []
    body = {
        "task": job.func_ref.replace(":", "."),
        "args": _arguments(job),
        "key": f"apscheduler:{job.id}",
        "name": str(job.name)[:80],
        **_when(job.trigger, notes),
    }
    if queue is not None:
        body["queue"] = queue
    if "run_at" not in body:
        most = getattr(job, "max_instances", 1)
        body["overlap"] = "skip" if most == 1 else "allow"
        if most != 1:
            notes.append(f"runs may overlap without the limit of {most}")
        body["misfire"] = _misfire(job, notes)
    return Found(str(job.id), body, tuple(notes))


def _arguments(job: Any) -> dict[str, Any]:
    """By name, as duetime stores them."""
    positional, named = list(job.args or ()), dict(job.kwargs)
    if not positional:
        return named
    function = getattr(job, "func", None)
    # The function may be a task of duetime's by now.
    signature = getattr(getattr(function, "definition", None), "signature", None)
    try:
        parameters = (signature or inspect.signature(function)).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise _Unreadable(
            "its arguments have no names, and its function is unknown here: pass them as kwargs"
        ) from None
    names = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if len(positional) > len(names):
        raise _Unreadable(f"it has {len(positional)} arguments, and its function has names for {len(names)}")
    return {**dict(zip(names, positional, strict=False)), **named}


def _misfire(job: Any, notes: list[str]) -> dict[str, Any]:
    grace = getattr(job, "misfire_grace_time", 1)
    if getattr(job, "coalesce", True):
        return {"mode": "latest"} if grace is None else {"mode": "skip", "after": float(grace)}
    if grace is None:
        notes.append(f"of missed runs the newest {_MOST:,} are made up")
    return {"mode": "all", "most": _MOST, "age": _EVER if grace is None else float(grace)}


def _when(trigger: Any, notes: list[str]) -> dict[str, Any]:
    kind = type(trigger).__name__
    if kind == "DateTrigger":
        if trigger.run_date < SystemClock().now():
            raise _Unreadable("its time has passed")
        return {"run_at": trigger.run_date}
    if kind not in ("CronTrigger", "IntervalTrigger"):
        raise _Unreadable(f"{kind} is no cron, interval or date trigger")
    when = _cron(trigger) if kind == "CronTrigger" else {"every": trigger.interval.total_seconds()}
    bounds: dict[str, datetime | None] = {"start_at": trigger.start_date, "end_at": trigger.end_date}
    when |= {name: value for name, value in bounds.items() if value is not None}
    if trigger.jitter:
        when["jitter"] = float(trigger.jitter)
        notes.append("jitter only delays")
    return when


def _cron(trigger: Any) -> dict[str, Any]:
    fields = {field.name: str(field) for field in trigger.fields}
    if fields["week"] != "*":
        raise _Unreadable("duetime's cron has no week of the year")
    days, weekdays = _days(fields["day"], fields["day_of_week"])
    line = [fields["second"], fields["minute"], fields["hour"], days, fields["month"], weekdays]
    if fields["year"] != "*":
        line.append(fields["year"])
    elif line[0] == "0":
        del line[0]
    when = {"cron": " ".join(line), "tz": str(trigger.timezone)}
    # In APScheduler a day always has to match both fields.
    return when if days.startswith("*") or weekdays.startswith("*") else {**when, "day_match": "both"}


def _days(days: str, weekdays: str) -> tuple[str, str]:
    """`last` and `2nd mon` are days of the month there; here the second is a day of the week. Monday is 0 there."""
    days = days.replace("last", "L") if days == "last" else days
    position, _, day = days.partition(" ")
    if day:
        if "," in days or weekdays != "*":
            raise _Unreadable(f"duetime's cron cannot combine {days!r} with other days")
        name = day.strip().upper()
        return "*", f"{name}L" if position == "last" else f"{name}#{_NTH[position]}"
    if weekdays == "*":
        return days, "*"
    return days, ",".join(_DAYS[number] for part in weekdays.split(",") for number in _weekdays(part.strip()))


def _weekdays(part: str) -> range:
    span, _, step = part.partition("/")
    first, _, last = ("0-6" if span == "*" else span).partition("-")
    low = _weekday(first)
    high = _weekday(last) if last else 6 if step else low
    return range(low, high + 1, int(step or 1))


def _weekday(text: str) -> int:
    return int(text) if text.isdigit() else _DAYS.index(text.upper())
