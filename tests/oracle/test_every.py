"""Intervals in calendar units agree with brute force around the clock changes of every zone."""

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest

from duetime.model.schedule import Every
from tests.oracle.cases import SEED, draw_start, pick_changes
from tests.oracle.clocks import all_zones, changes
from tests.oracle.contract import Stretch, after, step_through_calendar, until
from tests.support.depth import tries

CHUNKS = 8
CHANGES_PER_ZONE = tries(1, 5)
INTERVALS_PER_CHANGE = tries(1, 2)
PERIODS = [(0, 1), (0, 1), (0, 2), (0, 7), (0, 14), (1, 0), (1, 0), (2, 0), (3, 0), (12, 0), (1, 15), (12, 1)]
"""Months and days."""


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_fires_of_intervals(chunk: int) -> None:
    for zone in all_zones()[chunk::CHUNKS]:
        if changes(zone):
            _check_zone(zone)


def _check_zone(zone: str) -> None:
    random = Random(f"{SEED} every {zone}")
    for change in pick_changes(zone, CHANGES_PER_ZONE, random):
        stretch = Stretch(zone, change - timedelta(hours=60), change + timedelta(hours=60), unit=60)
        for _ in range(INTERVALS_PER_CHANGE):
            _check(random, change, zone, stretch)


def _check(random: Random, change: datetime, zone: str, stretch: Stretch) -> None:
    place = ZoneInfo(zone)
    months, days = random.choice(PERIODS)
    # An anchor so far back that one of the first fires falls near the change, inside it if it is a gap.
    target = (change + timedelta(minutes=random.randint(-90, 90))).astimezone(place).replace(tzinfo=None, fold=0)
    target += timedelta(hours=random.choice([0, 0, -1, 1]))
    back = random.randint(1, 30)
    anchor_wall = _months_back(target, months * back) - timedelta(days=days * back)
    anchor = anchor_wall.replace(tzinfo=place).astimezone(UTC)
    every = Every(timedelta(0), anchor, months, days, zone)
    repeat = f"{every!r}; seed {SEED}"
    fires = _fires(anchor, months, days, place, stretch)
    start = draw_start(random, change, 48)
    moment = start
    for expected in after(fires, start):
        found = every.next_after(moment)
        assert found == expected, f"after {moment}: {found}, not {expected}; {repeat}"
        moment = expected
    found = every.next_after(moment)
    assert found is not None and found >= stretch.end - timedelta(hours=30), f"after {moment}: {found}; {repeat}"
    for moment in (draw_start(random, change, 24), change, change + timedelta(hours=1)):
        if (latest := until(fires, moment)) is not None:
            found = every.latest_until(moment)
            assert found == latest, f"until {moment}: {found}, not {latest}; {repeat}"


def _fires(anchor: datetime, months: int, days: int, place: ZoneInfo, stretch: Stretch) -> list[datetime]:
    """The fires whose wall times lie well inside the stretch, one number after the other."""
    begin, end = stretch.walls()
    wall = anchor.astimezone(place).replace(tzinfo=None, fold=0)
    found: list[datetime] = []
    number = 0
    while True:
        shown = step_through_calendar(wall, months * number, days * number)
        units = shown.toordinal() * 1440 + shown.hour * 60 + shown.minute
        if units >= end - 60:
            return sorted(set(found))
        if units > begin:
            fire = anchor if number == 0 else stretch.reach(units)
            if fire is not None:
                found.append(fire)
        number += 1


def _months_back(wall: datetime, months: int) -> datetime:
    year, month = divmod(wall.year * 12 + wall.month - 1 - months, 12)
    return wall.replace(year=year, month=month + 1, day=min(wall.day, 28) if months else wall.day)
