"""Policies and steering through the app, with a real scanner and worker under a clock that the test moves."""

import math
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

import duetime
from duetime.engine.intake import prepare
from duetime.engine.scanner import Scanner
from duetime.model.job import Options
from duetime.model.schedule import make_cron
from duetime.store.address import store_in_memory
from duetime.testing import harness
from tests.support.unclaimed import unclaimed

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
JITTERED = Options(jitter=30.0)


def make_app() -> tuple[duetime.App, list[datetime]]:
    app = duetime.App()
    ran: list[datetime] = []

    @app.task(name="note")
    async def note(ctx: duetime.Context) -> None:
        ran.append(ctx.due_at)

    return app, ran


async def test_a_two_hour_outage_ends_as_the_misfire_policy_says() -> None:
    expected = {"latest": 1, "skip": 0, "all": 120}
    for policy, runs in expected.items():
        app, ran = make_app()
        async with harness(app, start=NINE) as jobs:
            misfire = duetime.Misfire(policy, after=10.0, most=1000)  # type: ignore[arg-type]
            receipt = await app.schedule("note", cron="* * * * *", misfire=misfire)
            jobs.clock.advance(hours=2, seconds=30)
            await jobs.run_due()
            assert len(ran) == runs, policy
            assert (await app.job(receipt)).missed == 120 - runs, policy


async def test_max_runs_and_jitter() -> None:
    app, ran = make_app()
    async with harness(app, start=NINE) as jobs:
        receipt = await app.schedule("note", every="1m", max_runs=3, jitter="20s")
        await jobs.advance(minutes=10)
        assert len(ran) == 3
        assert all(
            timedelta(0) <= at - NINE - (n + 1) * timedelta(minutes=1) < timedelta(seconds=20)
            for n, at in enumerate(ran)
        )
        assert (await app.job(receipt)).state is duetime.JobState.ENDED


async def test_pause_resume_trigger_and_backfill() -> None:
    app, ran = make_app()
    async with harness(app, start=NINE) as jobs:
        receipt = await app.schedule("note", cron="*/10 * * * *", misfire="skip")
        assert (await app.pause(receipt)).state is duetime.JobState.PAUSED
        await jobs.advance(minutes=25)
        assert ran == []
        await app.trigger(receipt)
        await jobs.run_due()
        assert ran == [NINE + timedelta(minutes=25)]
        await app.resume(receipt)
        await jobs.advance(minutes=5)
        assert ran[1:] == [NINE + timedelta(minutes=30)]
        assert await app.backfill(receipt, NINE, NINE + timedelta(minutes=30), rate=1000) == 3
        await jobs.advance(seconds=1)
        assert ran[2:] == [NINE + timedelta(minutes=minutes) for minutes in (0, 10, 20)]


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ({"misfire": "never"}, "misfire: 'never' is not a valid value"),
        ({"misfire": duetime.Misfire("all", most=0)}, "misfire.most"),
        ({"misfire": duetime.Misfire("all", age=math.inf)}, "misfire: after and age must be finite seconds"),
        ({"misfire": duetime.Misfire("skip", after=math.inf)}, "misfire: after and age must be finite seconds"),
        ({"misfire": duetime.Misfire("skip", after=math.nan)}, "misfire: after and age must be finite seconds"),
        ({"misfire": duetime.Misfire("all", age=10**400)}, "misfire: after and age must be finite seconds"),
        ({"misfire": duetime.Misfire("all", age=True)}, "misfire: after and age must be finite seconds"),
        ({"misfire": duetime.Misfire("all", age="1h")}, "misfire: after and age must be finite seconds"),  # type: ignore[arg-type]
        ({"overlap": "maybe"}, "overlap: 'maybe' is not a valid value"),
        ({"jitter": "2d"}, "jitter: 2d is out of range"),
        ({"jitter": "soon"}, "jitter:"),
        ({"max_runs": 0}, "max_runs: 0 is out of range"),
    ],
)
async def test_a_policy_that_cannot_be_meant_is_refused(policy: dict[str, object], message: str) -> None:
    app, _ = make_app()
    async with harness(app) as jobs:
        with pytest.raises(duetime.InvalidInput, match=message):
            await app.schedule("note", every="1m", **policy)
        assert jobs.submitted == []


async def test_a_backfill_is_bounded() -> None:
    app, _ = make_app()
    async with harness(app, start=NINE):
        receipt = await app.schedule("note", every="1m")
        with pytest.raises(duetime.InvalidInput, match="more than 1000 fires"):
            await app.backfill(receipt, NINE + timedelta(minutes=1), NINE + timedelta(days=2))
        with pytest.raises(duetime.InvalidInput, match="range is empty"):
            await app.backfill(receipt, NINE, NINE)
        with pytest.raises(duetime.InvalidInput, match="rate"):
            await app.backfill(receipt, NINE, NINE + timedelta(minutes=5), rate=0)


async def test_a_herd_at_nine_is_spread_over_its_jitter() -> None:
    """10,000 jobs at 09:00 with jitter=30s, fired by the scanner: no second holds more than twice the mean."""
    clock = duetime.ManualClock(NINE - timedelta(hours=1))
    store = store_in_memory(clock)
    await store.open()
    await store.migrate()
    app, _ = make_app()
    with app.using_store(store):
        await app.schedule("note", cron="0 9 * * *", jitter="30s")
        jobs = [
            prepare(task="note", args={}, max_payload=100, schedule=make_cron("0 9 * * *", "UTC"), options=JITTERED)
            for _ in range(9_999)
        ]
        await store.intake.submit(1, jobs)
        clock.move_to(NINE - timedelta(seconds=10))
        scanner = Scanner(store)
        while await scanner.tick() == 0:
            pass
        waiting = await unclaimed(store)
    await store.close()
    seconds = Counter(int((at - NINE).total_seconds()) for _, _, at in waiting)
    assert sum(seconds.values()) == 10_000
    assert set(seconds) == set(range(30)), "none before its time, none later than its jitter"
    assert max(seconds.values()) <= 2 * 10_000 / 30
