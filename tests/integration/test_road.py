"""The road of a job: submitted, due, run, and read back."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta, timezone
from typing import Any

import pytest

from duetime import App, InvalidInput, JobState, KeyReused, Receipt, RunState
from duetime.store.protocol.store import Counts
from tests.support.waiting import eventually
from tests.support.working import ended, working

Submit = Callable[..., Awaitable[Receipt[str]]]


@pytest.fixture
def started() -> list[str]:
    return []


@pytest.fixture
def note(app: App, started: list[str]) -> Submit:
    """Submits a task that writes down its argument."""

    @app.task(name="note")
    async def note(what: str) -> str:
        started.append(what)
        return what.upper()

    def submit(what: str, **options: Any) -> Awaitable[Receipt[str]]:
        return note.options(**options).submit(what)

    return submit


async def now(app: App):
    return await (await app.store()).now()


async def counts(app: App) -> Counts:
    return await (await app.store()).reads.counts()


async def test_a_job_for_now_runs_and_its_result_is_kept(app: App) -> None:
    @app.task
    async def add(a: int, b: int = 1) -> dict[str, int]:
        return {"sum": a + b}

    async with working(app):
        receipt = await add.submit(a=2)
        run = await ended(app, receipt)
    assert run.state is RunState.SUCCEEDED
    assert run.value == {"sum": 3}
    assert run.arguments == {"a": 2}
    assert run.due_at <= run.started_at <= run.finished_at
    assert receipt.created and receipt.note is None
    assert await app.run(receipt.run_id) == await app.run(run.id) == run
    assert (await app.job(receipt)).state is (await app.job(run.job_id)).state is JobState.ENDED
    assert await app.runs(receipt.job_id) == [run]
    assert await counts(app) == Counts(jobs=0, runs=0, history=1, dead_letters=0)


async def test_a_delay_is_waited_for(app: App, note: Submit) -> None:
    async with working(app):
        before = await now(app)
        receipt = await note(what="later", run_in="200ms")
        run = await ended(app, receipt)
    assert receipt.next_run == run.due_at >= before + timedelta(milliseconds=200)
    assert run.started_at >= run.due_at
    assert run.value == "LATER"


async def test_a_moment_is_waited_for(app: App, note: Submit) -> None:
    async with working(app):
        await ended(app, await note(what="warm"))
        moment = (await now(app) + timedelta(seconds=4)).astimezone(timezone(timedelta(hours=5, minutes=45)))
        receipts = [await note(what="then", run_at=given) for given in (moment, moment.isoformat())]
        runs = [await ended(app, receipt) for receipt in receipts]
    assert [receipt.note for receipt in receipts] == [None, None], "the moment was still to come"
    for run in runs:
        assert run.due_at == moment
        assert run.started_at >= moment


async def test_a_moment_in_the_past_means_now_and_the_receipt_says_so(app: App, note: Submit) -> None:
    moment = await now(app) - timedelta(hours=2)
    receipt = await note(what="late", run_at=moment)
    assert receipt.note is not None and receipt.note.startswith("run_at is 2h")
    assert receipt.next_run > moment
    async with working(app):
        assert (await ended(app, receipt)).state is RunState.SUCCEEDED


async def test_a_distant_job_waits_in_its_first_home(app: App, note: Submit) -> None:
    async with working(app):
        receipt = await note(what="tomorrow", run_in="1d")
        await ended(app, await note(what="now"))
        job = await app.job(receipt)
    assert (job.state, job.next_run, receipt.run_id) == (JobState.ACTIVE, receipt.next_run, None)
    assert await app.runs(receipt) == []
    assert (await counts(app)).jobs == 1
    with pytest.raises(TimeoutError, match=r"has not ended within 0 s: Its next run is due in 2[34] h"):
        await app.wait(receipt, 0)


async def test_a_wait_that_ends_says_why_nothing_runs(app: App, note: Submit) -> None:
    receipt = await note(what="no worker has this")
    with pytest.raises(TimeoutError, match=r"has not ended within 0 s: .*worker.* note"):
        await app.wait(receipt, 0)


async def test_an_interval_fires_again_and_again(app: App, note: Submit) -> None:
    async with working(app):
        receipt = await app.schedule("note", {"what": "tick"}, every="1s")

        async def two_ended() -> list:
            runs = [run for run in await app.runs(receipt) if run.state.is_end]
            return runs if len(runs) >= 2 else []

        *_, newer, older = await eventually(two_ended)  # newest first; a slow look finds more than two
    assert newer.due_at - older.due_at == timedelta(seconds=1)
    assert older.started_at >= older.due_at
    assert older.due_at == receipt.next_run


async def test_one_key_is_one_job_however_often_it_is_scheduled(app: App, note: Submit) -> None:
    first = await app.schedule("note", {"what": "report"}, cron="0 9 * * MON-FRI", tz="Europe/Berlin", key="daily")
    again = await app.schedule("note", {"what": "report"}, cron="0  9 * * MON-FRI", tz="Europe/Berlin", key="daily")
    assert (again.job_id, again.next_run) == (first.job_id, first.next_run)
    assert (first.created, again.created) == (True, False)
    assert (await app.job(first)).version == 1
    other = await app.schedule("note", {"what": "report"}, every="1h", key="daily")
    job = await app.job(first)
    assert (other.job_id, other.created) == (first.job_id, False)
    assert (str(job.schedule), job.version, job.next_run) == ("every 1h", 2, other.next_run)
    assert (await counts(app)).jobs == 1


async def test_ten_starts_at_once_leave_one_scheduled_job(app: App, note: Submit) -> None:
    calls = (app.schedule("note", {"what": "x"}, every="1h", key="hourly") for _ in range(10))
    receipts = await asyncio.gather(*calls)
    assert len({receipt.job_id for receipt in receipts}) == 1
    assert sum(receipt.created for receipt in receipts) == 1
    assert (await counts(app)).jobs == 1


async def test_a_thousand_jobs_in_one_call(app: App, started: list[str]) -> None:
    @app.task
    async def count(number: int) -> int:
        started.append(str(number))
        return number

    async with working(app):
        assert await app.submit_many([]) == []
        receipts = await app.submit_many(count.bind(number=number) for number in range(1000))
        await eventually(lambda: len(started) >= 1000)
        runs = [await ended(app, receipt) for receipt in receipts[::99]]
    assert sorted(map(int, started)) == list(range(1000))
    assert [run.value for run in runs] == list(range(0, 1000, 99))


async def test_one_bad_item_refuses_the_whole_batch(app: App, note: Submit) -> None:
    batch = [{"what": str(number)} for number in range(10)]
    batch[7] = {"what": {1, 2}}
    with pytest.raises(InvalidInput, match=r"^calls\[7\]\.args\.what: expected str, got set"):
        await app.submit_many([app.tasks["note"].bind(**each) for each in batch])
    batch[7] = {"wat": "x"}
    with pytest.raises(InvalidInput, match=r"^args: .*missing a required argument: 'what'"):
        await app.submit_many([app.tasks["note"].bind(**each) for each in batch])
    assert await counts(app) == Counts(0, 0, 0, 0)


async def test_an_idempotency_key_answers_its_first_request_again(app: App, note: Submit, started: list[str]) -> None:
    first = await note(what="order 7", idempotency_key="order-7")
    async with working(app):
        await ended(app, first)
        again = await note(what="order 7", idempotency_key="order-7")
        with pytest.raises(KeyReused, match=r"^idempotency_key: "):
            await note(what="order 8", idempotency_key="order-7")
        await ended(app, again)
    assert (again.job_id, again.run_id, again.created) == (first.job_id, first.run_id, False)
    assert started == ["order 7"]


async def test_a_higher_priority_goes_first(app: App, note: Submit, started: list[str]) -> None:
    for priority in ("LOW", "MEDIUM", "HIGH"):
        for number in range(3):
            last = await note(what=f"{priority} {number}", priority=priority)
            if priority == "LOW" and number == 2:
                lowest = last
    async with working(app, slots=1):
        await ended(app, lowest)
    # In shares of 70 to 25 to 5: so few are over before the lowest has its turn.
    assert [name.partition(" ")[0] for name in started] == [
        "HIGH",
        "HIGH",
        "MEDIUM",
        "HIGH",
        *2 * ["MEDIUM"],
        *3 * ["LOW"],
    ]
    for priority in ("HIGH", "MEDIUM", "LOW"):
        assert [name for name in started if name.startswith(priority)] == [f"{priority} {n}" for n in range(3)]


async def test_a_worker_serves_the_queues_that_it_is_told_to(app: App, note: Submit, started: list[str]) -> None:
    other = await note(what="other")
    async with working(app, queues=("mail",)):
        await ended(app, await note(what="mail", queue="mail"))
    assert started == ["mail"]
    (waiting,) = await app.runs(other)
    assert (waiting.state, waiting.queue) == (RunState.PENDING, "default")
    async with working(app):
        assert (await ended(app, other)).state is RunState.SUCCEEDED


async def test_a_worker_serves_only_the_tasks_that_it_has(app: App) -> None:
    stranger = App(settings=app.settings)

    @app.task(name="ours")
    async def ours() -> str:
        return "ours"

    @stranger.task(name="theirs")
    async def theirs() -> str:
        return "theirs"

    with stranger.using_store(await app.store()):
        foreign = await theirs.submit()
        async with working(app):
            assert (await ended(app, await ours.submit())).value == "ours"
        assert (await app.runs(foreign))[0].state is RunState.PENDING
        async with working(stranger):
            assert (await ended(app, foreign)).value == "theirs"


async def test_the_first_run_of_a_new_task_starts_at_once(app: App) -> None:
    """Not at the next poll, though the worker has just learned which lanes there are."""

    @app.task
    async def fresh(number: int) -> int:
        return number

    async with working(app, poll=timedelta(seconds=30)):
        for number in range(5):
            receipt = await app.submit(fresh.bind(number=number), queue=f"queue-{number}")
            assert (await app.wait(receipt, "10s")).value == number
