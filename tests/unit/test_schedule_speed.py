"""What a herd costs: the scanner computes the next fires of a whole batch between two looks at the database."""

from datetime import UTC, datetime, timedelta
from random import Random
from time import process_time

from duetime.model.schedule import Cron, make_cron

ZONES = ["Europe/Berlin", "America/New_York", "UTC", "Asia/Kolkata", "Australia/Lord_Howe"]
DUE = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


def expressions(count: int) -> list[Cron]:
    random = Random(5)
    found: dict[str, Cron] = {}
    while len(found) < count:
        minute = random.choice(["*", "*/5", "*/15", str(random.randrange(60))])
        hour = random.choice(["*", "*/2", str(random.randrange(24))])
        days = random.choice(["* * *", "* * MON-FRI", "1 * *", "L * *", "* 3 *", "* * 5L", "29 2 *"])
        cron = make_cron(f"{minute} {hour} {days}", random.choice(ZONES))
        found[str(cron)] = cron
    return list(found.values())


def test_a_hundred_thousand_next_fires_take_a_second() -> None:
    crons = expressions(1000)
    began = process_time()
    for number in range(100_000):
        cron = crons[number % 1000]
        following = cron.next_after(DUE)
        assert following is not None
    took = process_time() - began
    assert took < 1.0, f"{took:.2f} s"


def test_fires_that_no_other_job_shares_are_cheap_too() -> None:
    crons = expressions(1000)
    random = Random(6)
    moments = [DUE + timedelta(seconds=random.randrange(86_400 * 365)) for _ in range(10_000)]
    began = process_time()
    for number, moment in enumerate(moments):
        crons[number % 1000].next_after(moment)
        crons[number % 1000].latest_until(moment)
    each = (process_time() - began) / len(moments) / 2
    assert each < 300e-6, f"{each * 1e6:.0f} µs"
