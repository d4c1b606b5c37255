"""The product agrees with brute force, around the clock changes of every zone that had any from 2000 to 2040."""

from datetime import datetime, timedelta
from random import Random

import pytest

from duetime.model.schedule import Cron, make_cron
from tests.oracle.cases import SEED, Case, draw_line, draw_start, pick_changes
from tests.oracle.clocks import all_zones, changes
from tests.oracle.contract import Stretch, after, until
from tests.support.depth import tries

CASES = tries(600, 20_000)
CHUNKS = 16
CHANGES_PER_ZONE = tries(1, 6)
LINES_PER_CHANGE = tries(2, 12)
LINES_WITH_SECONDS = tries(1, 2)
MOST_FIRES = 50
"""How many fires in a row are compared."""


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_fires_of_cron_lines(chunk: int) -> None:
    checked = sum(_check_zone(zone) for zone in all_zones()[chunk::CHUNKS] if changes(zone))
    assert checked > CASES / CHUNKS


def _check_zone(zone: str) -> int:
    random = Random(f"{SEED} {zone}")
    checked = 0
    for change in pick_changes(zone, CHANGES_PER_ZONE, random):
        days = Stretch(zone, change - timedelta(hours=40), change + timedelta(hours=40), unit=60)
        hours = Stretch(zone, change - timedelta(hours=4), change + timedelta(hours=4), unit=1)
        for number in range(LINES_PER_CHANGE + LINES_WITH_SECONDS):
            seconds = number >= LINES_PER_CHANGE
            line = draw_line(random, change, zone, seconds=seconds, several=True)
            check(
                Case(line, zone, draw_start(random, change, 3 if seconds else 30)), hours if seconds else days, random
            )
            checked += 1
    return checked


def check(case: Case, stretch: Stretch, random: Random) -> None:
    cron = make_cron(case.line, case.zone)
    fires = stretch.fires_of(case.line)
    following = after(fires, case.start)
    moment = case.start
    for expected in following[:MOST_FIRES]:
        found = cron.next_after(moment)
        assert found == expected, f"after {moment}: {found}, not {expected}; {case.command}"
        moment = expected
    if len(following) <= MOST_FIRES:
        found = cron.next_after(moment)
        assert found is None or found >= stretch.end, f"after {moment}: {found} is too many; {case.command}"
    for _ in range(4):
        _check_around(cron, case, fires, draw_start(random, case.start, 1), stretch)


def _check_around(cron: Cron, case: Case, fires: list[datetime], moment: datetime, stretch: Stretch) -> None:
    """Before and after any moment, asked in no order: what is remembered from the last answer must not show."""
    if not stretch.begin <= moment < stretch.end:
        return
    found, expected = cron.latest_until(moment), until(fires, moment)
    if expected is None:
        assert found is None or found < stretch.begin, f"until {moment}: {found} is too many; {case.command}"
    else:
        assert found == expected, f"until {moment}: {found}, not {expected}; {case.command}"
    if following := after(fires, moment):
        found = cron.next_after(moment)
        assert found == following[0], f"after {moment}: {found}, not {following[0]}; {case.command}"
