"""Laws that every recurring schedule keeps, at any moment, in any zone."""

from datetime import UTC, date, datetime, timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from duetime.errors import InvalidInput
from duetime.model.schedule import (
    Cron,
    Every,
    Exclusion,
    Once,
    Recurring,
    RRule,
    decode_schedule,
    encode_schedule,
    make_exclusion,
    make_rrule,
    parse_schedule,
)
from duetime.model.schedule.allowed import AllowedDays
from duetime.model.schedule.describe import exact_form, explain
from duetime.model.schedule.zone import zone_named
from tests.oracle.clocks import changes
from tests.support.depth import tries

FROM, TO = datetime(1985, 1, 1), datetime(2045, 1, 1)  # noqa: DTZ001
MICROSECOND, DAY = timedelta(microseconds=1), timedelta(days=1)
CENTURY = timedelta(days=36_500)
"""How long is looked for a fire: what comes later is nothing."""

zones = st.sampled_from(
    [
        *("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/St_Johns", "Antarctica/Troll"),
        *("Africa/Casablanca", "Pacific/Apia", "Pacific/Kwajalein", "Asia/Beirut", "America/Sao_Paulo", "Africa/Cairo"),
        *("America/Nuuk", "Asia/Gaza", "Africa/Monrovia", "Asia/Tehran"),
    ]
)
moments = st.datetimes(FROM, TO, timezones=st.just(UTC))
fields = st.tuples(
    st.sampled_from(["*", "0", "30", "*/15", "*/7", "0,45", "5-10", "59"]),
    st.sampled_from(["*", "*/2", "0", "1", "2", "1-3", "*/5", "23", "0,12", "22-2"]),
    st.sampled_from(["*", "*", "*", "1,15", "L", "*/2", "31", "LW", "15W", "L-2", "28-3"]),
    st.sampled_from(["*", "*", "*", "3", "OCT-DEC"]),
    st.sampled_from(["*", "*", "*", "SUN", "MON-FRI", "SUNL", "SUN#2", "+FRI", "SATURDAY-MONDAY", "?"]),
)
lines = st.builds(
    lambda second, rest: " ".join([second, *rest] if second else rest), st.sampled_from(["", "", "*/20", "30"]), fields
)
several = st.lists(lines, min_size=2, max_size=3).map("; ".join)
calendars = st.builds(
    make_exclusion,
    st.lists(st.dates(FROM.date(), TO.date()), max_size=4).map(tuple),
    st.lists(st.sampled_from(["MON", "WED", "SAT", "SUN"]), min_size=1, max_size=4).map(tuple),
    st.sampled_from(["skip", "next_day"]),
)
bounds = st.fixed_dictionaries({}, optional={"start_at": moments, "end_at": moments})
crons = st.builds(
    lambda line, zone, calendar, limits: Cron(line, zone, exclude=calendar, **limits),
    lines | several,
    zones,
    st.none() | calendars,
    bounds,
)
dense = st.builds(
    make_exclusion,
    st.lists(st.dates(date(2011, 12, 20), date(2012, 2, 1)), max_size=30).map(tuple),
    st.lists(st.sampled_from(["FRI", "SAT", "SUN"]), min_size=1, max_size=3).map(tuple),
)
rules = st.builds(
    lambda begin, frequency, ending: f"DTSTART:{begin:%Y%m%dT%H%M%S} RRULE:{frequency}{ending}",
    moments,
    st.sampled_from(
        [
            *("FREQ=YEARLY", "FREQ=YEARLY;BYDAY=1SU,-1SU", "FREQ=YEARLY;BYWEEKNO=1,53;BYDAY=MO"),
            *("FREQ=MONTHLY;BYDAY=-1SU", "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=1,31", "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=2"),
            *("FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,MO;WKST=SU", "FREQ=DAILY;INTERVAL=3", "FREQ=DAILY;BYHOUR=0,1,2,3"),
            *("FREQ=HOURLY", "FREQ=HOURLY;INTERVAL=5;BYDAY=SU,MO", "FREQ=HOURLY;INTERVAL=2;BYMINUTE=0,30"),
            *("FREQ=MINUTELY;INTERVAL=7", "FREQ=MINUTELY;INTERVAL=15;BYDAY=SU", "FREQ=SECONDLY;INTERVAL=2400"),
        ]
    ),
    st.sampled_from(["", "", "", ";UNTIL=20300101T000000Z", ";UNTIL=20300101T000000"]),
)


def make_ruled(text: str, zone: str, calendar: Exclusion | None, limits: dict[str, datetime]) -> RRule:
    try:
        rule = make_rrule(text, zone)
    except InvalidInput:
        rule = make_rrule(text.partition(";UNTIL")[0], zone)  # it has ended before it began
    if calendar is not None and not rule.can_move_days:
        calendar = make_exclusion(calendar.dates, calendar.weekdays, "skip")
    return msgspec.structs.replace(rule, exclude=calendar, **limits)


