"""The scanner on a real store: how much it puts into one transaction, and what it does when that is too much."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from itertools import count
from threading import Event
from uuid import UUID

import msgspec
import pytest

from duetime.engine import scanner as engine_scanner
from duetime.engine.scanner import Scanner
from duetime.errors import StoreUnavailable
from duetime.ids import new_id
from duetime.model.firing import Decided, DueJob, SetAside
from duetime.model.job import Options, encode_options
from duetime.model.policy import Misfire
from duetime.model.schedule import Every
from duetime.store.protocol.store import Counts, PlanFires, Scan, Store
from tests.contract.conftest import on_postgres, on_sqlite
from tests.contract.hands import TENANT, job, submit
from tests.contract.worlds import Time

MINUTE = timedelta(minutes=1)


async def test_one_transaction_holds_only_so_many_missed_occurrences(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a long outage every job has missed hundreds: they are written in several transactions."""
    monkeypatch.setattr(engine_scanner, "_PLAN_FOR", 60.0)  # a busy machine may take longer than it should
    await submit(store, *(job(Every(MINUTE)) for _ in range(15)))
    time.advance(hours=10)
    scanner = Scanner(store)
    assert await scanner.tick() == 0.0, "it goes on at once"
    first = await store.reads.counts()
    assert (first.runs, 2000 <= first.history <= 2200) == (10, True)
    await scanner.tick()
    assert (await store.reads.counts()).runs == 15


async def test_one_transaction_catches_up_with_only_so_many(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_scanner, "_PLAN_FOR", 60.0)
    monkeypatch.setattr(engine_scanner, "_MOST_MISSED", 200)
    every = encode_options(Options(misfire=Misfire("all")))
    await submit(store, *(job(Every(MINUTE), options=every) for _ in range(5)))
    time.advance(hours=2)
    scanner = Scanner(store)
    assert await scanner.tick() == 0.0, "it goes on at once"
    assert (await store.reads.counts()).runs == 200
    await scanner.tick()
    await scanner.tick()
    assert (await store.reads.counts()).runs == 500


