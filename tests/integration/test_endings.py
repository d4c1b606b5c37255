"""However an attempt ends, it is reported, and its slot is free again."""

import asyncio
import time
from datetime import timedelta
from pathlib import Path

import duetime
from duetime.node.assembly import make_worker
from duetime.worker.store_source import StoreSource
from tests.support.waiting import eventually
from tests.support.working import quick_settings, working


def file_app(folder: Path) -> duetime.App:
    return duetime.App(settings=quick_settings(f"sqlite:///{folder}/duetime.db"))


async def test_a_reason_that_is_no_text_and_an_error_of_any_kind_end_the_run(tmp_path: Path) -> None:
    app = file_app(tmp_path)

    class Odd(BaseException):
        pass

    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    @app.task(name="gives-up", retries=0)
    async def gives_up() -> None:
        raise duetime.GiveUp(ValueError("boom"))  # type: ignore[arg-type]

    @app.task(name="gives-up-in-a-thread", retries=0)
    def gives_up_in_a_thread() -> None:
        raise duetime.GiveUp(ValueError("boom"))  # type: ignore[arg-type]

    @app.task(name="odd", retries=0)
    async def odd() -> None:
        raise Odd

    @app.task(name="unspeakable", retries=0)
    async def unspeakable() -> None:
        raise Unspeakable

    async with working(app):
        for task in (gives_up, gives_up_in_a_thread, odd, unspeakable):
            run = await app.wait(await task.submit(), timeout="10s")
            assert run.state is duetime.RunState.FAILED, task


async def test_a_policy_that_cannot_be_computed_with_still_ends_or_retries(tmp_path: Path) -> None:
    app = file_app(tmp_path)

    @app.task(name="huge", retry=duetime.RetryPolicy(retries=1, base=1e15, cap=1e15))
    async def huge() -> None:
        raise ValueError

    @app.task(name="steep", retry=duetime.RetryPolicy(retries=70, base=1e-9, factor=1e6, cap=0.0001))
    async def steep() -> None:
        raise ValueError

    async with working(app):
        waiting = await huge.submit()
        ended = await app.wait(await steep.submit(), timeout="30s")
        assert (ended.state, ended.attempt) == (duetime.RunState.FAILED, 71)
        (run,) = await app.runs(waiting)
        assert run.state is duetime.RunState.RETRYING


async def test_progress_with_half_a_character_stops_nobody(tmp_path: Path) -> None:
    app = file_app(tmp_path)

    @app.task(name="tell")
    async def tell(ctx: duetime.Context) -> str:
        ctx.progress(0.5, "file \udcff.txt\x00")
        await asyncio.sleep(1.2)
        return "told"

    async with working(app):
        run = await app.wait(await tell.submit(), timeout="10s")
        assert run.value == "told"


async def test_whoever_looks_on_costs_no_slot(tmp_path: Path) -> None:
    app = file_app(tmp_path)

    @app.task(name="quick")
    async def quick() -> None: ...

    def broken(*_: object) -> None:
        raise BrokenPipeError

    store = await app.store()
    worker = make_worker(app, StoreSource(store), app.settings, observe=broken)
    running = asyncio.create_task(worker.run())
    await app.submit_many([quick.bind()] * 500)
    await eventually(lambda: worker.completed == 500)
    worker.stop()
    await running
    await app.close()


async def test_full_slots_in_one_place_do_not_starve_another(tmp_path: Path) -> None:
    app = file_app(tmp_path)

    @app.task(name="slow")
    async def slow() -> None:
        await asyncio.sleep(3600)

    @app.task(name="plain")
    def plain() -> int:
        return 1

    async with working(app, slots=5, grace=timedelta(milliseconds=100)):
        await app.submit_many([slow.bind()] * 50)
        await eventually(lambda: _running(app, 5))
        assert (await app.wait(await plain.submit(), timeout="10s")).value == 1


async def test_what_shall_never_start_twice_does_not_after_a_shutdown(tmp_path: Path) -> None:
    app = file_app(tmp_path)
    starts: list[float] = []

    @app.task(name="charge", delivery="at_most_once")
    def charge() -> None:
        starts.append(time.monotonic())
        time.sleep(4)

    async with working(app, grace=timedelta(milliseconds=100)):
        receipt = await charge.submit()
        await eventually(lambda: starts)
    async with working(app):
        run = await app.wait(receipt, timeout="20s")
        assert (run.state, len(starts)) == (duetime.RunState.FAILED, 1)


async def _running(app: duetime.App, count: int) -> bool:
    workers = await (await app.store()).reads.counts()
    return workers.runs >= count