ruled = st.builds(make_ruled, rules, zones, st.none() | calendars, bounds)
skipping = calendars.map(lambda calendar: make_exclusion(calendar.dates, calendar.weekdays, "skip"))


def make_interval(
    period: tuple[int, int, timedelta], anchor: datetime, zone: str, first: int, count: int | None, calendar: Exclusion
) -> Every:
    months, days, exact = period
    if exact and calendar is not None:
        calendar = make_exclusion(calendar.dates, calendar.weekdays, "skip")
    return Every(exact, anchor, months, days, zone, first, count, exclude=calendar)


periods = st.one_of(
    st.tuples(st.just(0), st.just(0), st.timedeltas(timedelta(seconds=1), timedelta(days=40))),
    st.tuples(st.integers(0, 30), st.integers(0, 30), st.just(timedelta(0))).filter(any),
    st.tuples(st.integers(0, 3), st.integers(1, 30), st.timedeltas(timedelta(seconds=1), timedelta(days=2))),
)
intervals = st.builds(
    make_interval,
    periods,
    moments,
    zones,
    st.integers(0, 1),
    st.none() | st.integers(1, 1000),
    st.none() | calendars,
)
schedules = crons | intervals | ruled


@st.composite
def near_a_change(draw: st.DrawFn) -> tuple[Recurring, datetime]:
    """A schedule, and a moment that is near a change of its clock if it has any."""
    schedule = draw(schedules)
    known = changes(schedule.zone)
    if not known:
        return schedule, draw(moments)
    return schedule, draw(st.sampled_from(known)) + draw(st.timedeltas(timedelta(hours=-26), timedelta(hours=26)))


@settings(max_examples=tries(300, 800), deadline=None)
@given(st.tuples(schedules, moments) | near_a_change(), st.floats(0, 1))
def test_forward_and_backward_are_one(asked: tuple[Recurring, datetime], part: float) -> None:
    schedule, moment = asked
    following, latest = schedule.next_after(moment), schedule.latest_until(moment)
    if following is not None:
        assert following > moment
        assert following.tzinfo is UTC
        # Stable: every moment up to the fire gives the same answer.
        between = moment + (following - moment - MICROSECOND) * part
        assert schedule.next_after(between) == following
        assert schedule.next_after(following - MICROSECOND) == following
        assert schedule.latest_until(between) == latest
        assert schedule.latest_until(following) == following
    if latest is not None:
        assert latest <= moment
        assert schedule.latest_until(latest) == latest
        assert schedule.next_after(latest) == following
        assert schedule.next_after(latest - MICROSECOND) == latest


@settings(max_examples=tries(200, 400), deadline=None)
@given(schedules, moments, moments)
def test_later_moments_have_later_fires(schedule: Recurring, one: datetime, other: datetime) -> None:
    first, second = sorted((one, other))
    before, after = schedule.next_after(first), schedule.next_after(second)
    if after is not None:
        assert (before is not None and before <= after) or after - first > CENTURY
    earlier, later = schedule.latest_until(first), schedule.latest_until(second)
    if earlier is not None:
        assert (later is not None and earlier <= later) or second - earlier > CENTURY


@settings(max_examples=300, deadline=None)
@given(schedules, moments)
def test_bounds_hold(schedule: Recurring, moment: datetime) -> None:
    for fire in (schedule.next_after(moment), schedule.latest_until(moment)):
        if fire is not None:
            assert schedule.start_at is None or fire >= schedule.start_at
            assert schedule.end_at is None or fire <= schedule.end_at


@settings(max_examples=300, deadline=None)
@given(schedules)
def test_a_schedule_is_stored_and_told(schedule: Recurring) -> None:
    assert decode_schedule(encode_schedule(schedule)) == schedule
    assert explain(schedule).endswith(schedule.zone)
    assert exact_form(schedule).startswith(("cron ", "every ", "rrule "))


@given(dense, st.dates(date(2011, 12, 1), date(2012, 2, 20)), st.sampled_from(["UTC", "Pacific/Apia"]))
def test_blocks_of_excluded_days_are_passed_as_day_by_day(days: Exclusion, day: date, zone: str) -> None:
    """Apia has no 30 December 2011."""
    allowed = AllowedDays(days, zone_named(zone))
    first = start = day
    while first not in allowed:
        first += DAY
    while start - DAY not in allowed:
        start -= DAY
    assert (allowed.first_from(day), allowed.run_start(day)) == (first, start)


@settings(max_examples=300, deadline=None)
@given(crons | ruled)
def test_an_exact_form_reads_back(schedule: Cron | RRule) -> None:
    read = parse_schedule(exact_form(schedule), zone=schedule.zone, now=datetime(2026, 1, 1, tzinfo=UTC))
    bounds = {name: getattr(schedule, name) for name in ("start_at", "end_at", "exclude")}
    assert not isinstance(read, Once)
    assert msgspec.structs.replace(read, **bounds) == schedule
