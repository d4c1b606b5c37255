"""A database whose clock is put back: what has run does not run again."""

from datetime import UTC, datetime, timedelta

import pytest

from duetime import App
from duetime.testing import harness

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("back", [10, 300])
async def test_an_edit_after_the_clock_was_put_back_repeats_no_occurrence(back: int) -> None:
    """The run that was fired ahead is withdrawn, and the new rhythm begins after what has run, not merely after now.
    (Found by `python -m chaos run --scenario database-clock`.)"""
    app = App()
    ran: list[datetime] = []

    @app.task(name="work")
    async def work(ctx) -> None:  # type: ignore[no-untyped-def]
        ran.append(ctx.due_at)

    async with harness(app, start=START) as jobs:
        receipt = await app.schedule("work", every=3, start_at=START, key="often")
        await jobs.advance(seconds=400)
        before = len(ran)
        assert before > 130
        jobs.clock.move_to(jobs.clock.now() - timedelta(seconds=back))

        await app.schedule("work", every=1, start_at=START, key="often")
        await jobs.advance(seconds=back + 10)
        assert len(ran) > before
        assert len(set(ran)) == len(ran)
        runs = await app.runs(receipt, 1000)
        assert all(len(run.attempts) == 1 for run in runs if run.state.is_end)
