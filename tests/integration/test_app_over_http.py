"""An app in another process than the `duetime up` that owns its file: the same calls, over HTTP."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from duetime import App, JobState, NotFound, RetryPolicy, RunState, StoreLocked
from duetime.errors import InvalidInput
from tests.support.command import Command


async def test_an_app_reaches_the_up_that_owns_its_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Command(tmp_path, "up", "--data-dir", str(data), "--port", "0", "--json") as up:
        up.until(lambda up: '"up"' in up.stdout)
        async with App(data_dir=data) as app:

            @app.task(name="not_there_yet", retry=RetryPolicy(retries=7, base=1.5), timeout="90s")
            async def later(to: str) -> str:
                return to

            receipt = await later.options(run_in="1h", key="one", tags=["a"]).submit(to="you")
            again = await later.options(run_in="1h", key="one", tags=["a"]).submit(to="you")
            assert (again.job_id, again.created) == (receipt.job_id, False)
            job = await app.job(receipt)
            assert (job.state, job.options.retry.retries, job.timeout_ms) == (JobState.ACTIVE, 7, 90_000)
            assert job.options.tags == ("a",)
            many = await app.submit_many([later.bind(to=str(n)) for n in range(5)], run_in="2h")
            assert len({each.job_id for each in many}) == 5
            assert (await app.cancel(receipt)).state is JobState.CANCELLED
            with pytest.raises(NotFound):
                await app.run("run_00000000000000000000000000")

            # Half a day away: nothing fires meanwhile, and no change of clocks matters.
            cron = f"0 {(datetime.now(UTC).hour + 12) % 24} * * 1-5"
            daily = await later.bind(to="you").schedule(cron=cron, tz="Europe/Berlin", overlap="skip")
            assert (await app.job(daily)).schedule.zone == "Europe/Berlin"  # type: ignore[union-attr]
            assert (await app.pause(daily)).state is JobState.PAUSED
            assert (await app.resume(daily)).state is JobState.ACTIVE
            run = await app.trigger(daily)
            assert (run.state, run.arguments) == (RunState.PENDING, {"to": "you"})
            end = datetime.now(UTC)
            assert await app.backfill(daily, end - timedelta(days=14), end) == 10
            assert len(await app.runs(daily)) == 11
            with pytest.raises(InvalidInput):
                await app.submit(later.bind(to="you"), connection=object())
        with pytest.raises(StoreLocked):
            await App(database_url=f"sqlite:///{data / 'duetime.db'}").store()
        assert up.stop() == 0
