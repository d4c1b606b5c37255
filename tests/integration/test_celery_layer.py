"""Tasks with Celery's interface on a real store: what they return, how they are retried, and what graphs they form."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

import duetime
from duetime import RunFailed, RunState
from duetime.celery import AsyncResult, Celery, MaxRetriesExceededError, chain, chord, crontab, group
from duetime.testing import Harness, harness
from tests.support.working import quick_settings, working

T = TypeVar("T")
jobs = duetime.App()
app = Celery("shop", jobs)
seen: list[Any] = []


@app.task
def add(x, y=0):  # type: ignore[no-untyped-def]
    return x + y


@app.task
def total(numbers: list[int]) -> int:
    return sum(numbers)


@app.task
def day_after(moment: datetime, days: int = 1) -> datetime:
    return moment.replace(day=moment.day + days)


@app.task
def any_keywords(first, **more):  # type: ignore[no-untyped-def]
    return {"first": first, **more}


@app.task(bind=True, max_retries=2)
def flaky(self: Any, failures: int) -> int:
    seen.append((self.request.id, self.request.retries))
    if self.request.retries < failures:
        try:
            raise OSError("the partner is away")
        except OSError as error:
            raise self.retry(exc=error, countdown=60) from None
    return self.request.retries


@app.task(bind=True, max_retries=1)
def impatient(self: Any) -> None:
    self.retry(countdown=1)


@app.task(autoretry_for=(OSError,), dont_autoretry_for=(FileNotFoundError,), retry_backoff=4, retry_jitter=False)
def automatic(kind: str) -> None:
    raise {"os": OSError, "file": FileNotFoundError, "value": ValueError}[kind](kind)


@app.task(ignore_result=True)
def quiet() -> int:
    return 1


@app.task
def waits(id: str) -> None:
    AsyncResult(id).get(timeout=1)


async def blocking(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    return await asyncio.to_thread(function, *args, **kwargs)


async def attempts(result: AsyncResult) -> list[str]:
    (run,) = await jobs.runs(result.id)
    return [(each.error or "").splitlines()[0] if each.error else "" for each in run.attempts]


@pytest.fixture
async def shop() -> Any:
    seen.clear()
    async with harness(jobs) as made:
        yield made


async def test_results(shop: Harness) -> None:
    plain = await blocking(add.delay, 1, y=2)
    later = await blocking(add.apply_async, (1, 2), countdown=60, queue="slow", priority="LOW")
    typed = await blocking(day_after.delay, datetime(2027, 1, 1, tzinfo=UTC))
    keywords = await blocking(any_keywords.delay, 1, b=2)
    ignored = await blocking(quiet.delay)
    await shop.run_due()
    assert [await blocking(lambda each=each: each.state) for each in (plain, later)] == ["SUCCESS", "PENDING"]
    assert (await blocking(plain.get, 1), plain, await blocking(app.AsyncResult(plain.id).get)) == (3, plain, 3)
    assert await blocking(typed.get) == datetime(2027, 1, 2, tzinfo=UTC)
    assert await blocking(keywords.get) == {"first": 1, "b": 2}
    assert await blocking(ignored.get) is None
    with pytest.raises(TimeoutError):
        await blocking(later.get, 0.01)
    await blocking(later.revoke)
    assert await blocking(lambda: later.state) == "REVOKED"
    assert add(1, 2) == 3, "a direct call is a call"
    shop.assert_submitted(add.native, queue="slow", priority="LOW", run_in="1m")


async def test_retries_that_the_task_asks_for(shop: Harness) -> None:
    good, bad, no_error = [await blocking(task.delay, *args) for task, args in
                           ((flaky, (2,)), (flaky, (9,)), (impatient, ()))]  # fmt: skip
    await shop.run_due()
    assert await blocking(lambda: good.state) == "RETRY"
    await shop.advance(minutes=10)
    assert await blocking(good.get) == 2
    assert [retries for id, retries in seen if id == good.id] == [0, 1, 2]
    assert await attempts(bad) == ["OSError: the partner is away"] * 3
    (run,) = await jobs.runs(bad.id)
    assert "raise OSError" in (run.attempts[0].error or ""), "a retry keeps the traceback of its error"
    with pytest.raises(RunFailed, match="the partner is away"):
        await blocking(bad.get)
    assert isinstance(await blocking(bad.get, propagate=False), RunFailed)
    assert MaxRetriesExceededError.__name__ in (await attempts(no_error))[-1]


async def test_retries_by_exception(shop: Harness) -> None:
    results = {kind: await blocking(automatic.delay, kind) for kind in ("os", "file", "value")}
    await shop.advance(seconds=4 + 8 + 16 - 1)
    assert await blocking(lambda: results["os"].state) == "RETRY", "4, 8, then 16 seconds"
    await shop.advance(seconds=1)
    assert [len(await attempts(each)) for each in results.values()] == [4, 1, 1]
    assert {await blocking(lambda each=each: each.state) for each in results.values()} == {"FAILURE"}


async def test_a_retry_cannot_exceed_its_task(shop: Harness) -> None:
    with pytest.raises(duetime.InvalidInput, match="max_retries=5 to the decorator"):
        flaky.retry(max_retries=5)
    with pytest.raises(OSError, match="direct"):
        flaky.retry(exc=OSError("direct"))
    assert flaky.request.called_directly


async def test_chain_group_chord(shop: Harness) -> None:
    line = await blocking(chain(add.s(1, 2), add.s(10), add.si(5, 5), add.s(1)).delay)
    piped = await blocking((add.s(2) | add.s(3)).delay, 1)
    star = await blocking(chord([add.s(n, n) for n in range(12)]), total.s())
    both = await blocking(group(add.s(1, 1), add.s(2, 2) | add.s(5)).delay)
    fan = await blocking(chain(add.s(1, 1), group(add.s(10), add.s(20)), total.s()).delay)
    dates = await blocking(chain(day_after.s(datetime(2027, 1, 1, tzinfo=UTC)), day_after.s(days=3)).delay)
    await shop.run_due()
    assert [await blocking(each.get) for each in (line, piped, star, both, fan)] == [11, 6, 132, [2, 9], 34]
    assert await blocking(dates.get) == datetime(2027, 1, 5, tzinfo=UTC), "results have the types of annotations"
    assert (await blocking(line.parent.get), await blocking(line.parent.parent.get)) == (10, 13)
    assert (len(both), await blocking(both.completed_count)) == (2, 2)


async def test_a_chain_ends_with_the_task_that_fails(shop: Harness) -> None:
    result = await blocking(chain(automatic.s("value"), add.s(1), total.s()).delay)
    await shop.run_due()
    assert await blocking(lambda: (result.state, result.parent.parent.state)) == ("REVOKED", "FAILURE")


async def test_graphs_that_are_refused_store_nothing(shop: Harness) -> None:
    nested = chain(group(group(add.s(1), add.s(2)), add.s(3)), total.s())
    for wrong, text in (
        (nested, "one group"),
        (chain(add.s(1), quiet.s()), "quiet.si"),
        (chain(add.s(1), add.s(1, 2)), "do not match"),
        (chain(add.s(1).set(link=1), add.s(1)), "chain"),
    ):
        with pytest.raises(duetime.InvalidInput, match=text):
            await blocking(wrong.delay)
    assert shop.submitted == []


async def test_a_task_does_not_wait_for_another(shop: Harness) -> None:
    first = await blocking(add.delay, 1)
    second = await blocking(waits.delay, first.id)
    await shop.run_due()
    assert "use a chain" in str(await blocking(second.get, propagate=False))


async def test_a_required_argument_that_never_came(shop: Harness) -> None:
    receipt = await jobs.submit("tests.integration.test_celery_layer.total", {})
    (run,) = await shop.run_due()
    assert (run.state, "misses its argument 'numbers'" in (run.error or "")) == (RunState.FAILED, True)
    assert receipt.job_id


async def test_beat(shop: Harness) -> None:
    app.conf.update(
        timezone="Europe/Berlin",
        beat_schedule={
            "nightly": {"task": add.name, "schedule": crontab(minute=0, hour=3), "args": (1, 2)},
            "often": {"task": add.name, "schedule": 7200, "kwargs": {"x": 1}, "options": {"queue": "beat"}},
        },
    )
    await app.schedule_beat()
    first = [each.receipt.job_id for each in shop.submitted]
    await app.schedule_beat()
    assert [each.receipt.job_id for each in shop.submitted[2:]] == first, "however often it is called"
    runs = await shop.advance(hours=24)
    assert [run.due_at.hour for run in runs if run.value == 3] == [2], "03:00 in Berlin, in winter"
    assert len([run for run in runs if run.value == 1]) == 12


async def test_on_each_store(database_url: str) -> None:
    """What differs between the databases: graphs, results, waiting, and one job per key."""
    own = jobs.settings
    jobs.configure(quick_settings(database_url))
    try:
        async with working(jobs):
            plain = await blocking(add.delay, 1, y=2)
            typed = await blocking(chain(day_after.s(datetime(2027, 1, 1, tzinfo=UTC)), day_after.s(days=3)).delay)
            star = await blocking(chord([add.s(n, n) for n in range(12)]), total.s())
            both = await blocking(group(add.s(1, 1), add.s(2, 2) | add.s(5)).delay)
            ended = await blocking(chain(automatic.s("value"), add.s(1)).delay)
            later = await blocking(add.apply_async, (1,), countdown=3600, expires=7200, priority="LOW", queue="slow")
            once = [await blocking(add.apply_async, (1,), idempotency_key="once") for _ in range(2)]
            again = await blocking(impatient.delay)
            assert [await blocking(each.get, 20) for each in (plain, star, both)] == [3, 132, [2, 9]]
            assert await blocking(typed.get, 20) == datetime(2027, 1, 5, tzinfo=UTC)
            assert isinstance(await blocking(ended.get, 20, propagate=False), duetime.RunCancelled)
            assert await blocking(lambda: (ended.parent.state, later.state)) == ("FAILURE", "PENDING")
            await blocking(later.revoke)
            assert await blocking(lambda: later.state) == "REVOKED"
            assert once[0] == once[1]
            assert isinstance(await blocking(again.get, 20, propagate=False), RunFailed)
            assert [bool(text) for text in await attempts(again)] == [True, True], "it asked for one retry"
            app.conf.beat_schedule = {"often": {"task": add.name, "schedule": 3600, "args": (1, 2)}}
            await app.schedule_beat()
            await app.schedule_beat()
            stored = await add.native.bind(x=1, y=2).schedule(every=3600, key="beat:often", name="often")
            assert not stored.created, "the job of the beat entry"
    finally:
        await jobs.close()
        await asyncio.to_thread(jobs.sync.close)
        jobs.configure(own)
