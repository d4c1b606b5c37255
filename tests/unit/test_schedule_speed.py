"""What a herd costs: the scanner computes the next fires of a whole batch between two looks at the database."""

from datetime import UTC, datetime, timedelta
from random import Random
from time import process_time

from tests.support.texts import cron_lines

DUE = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


def test_a_hundred_thousand_next_fires_take_a_second() -> None:
    crons = cron_lines(1000)
    began = process_time()
    for number in range(100_000):
        cron = crons[number % 1000]
        following = cron.next_after(DUE)
        assert following is not None
    took = process_time() - began
    assert took < 1.0, f"{took:.2f} s"


def test_fires_that_no_other_job_shares_are_cheap_too() -> None:
    crons = cron_lines(1000)
    random = Random(6)
    moments = [DUE + timedelta(seconds=random.randrange(86_400 * 365)) for _ in range(10_000)]
    began = process_time()
    for number, moment in enumerate(moments):
        crons[number % 1000].next_after(moment)
        crons[number % 1000].latest_until(moment)
    each = (process_time() - began) / len(moments) / 2
    assert each < 100e-6, f"{each * 1e6:.0f} µs"