async def test_one_transaction_is_planned_only_for_so_long(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that moves by a tenth of a second whenever it is asked: three jobs are too slow for one transaction."""
    await submit(store, *(job(Every(MINUTE)) for _ in range(5)))
    time.advance(minutes=1)
    asked = count()
    monkeypatch.setattr(engine_scanner, "monotonic", lambda: next(asked) / 10)
    scanner = Scanner(store)
    assert await scanner.tick() == 0.0
    assert (await store.reads.counts()).runs == 3
    await scanner.tick()
    assert (await store.reads.counts()).runs == 5


async def test_a_batch_that_the_database_cannot_take_is_halved_and_grows_again(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit(store, *(job(Every(MINUTE)) for _ in range(40)))
    time.advance(minutes=1)
    limits: list[int] = []
    fire_due = store.firing.fire_due

    async def only_ten(limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
        limits.append(limit)
        if limit > 10:
            raise StoreUnavailable("it took too long")
        return await fire_due(limit, plan, without)

    monkeypatch.setattr(store.firing, "fire_due", only_ten)
    scanner = Scanner(store, batch=40)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await scanner.tick()
    assert await scanner.tick() == 0.0
    assert limits == [40, 20, 10]
    assert (await store.reads.counts()).runs == 10
    monkeypatch.setattr(store.firing, "fire_due", fire_due)
    while (await store.reads.counts()).runs < 40:
        await scanner.tick()


async def test_many_that_wait_are_fired_once_each_also_some_batches_at_once(store: Store, time: Time) -> None:
    jobs = [(await submit(store, job(Every(MINUTE)))).job_id for _ in range(47)]
    time.advance(minutes=1)
    scanner = Scanner(store, batch=10)
    ticks = 0
    while await scanner.tick() == 0.0:
        ticks += 1
    assert ticks <= 6
    assert [len(await store.reads.runs_of_job(TENANT, job_id)) for job_id in jobs] == [1] * len(jobs)


@on_postgres
class TestBatchesInARow:
    """What waits is fired by some batches at once, on a store that is no file."""

    @pytest.fixture(autouse=True)
    async def many_wait(self, store: Store, time: Time) -> None:
        await submit(store, *(job(Every(MINUTE)) for _ in range(20)))
        time.advance(minutes=1)

    async def test_one_looks_when_the_one_before_has_seen(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        told: list[str] = []
        under_way: set[int] = set()
        fire_due, numbers = store.firing.fire_due, count()

        async def slowly(limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
            number = next(numbers)
            told.append(f"{number} looks")
            under_way.add(number)
            assert len(under_way) <= engine_scanner._AT_ONCE

            def planning(due: Sequence[DueJob], now: datetime) -> Sequence[Decided]:
                told.append(f"{number} has seen")
                return plan(due, now)

            try:
                return await fire_due(limit, planning, without)
            finally:
                under_way.remove(number)

        monkeypatch.setattr(store.firing, "fire_due", slowly)
        await Scanner(store, batch=4).tick()
        assert (await store.reads.counts()).runs == 20
        assert told[:10] == [f"{number} {what}" for number in range(5) for what in ("looks", "has seen")]
        assert told[10:] == ["5 looks"], "and found nothing"

    async def test_what_others_did_is_told_when_one_fails(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        fire_due, asked = store.firing.fire_due, count()

        async def third_fails(limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
            if next(asked) == 2:
                raise StoreUnavailable("gone")
            scan = await fire_due(limit, plan, without)
            return msgspec.structs.replace(scan, set_aside=(SetAside(new_id(), "it cannot be read"),))

        monkeypatch.setattr(store.firing, "fire_due", third_fails)
        with pytest.raises(StoreUnavailable, match="gone"):
            await Scanner(store, batch=1).tick()
        assert next(asked) == 3, "none is begun after it"
        assert caplog.text.count("it cannot be read") == 2
        assert (await store.reads.counts()).runs == 2

    async def test_none_goes_on_when_nothing_could_be_done(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        fire_due, asked = store.firing.fire_due, count()

        async def idly(limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
            next(asked)

            def nothing(due: Sequence[DueJob], now: datetime) -> Sequence[Decided]:
                plan(due, now)
                return []

            return await fire_due(limit, nothing, without)

        monkeypatch.setattr(store.firing, "fire_due", idly)
        await Scanner(store, batch=1).tick()
        assert next(asked) <= engine_scanner._AT_ONCE + 1

    async def test_a_tick_that_is_cancelled_leaves_nothing_behind(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ended: list[str] = []

        async def for_ever(limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("cancelled")
            raise AssertionError

        monkeypatch.setattr(store.firing, "fire_due", for_ever)
        tick = asyncio.create_task(Scanner(store).tick())
        await asyncio.sleep(0.05)
        tick.cancel()
        with pytest.raises(asyncio.CancelledError):
            await tick
        assert ended == ["cancelled"]


@on_sqlite
async def test_a_batch_on_a_file_is_cut_smaller_while_others_wait_for_the_file(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit(store, *(job(Every(MINUTE)) for _ in range(1000)))
    time.advance(minutes=1)
    limits: list[int] = []
    others_wait = True
    fire_due = store.firing.fire_due

    async def slow(limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
        limits.append(limit)
        return msgspec.structs.replace(await fire_due(limit, plan, without), kept_waiting=others_wait)

    monkeypatch.setattr(store.firing, "fire_due", slow)
    asked = count()
    monkeypatch.setattr(engine_scanner, "monotonic", lambda: next(asked) / 10)
    monkeypatch.setattr(engine_scanner, "_PLAN_FOR", 1e9)
    scanner = Scanner(store, batch=200)
    for _ in range(4):
        await scanner.tick()
    assert limits == [200, 100, 50, 50]
    others_wait = False
    for _ in range(4):
        await scanner.tick()
    assert limits[4:] == [50, 100, 200, 200]


@on_sqlite
async def test_a_file_says_whether_others_wait_for_it(store: Store, time: Time) -> None:
    await submit(store, job(Every(MINUTE)))
    time.advance(minutes=1)
    waiting: list[asyncio.Task[Counts]] = []
    loop = asyncio.get_running_loop()
    queued = Event()

    def ask() -> None:
        waiting.append(loop.create_task(store.reads.counts()))
        loop.call_soon(queued.set)

    def plan(due: Sequence[DueJob], now: datetime) -> list[Decided]:
        loop.call_soon_threadsafe(ask)
        assert queued.wait(10)
        return []

    assert (await store.firing.fire_due(10, plan)).kept_waiting
    await waiting[0]
    assert not (await store.firing.fire_due(10, lambda due, now: [])).kept_waiting
