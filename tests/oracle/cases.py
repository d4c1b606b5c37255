"""Cron lines that have something to say about one change of the clocks, drawn with a fixed seed."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

from tests.oracle.clocks import changes, offset

SEED = 20_260_329


@dataclass(frozen=True)
class Case:
    line: str
    zone: str
    start: datetime

    @property
    def command(self) -> str:
        return f'python -m tests.oracle "{self.line}" {self.zone} {self.start.isoformat()}'


def pick_changes(zone: str, count: int, random: Random) -> list[datetime]:
    """Some changes of this zone: first those that are out of the ordinary, then any."""
    place = ZoneInfo(zone)
    found = changes(zone)

    def ordinary(at: datetime) -> bool:
        step = offset(at, place) - offset(at - timedelta(seconds=1), place)
        local = (at - timedelta(seconds=1)).astimezone(place)
        return abs(step) == timedelta(hours=1) and local.hour in (1, 2)

    odd = [at for at in found if not ordinary(at)]
    picked = random.sample(odd, min(len(odd), count // 2))
    rest = [at for at in found if at not in picked]
    return picked + random.sample(rest, min(len(rest), count - len(picked)))


def draw_line(random: Random, change: datetime, zone: str, *, seconds: bool, several: bool = False) -> str:
    """A line whose times and days are near the change more often than not."""
    place = ZoneInfo(zone)
    near = (change + timedelta(hours=random.choice([-25, -2, -1, -1, 0, 0, 0, 1, 25]))).astimezone(place)
    minute = random.choice(
        [
            "0",
            "0",
            "30",
            "15",
            "*",
            "*/15",
            "*/30",
            "*/20",
            "*/7",
            "0,20,40",
            "59",
            "10/20",
            "5-10",
            "0-59/25",
            "45,*/40",
            "50-10/5",
        ]
    )
    hour = random.choice(
        [
            *["*"] * 3,
            "*/2",
            "*/3",
            "1/2",
            "0",
            "2",
            "3",
            "0-4",
            "22-23,0-3/2",
            *[str(near.hour)] * 4,
            f"{near.hour}-23",
            "22-2",
        ]
    )
    weekday = near.strftime("%a").upper()
    number = near.isoweekday() % 7
    day_of_month = random.choice(
        [*["*"] * 6, "*/2", str(near.day), "L", "LW", "1,15,L", "25-31", f"{near.day}W", "L-1", "28-2"]
    )
    day_of_week = random.choice(
        [
            *["*"] * 6,
            *("MON-FRI", weekday, f"{number}L", f"{weekday}#{(near.day - 1) // 7 + 1}", "SUN", "7", "*/2"),
            *(weekday if "W" in day_of_month else f"+{weekday}", "SATURDAY-MONDAY", "FRI-MON", "?"),
        ]
    )
    month = random.choice([*["*"] * 5, near.strftime("%b").upper(), f"{near.month},{near.month % 12 + 1}"])
    fields = [minute, hour, day_of_month, month, day_of_week]
    if seconds:
        fields.insert(0, random.choice(["0", "30", "*/20", "*", "7,40", "50/3"]))
    if seconds and random.random() < 0.3:
        fields[-1] = weekday  # numbers are ambiguous beside a year
        fields.append(random.choice(["*", str(near.year), f"{near.year}-2100/2"]))
    line = " ".join(fields)
    if several and random.random() < 0.1:
        return f"{line}; {'30 ' if seconds else ''}15 {near.hour} * * *"
    return line


def draw_start(random: Random, change: datetime, hours: float) -> datetime:
    """A moment before or just after the change; sometimes on a whole minute, sometimes not."""
    start = change + timedelta(seconds=random.randint(int(-hours * 3600), 4 * 3600))
    return random.choice([start, start.replace(second=0), change, change - timedelta(microseconds=1)])
