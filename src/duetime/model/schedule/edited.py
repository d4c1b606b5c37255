"""A schedule after an edit: what the edit does not name stays.

An edit names a new time (`cron`, `every`, `when`, …), or only what accompanies it. The zone, the bounds and the
excluded days stay with a new time, and so does `day_match` with a new cron line. A run that happens once has none of
them.
"""

from collections.abc import Mapping, Set
from datetime import datetime
from typing import Any

import msgspec

from duetime.errors import InvalidInput
from duetime.model.schedule.after import After
from duetime.model.schedule.cron import Cron
from duetime.model.schedule.every import Every
from duetime.model.schedule.from_options import KINDS, make_schedule
from duetime.model.schedule.once import Once
from duetime.model.schedule.parts import bounded
from duetime.model.schedule.rrule import RRule
from duetime.model.schedule.stored import Recurring, Schedule
from duetime.model.schedule.zone import check_zone

_BY_ITSELF = frozenset({"tz", "start_at", "end_at", "exclude"})
"""What can change while the time stays."""
_WITH_TIME = "also set cron, rrule, every, run_at or when"


def edited(
    old: Schedule, given: Mapping[str, Any], removed: Set[str], *, now: datetime | None, usual_zone: str
) -> Schedule:
    """The schedule with these options, and without those that are removed. `usual_zone` is that of a job that had no
    zone."""
    if given.keys().isdisjoint(KINDS):
        return _otherwise_bounded(old, given, removed)
    if isinstance(old, Once | After):
        return make_schedule(**given, now=now, usual_zone=usual_zone)
    if not given.keys().isdisjoint({"run_at", "run_in", "when"}):
        made = make_schedule(**given, now=now, usual_zone=old.zone)
        if isinstance(made, Once):
            return made
    stays = {name: each for name, each in _bounds(old).items() if name not in given and name not in removed}
    if "cron" in given and isinstance(old, Cron) and "+" in old.line:
        stays["day_match"] = "both"
    return make_schedule(**{**stays, **given}, now=now, usual_zone=old.zone)


def _bounds(old: Recurring) -> dict[str, Any]:
    found = {"start_at": _start_of(old), "end_at": old.end_at, "exclude": old.holding(()).exclude}
    return {name: each for name, each in found.items() if each is not None}


def _start_of(old: Recurring) -> datetime | None:
    return old.anchor if isinstance(old, Every) and _is_anchored_at_start(old) else old.start_at


def _is_anchored_at_start(old: Every) -> bool:
    """Whether the moment that it is counted from was its `start_at`."""
    return old.start_at is None and old.said is None and old.count is None and not old.first


def _otherwise_bounded(old: Schedule, given: Mapping[str, Any], removed: Set[str]) -> Schedule:
    named = {*given, *removed}
    if isinstance(old, Once | After):
        raise InvalidInput("requires a recurring schedule", field=min(named), remedy=_WITH_TIME)
    if beside := sorted(named - _BY_ITSELF):
        raise InvalidInput("cannot change without the time", field=beside[0], remedy=_WITH_TIME)
    if "start_at" in named and (isinstance(old, RRule) or (isinstance(old, Every) and old.said is not None)):
        raise InvalidInput(
            "cannot change alone: this schedule is counted from it", field="start_at", remedy="also set rrule or when"
        )
    changes: dict[str, Any] = {"end_at": None, "exclude": None}
    bounds = {**_bounds(old), **given}
    zone = bounds.pop("tz", None)
    if zone is not None:
        if isinstance(old, Every) and old.said is not None:
            raise InvalidInput("cannot change alone for an interval in words", field="tz", remedy="also set when")
        changes["zone"] = check_zone(zone)
    if "start_at" not in named:
        kept = msgspec.structs.replace(old, **changes)
        bounds.pop("start_at", None)
        made = bounded(kept, **{name: each for name, each in bounds.items() if name not in removed})
        _check_order(made)
        return made
    changes["start_at"] = None
    if isinstance(old, Every) and old.start_at is None and old.said is None and old.count is None:
        changes |= {"anchor": None, "first": 0}
    made = msgspec.structs.replace(old, **changes)
    return bounded(made, **{name: each for name, each in bounds.items() if name not in removed})


def _check_order(made: Recurring) -> None:
    start = _start_of(made)
    if start is not None and made.end_at is not None and made.end_at < start:
        raise InvalidInput("is before start_at", field="end_at")
