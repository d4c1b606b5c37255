"""Next fires: what a scanner computes for 100,000 due jobs with 1,000 different cron lines; and the time that invalid
or extreme schedules can take. CPU time of one process, without a database.

No comparison: the limit of `fire` adds a day, and peers compute other calendars.
"""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from time import process_time

from bench.context import Bench
from bench.goals import Target
from duetime.errors import InvalidInput
from duetime.model.schedule import Once, decode_schedule, encode_schedule, parse_schedule, preview
from tests.support.texts import cron_lines, garbage

JOBS, LINES, TEXTS = 100_000, 1_000, 10_000
DUE = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
STORE = "none"
TARGETS = {
    (STORE, name): Target(most=most)
    for name, most in (("one instant", 1_000.0), ("as many instants", 1_000.0), ("garbage p99", 10.0))
}


async def run(bench: Bench) -> None:
    report = bench.report("next_fire", "ms of CPU", better="lower")
    jobs, texts = bench.knobs.scaled(JOBS), bench.knobs.scaled(TEXTS)
    bodies = [encode_schedule(line) for line in cron_lines(LINES)]
    for number in range(bench.knobs.rounds):
        dice = Random(number)
        scattered = [DUE + timedelta(seconds=dice.randrange(365 * 86_400)) for _ in range(jobs)]
        report.ours(STORE, "one instant", _fires(bodies, [DUE] * jobs))
        report.ours(STORE, "as many instants", _fires(bodies, scattered))
        took = _refusals(dice, texts)
        report.ours(STORE, "garbage p99", took[int(0.99 * len(took))])
        report.ours(STORE, "garbage max", took[-1])
    report.finish(TARGETS)


def _fires(bodies: list[bytes], moments: list[datetime]) -> float:
    began = process_time()
    for number, moment in enumerate(moments):
        schedule = decode_schedule(bodies[number % LINES])
        assert not isinstance(schedule, Once)
        schedule.next_after(moment)
    return (process_time() - began) * 1000


def _refusals(dice: Random, texts: int) -> list[float]:
    took = []
    for _ in range(texts):
        text = garbage(dice)
        began = process_time()
        with suppress(InvalidInput):
            preview(parse_schedule(text, zone="Europe/Berlin", now=DUE), "Europe/Berlin", DUE, 3)
        took.append((process_time() - began) * 1000)
    return sorted(took)
