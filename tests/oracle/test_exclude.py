"""Days left out: the product agrees with brute force, in weeks with and without a clock change."""

from datetime import date, timedelta
from random import Random

import pytest

from duetime.model.schedule import Cron, make_cron, make_exclusion
from duetime.model.schedule.parts import bounded
from tests.oracle.cases import SEED, draw_line
from tests.oracle.clocks import changes
from tests.oracle.contract import Stretch, WithoutDays, after, until

NAMES = ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]
ZONES = ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Cairo", "America/Nuuk"]
CHANGES_PER_ZONE = 4
LINES_PER_CHANGE = 30
MOST_FIRES = 60


@pytest.mark.parametrize("zone", ZONES)
def test_the_fires_of_cron_lines_with_a_calendar(zone: str) -> None:
    random = Random(f"{SEED} exclude {zone}")
    # Of Samoa's changes, those around its missing day.
    known = [at for at in changes(zone) if zone != "Pacific/Apia" or at.year in (2011, 2012)]
    for change in random.sample(known, min(len(known), CHANGES_PER_ZONE)):
        stretch = Stretch(zone, change - timedelta(days=20), change + timedelta(days=20), unit=60)
        nearby = [change.date() + timedelta(days=days) for days in range(-10, 10)]
        for _ in range(LINES_PER_CHANGE):
            line = draw_line(random, change, zone, seconds=False)
            weekdays = random.sample(NAMES, random.randint(0, 3))
            dates = random.sample(nearby, random.randint(0 if weekdays else 1, 6))
            _check(line, zone, weekdays, dates, stretch, random, moves=random.random() < 0.6)


def _check(
    line: str, zone: str, weekdays: list[str], dates: list[date], stretch: Stretch, random: Random, *, moves: bool
) -> None:
    left_out = {NAMES.index(name) for name in weekdays}
    existing = {date.fromordinal(day) for day in stretch.days}

    def allowed(day: date) -> bool:
        beyond = day > max(existing)
        return day.weekday() not in left_out and day not in dates and (day in existing or beyond)

    fires = stretch.fires(WithoutDays(line, sorted(existing), allowed, moves=moves))
    calendar = make_exclusion(dates, weekdays, "next_day" if moves else "skip")
    cron = bounded(make_cron(line, zone), exclude=calendar)
    assert isinstance(cron, Cron)
    # What the days before the stretch owe to its first days is not known here.
    start = stretch.begin + timedelta(days=8, minutes=random.randint(0, 20 * 1440))
    moment = start
    for expected in after(fires, start)[:MOST_FIRES]:
        found = cron.next_after(moment)
        assert found == expected, f"after {moment}: {found}, not {expected}; {cron}, {calendar}"
        moment = expected
    latest = until(fires, start)
    if latest is not None and latest > stretch.begin + timedelta(days=8):
        assert cron.latest_until(start) == latest, f"until {start}: not {latest}; {cron}, {calendar}"
