"""Recurrence rules agree with dateutil walking from DTSTART, and with brute force around clock changes."""

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr

from duetime.errors import InvalidInput
from duetime.model.schedule.rrule import RRule, make_rrule
from tests.oracle.cases import SEED, draw_start, pick_changes
from tests.oracle.clocks import all_zones, changes
from tests.oracle.contract import Expression, Stretch, after, until
from tests.support.depth import tries

CHUNKS = 8
CHANGES_PER_ZONE = 2
RULES_PER_CHANGE = tries(1, 5)
_YEAR_1 = datetime(1, 1, 1)  # noqa: DTZ001 - a wall time


class NaiveRule(Expression):
    """The wall times of a rule as dateutil finds them, one after the other from DTSTART."""

    def __init__(self, text: str, last: datetime) -> None:
        self.unit = 60
        self.has_rhythm = any(f"FREQ={name}" in text for name in ("HOURLY", "MINUTELY", "SECONDLY"))
        self._walls = sorted(_walls(text, last))

    def between(self, begin: int, end: int) -> list[int]:
        return self._walls[bisect_left(self._walls, begin) : bisect_left(self._walls, end)]


def _walls(text: str, last: datetime) -> set[int]:
    found = set()
    for wall in rrulestr(text.replace(" ", "\n")):
        if wall > last:
            break
        found.add(int((wall - _YEAR_1).total_seconds() + 86_400) // 60)
    return found


def draw_rule(random: Random, near: datetime) -> str:
    """A rule whose times and days are near this wall time more often than not."""
    frequency = random.choice(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "DAILY", "HOURLY", "MINUTELY"])
    back = {"HOURLY": 20, "MINUTELY": 6}.get(frequency, 900)
    begin = (near - timedelta(days=random.randint(1, back))).replace(second=0)
    interval = random.choice([1, 1, 1, 2, 3, 5, 7, 90 if frequency == "MINUTELY" else 2])
    parts = [f"FREQ={frequency}", f"INTERVAL={interval}"]
    day = near.strftime("%a").upper()[:2]
    if frequency in ("MONTHLY", "YEARLY") and random.random() < 0.7:
        number = (near.day - 1) // 7 + 1
        parts.append(
            random.choice([f"BYDAY={number}{day}", f"BYDAY={day}", "BYDAY=-1SU,-1SA", f"BYDAY={day},SU,MO;BYSETPOS=-1"])
        )
        if frequency == "YEARLY" or random.random() < 0.3:
            parts.append(f"BYMONTH={near.month},{near.month % 12 + 1}")
    elif frequency == "MONTHLY":
        parts.append(random.choice([f"BYMONTHDAY={near.day}", "BYMONTHDAY=-1", "BYMONTHDAY=1,15,31"]))
    elif frequency in ("WEEKLY", "DAILY", "HOURLY", "MINUTELY") and random.random() < 0.5:
        parts.append(f"BYDAY={day},{random.choice(['MO', 'SU', 'SA,SU,MO'])}")
        parts += ["WKST=SU"] if frequency == "WEEKLY" and random.random() < 0.3 else []
    if frequency not in ("HOURLY", "MINUTELY") and "BYSETPOS" not in ";".join(parts) and random.random() < 0.5:
        parts.append(random.choice([f"BYHOUR={near.hour};BYMINUTE=0,30", "BYHOUR=0,1,2,3;BYMINUTE=15"]))
    elif frequency == "HOURLY" and interval in (1, 2, 3):
        parts.append(random.choice(["BYMINUTE=0,30", f"BYMINUTE={begin.minute}", "BYMINUTE=15"]))
    if random.random() < 0.2:
        parts.append(f"COUNT={random.randint(1, 400)}")
    return f"DTSTART:{begin:%Y%m%dT%H%M%S} RRULE:{';'.join(parts)}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_fires_of_rules_around_clock_changes(chunk: int) -> None:
    checked = 0
    for zone in all_zones()[chunk::CHUNKS]:
        random = Random(f"{SEED} rrule {zone}")
        for change in pick_changes(zone, CHANGES_PER_ZONE, random) if changes(zone) else ():
            stretch = Stretch(zone, change - timedelta(hours=40), change + timedelta(hours=40), unit=60)
            for _ in range(RULES_PER_CHANGE):
                near = (change + timedelta(minutes=random.randint(-90, 90))).astimezone(ZoneInfo(zone))
                checked += _check(random, draw_rule(random, near.replace(tzinfo=None, fold=0)), zone, change, stretch)
    assert checked > tries(50, 250)


def _check(random: Random, text: str, zone: str, change: datetime, stretch: Stretch) -> bool:
    try:
        rule = make_rrule(text, zone)
    except InvalidInput as error:
        reasons = ("COUNT cannot be combined", "never fires", "more than a century")
        assert any(reason in error.message for reason in reasons), text
        return False
    last = stretch.end.astimezone(ZoneInfo(zone)).replace(tzinfo=None) + timedelta(days=1)
    fires = stretch.fires(NaiveRule(text, last))
    for _ in range(3):
        start = draw_start(random, change, 20)
        if not stretch.begin <= start < stretch.end:
            continue
        _compare(rule, fires, start, stretch)
    return True


