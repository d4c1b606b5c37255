"""Runs that are claimed ahead where functions are short: on the event loop, in threads and in processes."""

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from duetime import App, Receipt, RunState, SyncContext, Task
from duetime.model.attempt import AttemptState
from duetime.worker import backlog, executor, prefetch
from duetime.worker.slots import Slots
from tests.support import tasks
from tests.support.waiting import eventually
from tests.support.working import ended, quick_settings, working


async def nap(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def hang() -> None:
    await asyncio.sleep(3600)


def wait_for_the_end(ctx: SyncContext) -> None:
    ctx.stop_requested.wait(60)


class Place(msgspec.Struct, frozen=True):
    """Where there is room for one."""

    worker: dict[str, int]
    square: Any
    nap: Any
    hang: Any
    task: dict[str, Any] = {}


PLACES = {
    "loop": Place({"slots": 1}, tasks.async_square, nap, hang),
    "thread": Place({"threads": 1}, tasks.square, tasks.nap, wait_for_the_end),
    "process": Place({"processes": 1}, tasks.square, tasks.nap, tasks.hang, {"process": True}),
}


@pytest.fixture
def database_url(migrated: str) -> str:
    """One store is enough: what waits in a worker is the same, wherever it was claimed from."""
    return migrated


@pytest.fixture(params=list(PLACES))
def place(request: pytest.FixtureRequest) -> Place:
    return PLACES[request.param]


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions count as short, however slow the machine is; and they wait with_lock_wait."""
    monkeypatch.setattr(prefetch, "_MOMENT", 60.0)
    be_patient(monkeypatch, 60.0)


def be_patient(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(backlog, "LONGEST_WAIT", seconds)
    monkeypatch.setattr(executor, "LONGEST_WAIT", seconds)


async def are_claimed(app: App, receipts: list[Receipt]) -> None:
    async def running() -> bool:
        return all([(await app.runs(receipt))[0].state is RunState.RUNNING for receipt in receipts])

    await eventually(running)


async def many(app: App, task: Task[..., Any], count: int) -> None:
    """Enough of a short function to know its pace."""
    for receipt in await app.submit_many([task.bind(number=number) for number in range(count)]):
        await ended(app, receipt)


async def test_what_was_claimed_ahead_and_waits_is_given_back(
    app: App, place: Place, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_patient(monkeypatch, 2.0)  # long enough to be seen to wait
    square = app.task(**place.task)(place.square)
    hang = app.task(**place.task)(place.hang)
    async with working(app, **place.worker):
        await many(app, square, 20)
        await are_claimed(app, [await hang.submit()])
        late = await app.submit_many([square.bind(number=number) for number in range(5)])
        await are_claimed(app, late)
        async with working(app, **place.worker):
            runs = [await ended(app, receipt) for receipt in late]
    assert [run.value for run in runs] == [number**2 for number in range(5)]
    assert {run.attempt for run in runs} == {1}, "nothing was spent"
    assert [[attempt.state for attempt in run.attempts] for run in runs] == [[AttemptState.SUCCEEDED]] * 5


async def test_what_is_given_back_has_not_started_and_expires(
    app: App, place: Place, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_patient(monkeypatch, 0.2)
    square = app.task(**place.task)(place.square)
    brief = app.task(name="brief", expires_in="2s", **place.task)(place.square)
    hang = app.task(**place.task)(place.hang)
    async with working(app, **place.worker):
        await many(app, square, 20)
        await are_claimed(app, [await hang.submit()])
        late = await brief.submit(number=7)
        await are_claimed(app, [late])
        await asyncio.sleep(2.1)
        async with working(app, **place.worker):
            assert (await ended(app, late)).state is RunState.SKIPPED


@pytest.mark.parametrize("kind", ["loop", "thread"])
async def test_no_more_are_under_way_than_there_are_slots(app: App, kind: str, ahead: None) -> None:
    inside = most = 0
    lock = threading.Lock()

    def count(change: int) -> None:
        nonlocal inside, most
        with lock:
            inside += change
            most = max(most, inside)

    async def stay_async() -> None:
        count(1)
        await asyncio.sleep(0.02)
        count(-1)

    def stay() -> None:
        count(1)
        time.sleep(0.02)
        count(-1)

    square = app.task(PLACES[kind].square)
    task = app.task(name="stay")(stay_async if kind == "loop" else stay)
    async with working(app, slots=3, threads=3):
        await many(app, square, 20)
        receipts = await app.submit_many([task.bind()] * 30)
        for receipt in receipts:
            await ended(app, receipt)
    assert most == 3


async def test_what_was_claimed_ahead_has_its_whole_timeout(
    app: App, place: Place, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    square = app.task(timeout="3s", **place.task)(place.square)
    nap = app.task(**place.task)(place.nap)
    async with working(app, **place.worker):
        await many(app, square, 20)
        await are_claimed(app, [await nap.submit(seconds=4)])
        late = await square.submit(number=7)
        await are_claimed(app, [late])
        run = await ended(app, late)
    assert (run.value, len(run.attempts)) == (49, 1)


async def test_what_was_claimed_ahead_can_be_cancelled(
    app: App, place: Place, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    square = app.task(**place.task)(place.square)
    hang = app.task(**place.task)(place.hang)
    async with working(app, **place.worker):
        await many(app, square, 20)
        hanging = await hang.submit()
        await are_claimed(app, [hanging])
        late = await square.submit(number=7)
        await are_claimed(app, [late])
        await app.cancel(late)
        assert (await ended(app, late)).state is RunState.CANCELLED
        assert (await app.runs(hanging))[0].state is RunState.RUNNING, "what runs goes on"


async def test_what_shall_never_start_twice_and_waits_is_handed_back(
    app: App, place: Place, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    square = app.task(**place.task)(place.square)
    pay = app.task(name="pay", delivery="at_most_once", **place.task)(place.square)
    hang = app.task(**place.task)(place.hang)
    async with working(app, **place.worker, grace=timedelta(0)):
        await many(app, square, 20)
        await are_claimed(app, [await hang.submit()])
        late = await pay.submit(number=7)
        await are_claimed(app, [late])
    run = (await app.runs(late))[0]
    assert (run.state, run.attempt, run.error) == (RunState.PENDING, 0, None)
    async with working(app, **dict.fromkeys(place.worker, 2)):
        assert (await ended(app, late)).value == 49


async def test_what_shall_never_start_twice_is_not_claimed_ahead(
    app: App, place: Place, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If its worker died, it would have failed without having begun."""
    square = app.task(**place.task)(place.square)
    pay = app.task(name="pay", delivery="at_most_once", **place.task)(place.square)
    claim_ahead, counts = Slots.claim_ahead, []

    def noted(self: Slots, place: int, count: int) -> None:
        counts.append(count)
        claim_ahead(self, place, count)

    monkeypatch.setattr(Slots, "claim_ahead", noted)
    async with working(app, **place.worker):
        await many(app, square, 20)
        assert counts[-1] > 0
        counts.clear()
        await many(app, pay, 40)
        assert set(counts) == {0}
        await many(app, square, 20)
        assert counts[-1] > 0


async def test_nothing_is_claimed_ahead(migrated: str, ahead: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none that comes later may wait behind it."""
    counts: list[int] = []
    monkeypatch.setattr(Slots, "claim_ahead", lambda _self, _place, count: counts.append(count))
    settings = msgspec.structs.replace(quick_settings(migrated), priorities="strict")
    async with App(settings=settings) as app:
        square = app.task(tasks.async_square)
        async with working(app, slots=1, threads=1):
            await many(app, square, 20)
    assert counts == []
