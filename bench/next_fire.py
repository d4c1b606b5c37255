"""Next fires: what a scanner computes for 100,000 due jobs with 1,000 different cron lines; and how long nonsense may
keep anybody busy. Processor time of one process, without a database."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from time import process_time

from bench.report import Report
from bench.stores import Databases
from duetime.errors import InvalidInput
from duetime.model.schedule import Once, decode_schedule, encode_schedule, parse_schedule, preview
from tests.support.texts import cron_lines, garbage

JOBS, LINES, TEXTS = 100_000, 1_000, 10_000
ROUNDS = 3
DUE = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
TARGETS = {"one instant": 1_000.0, "as many instants": 1_000.0, "garbage p99": 10.0}


async def run(_databases: Databases) -> None:
    report = Report("next_fire", "ms", better="lower")
    bodies = [encode_schedule(line) for line in cron_lines(LINES)]
    for number in range(ROUNDS):
        dice = Random(number)
        scattered = [DUE + timedelta(seconds=dice.randrange(365 * 86_400)) for _ in range(JOBS)]
        report.add("one instant", "ours", _fires(bodies, [DUE] * JOBS))
        report.add("as many instants", "ours", _fires(bodies, scattered))
        took = _refusals(dice)
        report.add("garbage p99", "ours", took[int(0.99 * len(took))])
        report.add("garbage max", "ours", took[-1])
    report.finish(TARGETS)


def _fires(bodies: list[bytes], moments: list[datetime]) -> float:
    began = process_time()
    for number, moment in enumerate(moments):
        schedule = decode_schedule(bodies[number % LINES])
        assert not isinstance(schedule, Once)
        schedule.next_after(moment)
    return (process_time() - began) * 1000


def _refusals(dice: Random) -> list[float]:
    took = []
    for _ in range(TEXTS):
        text = garbage(dice)
        began = process_time()
        with suppress(InvalidInput):
            preview(parse_schedule(text, zone="Europe/Berlin", now=DUE), "Europe/Berlin", DUE, 3)
        took.append((process_time() - began) * 1000)
    return sorted(took)