def _compare(rule: RRule, fires: list[datetime], start: datetime, stretch: Stretch) -> None:
    moment = start
    for expected in after(fires, start)[:20]:
        found = rule.next_after(moment)
        assert found == expected, f"{rule} after {moment}: {found}, not {expected}"
        moment = expected
    if len(after(fires, start)) < 20:
        found = rule.next_after(moment)
        assert found is None or found >= stretch.end, f"{rule} after {moment}: {found} is too many"
    found, expected_last = rule.latest_until(start), until(fires, start)
    if expected_last is None:
        assert found is None or found < stretch.begin, f"{rule} until {start}: {found} is too many"
    else:
        assert found == expected_last, f"{rule} until {start}: {found}, not {expected_last}"


RULES = [
    "FREQ=DAILY;INTERVAL=10",
    "FREQ=DAILY;BYMONTH=1,3",
    "FREQ=DAILY;INTERVAL=3;BYDAY=MO,TU;BYMONTHDAY=1,2,3,4,5,6,7",
    "FREQ=WEEKLY",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=MO",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU",
    "FREQ=WEEKLY;BYDAY=MO,TU,WE;BYSETPOS=-1,1",
    "FREQ=WEEKLY;INTERVAL=3;BYMONTH=12,1;BYDAY=MO,SU;WKST=WE",
    "FREQ=MONTHLY",
    "FREQ=MONTHLY;BYDAY=1FR",
    "FREQ=MONTHLY;INTERVAL=2;BYDAY=1SU,-1SU",
    "FREQ=MONTHLY;BYDAY=-2MO",
    "FREQ=MONTHLY;BYMONTHDAY=-3",
    "FREQ=MONTHLY;INTERVAL=18;BYMONTHDAY=10,11,12,13,14,15",
    "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13",
    "FREQ=MONTHLY;BYDAY=TU,WE,TH;BYSETPOS=3",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2",
    "FREQ=MONTHLY;BYMONTHDAY=31;BYMONTH=1,2,3,4",
    "FREQ=YEARLY",
    "FREQ=YEARLY;BYMONTH=6,7",
    "FREQ=YEARLY;INTERVAL=2;BYMONTH=1,2,3",
    "FREQ=YEARLY;INTERVAL=3;BYYEARDAY=1,100,200,-1",
    "FREQ=YEARLY;BYDAY=20MO",
    "FREQ=YEARLY;BYDAY=-1SU,53MO",
    "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO",
    "FREQ=YEARLY;BYWEEKNO=1,52,53,-1;BYDAY=SU,MO,TH",
    "FREQ=YEARLY;BYWEEKNO=1,53;BYDAY=SA,FR;WKST=SU",
    "FREQ=YEARLY;BYMONTH=3;BYDAY=TH",
    "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
]
"""Those of RFC 5545, and some of its darker corners."""


@cache
def walked(rule: str, begin: datetime) -> list[datetime]:
    return list(rrulestr(f"DTSTART:{begin:%Y%m%dT%H%M%S}\nRRULE:{rule};UNTIL=20991231T235959"))


@pytest.mark.parametrize("rule", RULES)
def test_any_day_of_a_century_is_found_without_walking_there(rule: str) -> None:
    random = Random(rule)
    # On a Monday, the first day of the longest weeks: dateutil cuts the set of a week that DTSTART falls into.
    begin = datetime(1997, 9, 1, 9) if "BYSETPOS" in rule and "WEEKLY" in rule else datetime(1997, 9, 2, 9)  # noqa: DTZ001
    made = make_rrule(f"DTSTART:{begin:%Y%m%dT%H%M%S} RRULE:{rule}")
    expected = [wall.replace(tzinfo=UTC) for wall in walked(rule, begin)]
    assert expected
    for _ in range(60):
        moment = datetime(1997, 1, 1, tzinfo=UTC) + timedelta(minutes=random.randrange(100 * 366 * 1440))
        following = after(expected, moment)
        assert not following or made.next_after(moment) == following[0], moment
        if moment < expected[-1]:
            assert made.latest_until(moment) == until(expected, moment), moment


@pytest.mark.parametrize("rule", RULES)
def test_a_count_ends_where_walking_ends(rule: str) -> None:
    times = "" if "BYSETPOS" in rule else ";BYHOUR=9,17"
    for count in (1, 7, 24):
        made = make_rrule(f"DTSTART:19970901T090000 RRULE:{rule}{times};COUNT={count}")
        last = list(rrulestr(made.rule.replace(" ", "\n")))[-1].replace(tzinfo=UTC)
        assert made.latest_until(last + timedelta(days=1)) == last
        assert made.next_after(last) is None
        assert made.next_after(last - timedelta(seconds=1)) == last
