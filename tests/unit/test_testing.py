"""The harness that users test their own jobs with."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duetime import App, Cancel, Context, RetryAfter, RetryPolicy, RunState, Snooze, SyncContext
from duetime.testing import harness
from tests.support import tasks


@pytest.fixture
def app(tmp_path: Path) -> App:
    app = App(data_dir=tmp_path / "untouched")

    @app.task(name="greet")
    async def greet(name: str, mood: str = "fine") -> str:
        return f"Hello, {name}!"

    return app


async def test_nothing_runs_before_it_is_due_nor_by_itself(app: App) -> None:
    async with harness(app) as jobs:
        receipt = await app.submit("greet", {"name": "you"}, run_in="10m")
        assert await jobs.run_due() == []
        jobs.clock.advance(minutes=9, seconds=59.9)
        assert await jobs.run_due() == []
        jobs.clock.advance(seconds=0.1)
        assert (await app.job(receipt)).next_run == jobs.clock.now()
        (run,) = await jobs.run_due()
        assert (run.state, run.value, run.lag) == (RunState.SUCCEEDED, "Hello, you!", timedelta(0))
        assert run.due_at == datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
        assert await jobs.run_due() == []


async def test_what_a_task_submits_for_now_runs_too(app: App) -> None:
    @app.task
    async def parent(depth: int) -> None:
        if depth:
            await parent.submit(depth=depth - 1)
        await app.submit("greet", {"name": str(depth)})
        await app.submit("greet", {"name": "later"}, run_in="1s")

    @app.task
    def threaded(ctx: SyncContext) -> None:
        app.sync.submit("greet", {"name": "from a thread"})

    async with harness(app) as jobs:
        await parent.submit(depth=3)
        await threaded.submit()
        runs = await jobs.run_due()
        assert len(runs) == 4 + 4 + 2
        assert {run.state for run in runs} == {RunState.SUCCEEDED}
        assert len(await jobs.advance(seconds=1)) == 4
    app.sync.close()


async def test_functions_in_processes_run_too(app: App) -> None:
    square = app.task(process=True)(tasks.square)
    async with harness(app) as jobs:
        await square.submit(number=12)
        assert [run.value for run in await jobs.run_due()] == [144]


async def test_a_thousand_runs(app: App) -> None:
    async with harness(app) as jobs:
        await app.submit_many([app.tasks["greet"].bind(name=str(number)) for number in range(1000)])
        runs = await jobs.run_due()
    assert [run.value for run in runs] == [f"Hello, {number}!" for number in range(1000)], "in the order of submission"


async def test_a_retry_waits_for_its_time(app: App) -> None:
    @app.task(retry=RetryPolicy(retries=3))
    async def flaky(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise RetryAfter("1h", "busy")
        if ctx.attempt == 2:
            raise RetryAfter(0, "again at once")
        return ctx.attempt

    async with harness(app) as jobs:
        receipt = await flaky.submit()
        assert await jobs.run_due() == []
        (waiting,) = await app.runs(receipt)
        assert (waiting.state, waiting.ready_at) == (RunState.RETRYING, jobs.clock.now() + timedelta(hours=1))
        jobs.clock.advance(hours=1)
        (run,) = await jobs.run_due()
    assert (run.value, len(run.attempts)) == (3, 3)


async def test_every_end_is_returned(app: App) -> None:
    @app.task(retries=0)
    async def fail() -> None:
        raise ValueError("no")

    @app.task
    async def cancel() -> None:
        raise Cancel

    @app.task
    async def snooze() -> None:
        raise Snooze("1h")

    async with harness(app) as jobs:
        for task in (fail, cancel, snooze):
            await task.submit()
        runs = await jobs.run_due()
    assert [run.state for run in runs] == [RunState.FAILED, RunState.CANCELLED]


async def test_letting_time_pass_runs_everything_at_its_own_moment(app: App) -> None:
    async with harness(app, start=datetime(2026, 3, 1, 8, 30, tzinfo=UTC)) as jobs:
        await app.schedule("greet", {"name": "often"}, every="20m")
        await app.schedule("greet", {"name": "at nine"}, cron="0 9 * * *")
        await app.submit("greet", {"name": "once"}, run_in="25m")
        runs = await jobs.advance(hours=1)
        assert jobs.clock.now() == datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
    shown = [(f"{run.started_at:%H:%M}", run.arguments["name"]) for run in runs]
    assert shown == [
        ("08:50", "often"),
        ("08:55", "once"),
        ("09:00", "at nine"),
        ("09:10", "often"),
        ("09:30", "often"),
    ]
    assert {run.lag for run in runs} == {timedelta(0)}


async def test_jumping_leaves_one_run_for_all_that_was_missed(app: App) -> None:
    async with harness(app) as jobs:
        await app.schedule("greet", {"name": "x"}, every="1m")
        jobs.clock.advance(minutes=10)
        (run,) = await jobs.run_due()
        assert run.due_at == jobs.clock.now()


async def test_what_was_submitted_is_compared(app: App) -> None:
    greet = app.tasks["greet"]
    async with harness(app) as jobs:
        await app.submit("greet", {"name": "you"}, run_in="10m", queue="mail", priority="HIGH", idempotency_key="i")
        await app.schedule("greet", {"name": "all", "mood": "so"}, cron="0 9 * * *", tz="Europe/Berlin", key="daily")
        found = jobs.assert_submitted(
            greet.bind(name="you"), queue="mail", priority="HIGH", run_in=600, idempotency_key="i"
        )
        assert found.receipt.next_run == jobs.clock.now() + timedelta(minutes=10)
        jobs.assert_submitted(app.tasks["greet"])
        jobs.assert_submitted(greet.bind(name="all", mood="so"), cron="0 9 * * *", tz="Europe/Berlin", key="daily")
        jobs.assert_not_submitted(greet.bind(name="another"))
        jobs.assert_not_submitted(greet.bind(name="you"), run_in="11m")
        jobs.assert_not_submitted(greet.bind(name="all"), queue="mail")
        assert [item.args["name"] for item in jobs.submitted] == ["you", "all"]


async def test_a_failed_comparison_says_what_was_submitted(app: App) -> None:
    app.task(name="other")(lambda: None)
    greet = app.tasks["greet"]
    async with harness(app) as jobs:
        with pytest.raises(AssertionError, match=r"^greet\(name='me'\) was not submitted\.\nNothing was submitted\.$"):
            jobs.assert_submitted(greet.bind(name="me"))
        await app.submit("other")
        await app.submit("greet", {"name": "you"}, run_in="10m", queue="mail")
        await app.schedule("greet", {"name": "all"}, every="1h")
        listed = "Submitted were:\n  greet(name='you') in 10m queue='mail'\n  greet(name='all') every 1h\n  other() now"
        with pytest.raises(AssertionError) as refused:
            jobs.assert_submitted(greet.bind(name="me"))
        assert str(refused.value) == f"greet(name='me') was not submitted.\n{listed}"
        with pytest.raises(AssertionError) as refused:
            jobs.assert_not_submitted(greet.bind(name="you"))
        assert str(refused.value) == f"greet(name='you') was submitted.\n{listed}"
        with pytest.raises(AssertionError, match="there is no task 'gret' in this app; it has: greet, other"):
            jobs.assert_not_submitted("gret")


async def test_what_does_not_end_is_named(app: App) -> None:
    @app.task(name="endless")
    async def endless() -> None:
        await asyncio.Event().wait()

    release = threading.Event()

    @app.task(name="stuck")
    def stuck() -> None:
        release.wait(20)

    async with harness(app) as jobs:
        await app.submit("greet", {"name": "you"})
        await jobs.run_due()
        await endless.submit()
        await stuck.submit()
        with pytest.raises(TimeoutError, match="not done in time: endless, stuck"):
            await jobs.run_due(timeout="2s")
        release.set()


async def test_the_apps_own_database_is_not_touched(app: App, tmp_path: Path) -> None:
    async with harness(app) as jobs:
        async with app:
            await app.submit("greet", {"name": "x"})
        await asyncio.to_thread(app.sync.submit, "greet", {"name": "y"})
        await asyncio.to_thread(app.sync.close)
        assert len(await jobs.run_due()) == 2
        assert not (tmp_path / "untouched").exists()
    receipt = await app.submit("greet", {"name": "z"})
    assert (tmp_path / "untouched" / "duetime.db").exists()
    assert len(await app.runs(receipt)) == 1
    await app.close()
    async with harness(app) as jobs:
        assert await jobs.run_due() == [], "each harness begins empty"


async def test_runs_that_wait_for_a_rate_are_not_due(app: App) -> None:
    @app.task(rate_key="partner", rate="3/m")
    async def call() -> None: ...

    async with harness(app) as jobs:
        await app.submit_many(call.bind() for _ in range(5))
        assert len(await jobs.run_due()) == 3
        assert await jobs.run_due() == []
        assert len(await jobs.advance(minutes=2)) == 2
