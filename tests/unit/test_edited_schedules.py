"""What stays of a schedule in an edit that names a part of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from duetime import InvalidInput
from duetime.model.schedule import KINDS, NOW, Cron, Every, Schedule, edited, make_exclusion, make_schedule

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
LATER, END = NOON + timedelta(days=5), NOON + timedelta(days=50)
BERLIN = "Europe/Berlin"
SUNDAYS = make_exclusion(weekdays=["SUN"])
BOUNDS: dict[str, Any] = {"tz": BERLIN, "start_at": LATER, "end_at": END, "exclude": SUNDAYS}
TIMES: list[dict[str, Any]] = [
    {"cron": "0 9 * * *"},
    {"every": "P1D"},
    {"every": "2h"},
    {"rrule": "FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0"},
    {"when": "every weekday at 9am"},
    {"when": "every 2 weeks on friday at 9"},
]


def made(**given: Any) -> Schedule:
    found = make_schedule(**given, now=NOON)
    return found if found == NOW or "run_at" in given else found.settled(NOON, "seed")  # type: ignore[union-attr]


def edit(old: Schedule, *removed: str, **given: Any) -> Schedule:
    found = edited(old, given, {*removed}, now=NOON, usual_zone="Asia/Tokyo")
    return found if "run_at" in given else found.settled(NOON, "seed")  # type: ignore[union-attr]


@pytest.mark.parametrize("old", TIMES, ids=str)
@pytest.mark.parametrize("new", TIMES, ids=str)
def test_a_new_time_keeps_what_accompanies_it(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert edit(made(**old, **BOUNDS), **new) == made(**new, **BOUNDS)
    assert edit(made(**old, **BOUNDS), "start_at", "end_at", "exclude", **new, tz="UTC") == made(**new)


@pytest.mark.parametrize("old", TIMES, ids=str)
@pytest.mark.parametrize("name", ["start_at", "end_at", "exclude", "tz"])
def test_what_accompanies_a_time_changes_alone(old: dict[str, Any], name: str) -> None:
    if name == "tz" and "2 weeks" in str(old):
        return  # it is counted from a moment of the zone
    if name == "start_at" and ("2 weeks" in str(old) or "rrule" in old):
        with pytest.raises(InvalidInput, match=r"cannot change alone: .* counted from it .also set rrule or when"):
            edit(made(**old, **BOUNDS), start_at=LATER)
        return
    others = {each: value for each, value in BOUNDS.items() if each != name}
    if "rrule" in old:  # a rule without a DTSTART of its own begins with the first start_at
        old = {"rrule": f"DTSTART:20260101T090000 RRULE:{old['rrule']}"}
    assert edit(made(**old, **others), **{name: BOUNDS[name]}) == made(**old, **others, **{name: BOUNDS[name]})
    if name != "tz":
        assert edit(made(**old, **others, **{name: BOUNDS[name]}), name) == made(**old, **others)


def test_the_rhythm_of_an_interval_stays() -> None:
    old = made(every="2h")
    assert isinstance(old, Every)
    ended = edited(old, {"end_at": END}, set(), now=LATER, usual_zone="UTC")
    assert isinstance(ended, Every) and (ended.anchor, ended.end_at) == (NOON, END)


def test_both_days_stay_with_a_new_cron_line() -> None:
    both = made(cron="0 9 13 * FRI", day_match="both")
    assert edit(both, cron="0 10 13 * FRI") == Cron("0 10 13 * +FRI")
    assert edit(both, cron="0 10 13 * FRI", day_match="either") == Cron("0 10 13 * FRI")


def test_a_job_that_ran_once_has_the_usual_zone_and_one_that_comes_to_has_no_bounds() -> None:
    assert edit(made(run_at=END), cron="0 9 * * *") == Cron("0 9 * * *", "Asia/Tokyo")
    assert edit(made(cron="0 9 * * *", **BOUNDS), run_at=END) == made(run_at=END)


@pytest.mark.parametrize(
    ("old", "given", "message"),
    [
        ({"run_at": END}, {"end_at": END}, "end_at: requires a recurring schedule .*cron"),
        ({"cron": "0 9 * * *"}, {"day_match": "both"}, "day_match: cannot change without the time"),
        ({"cron": "0 9 * * *", "start_at": END}, {"end_at": LATER}, "end_at: is before start_at"),
        ({"every": "1h", "start_at": END}, {"end_at": LATER}, "end_at: is before start_at"),
        ({"cron": "0 9 * * *", "end_at": LATER}, {"start_at": END}, "end_at: is before start_at"),
        ({"when": "every 2 weeks on friday at 9"}, {"tz": BERLIN}, "tz: cannot change alone .*also set when"),
        ({"cron": "0 9 * * *"}, {"tz": "Nowhere"}, "tz: "),
    ],
)
def test_what_is_refused(old: dict[str, Any], given: dict[str, Any], message: str) -> None:
    assert not given.keys() & {*KINDS}
    with pytest.raises(InvalidInput, match=message):
        edit(made(**old), **given)
