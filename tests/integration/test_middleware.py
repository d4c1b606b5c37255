"""Middleware runs around each attempt, wherever the function runs, in order, and with the same context variables."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from threading import Lock
from typing import Any

import pytest

from duetime import App, BaseContext, Context, GiveUp, InvalidInput, RunState, SyncContext, current_context
from duetime.model.access import Role
from tests.support import surrounded
from tests.support.served import serving
from tests.support.surrounded import plain_step, seen, step
from tests.support.working import ended, remote_worker, working

PLACES = ["in_the_loop", "in_a_thread", "in_a_process", "async_in_a_process"]


def add_tasks(app: App) -> None:
    @app.task(name="in_the_loop", retries=0)
    async def in_the_loop(fails: bool = False) -> list[str]:
        await asyncio.sleep(0)
        return surrounded.look(fails)

    @app.task(name="in_a_thread", retries=0)
    def in_a_thread(fails: bool = False) -> list[str]:
        return surrounded.look(fails)


def add_process_tasks(app: App) -> None:
    app.task(name="in_a_process", retries=0, process=True)(surrounded.look)
    app.task(name="async_in_a_process", retries=0, process=True)(surrounded.async_look)


@pytest.mark.parametrize("remote", [False, True], ids=["beside the store", "over HTTP"])
async def test_a_task_sees_what_its_middleware_has_set(app: App, remote: bool) -> None:
    add_tasks(app)
    add_process_tasks(app)
    app.middleware(step)
    app.middleware(plain_step)
    async with serving(await app.store(), app.settings) as served:
        key = await served.key(Role.WORKER)
        async with remote_worker(app, served.url, key) if remote else working(app):
            receipts = {place: await app.submit(place) for place in PLACES}
            for place, receipt in receipts.items():
                run = await ended(app, receipt)
                assert run.value == [f"async {place}", f"plain {place}"], "in the order of their registration"
    assert seen.get([]) == []


async def test_what_is_set_for_one_attempt_is_not_seen_by_the_next(app: App) -> None:
    @app.task(name="look")
    async def look() -> list[str]:
        return surrounded.look(False)

    app.middleware(plain_step)
    async with working(app, slots=1):
        receipts = await app.submit_many([look.bind() for _ in range(20)])
        assert [(await ended(app, each)).value for each in receipts] == [["plain look"]] * 20


@pytest.mark.parametrize("place", ["in_the_loop", "in_a_thread"])
async def test_a_middleware_sees_the_end(app: App, place: str) -> None:
    add_tasks(app)
    told: list[Any] = []

    @app.middleware
    def outer(ctx: BaseContext) -> Iterator[None]:
        assert ctx is current_context() and isinstance(ctx, Context if place == "in_the_loop" else SyncContext)
        try:
            told.append((yield))
        except GiveUp as error:
            told.append(("outer", error.reason))
            raise

    @app.middleware
    async def inner(ctx: BaseContext) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        try:
            told.append((yield))
        except LookupError as error:
            await asyncio.sleep(0)
            told.append(("inner", str(error)))
            raise GiveUp("another reason") from error

    async with working(app):
        assert (await ended(app, await app.submit(place))).state is RunState.SUCCEEDED
        run = await ended(app, await app.submit(place, {"fails": True}))
    assert (run.state, run.attempts[-1].error) == (RunState.FAILED, "another reason")
    assert told == [[], [], ("inner", "no such card"), ("outer", "another reason")]


def swallows(ctx: BaseContext) -> Iterator[None]:
    with contextlib.suppress(LookupError):
        yield


async def async_swallows(ctx: BaseContext) -> AsyncIterator[None]:
    with contextlib.suppress(LookupError):
        yield


def before(ctx: BaseContext) -> Iterator[None]:
    raise ValueError("before")
    yield


def after(ctx: BaseContext) -> Iterator[None]:
    yield
    raise ValueError("after")


async def async_after(ctx: BaseContext) -> AsyncIterator[None]:
    yield
    raise ValueError("after")


def twice(ctx: BaseContext) -> Iterator[None]:
    yield
    yield


async def async_twice(ctx: BaseContext) -> AsyncIterator[None]:
    yield
    yield


def never(ctx: BaseContext) -> Iterator[None]:
    if ctx is None:
        yield


@pytest.mark.parametrize(
    ("middleware", "fails", "error"),
    [
        (swallows, True, "LookupError: no such card"),
        (async_swallows, True, "LookupError: no such card"),
        (before, False, "ValueError: before"),
        (after, False, "ValueError: after"),
        (async_after, False, "ValueError: after"),
        (twice, False, "RuntimeError: the middleware twice has more than one yield"),
        (async_twice, False, "RuntimeError: the middleware async_twice has more than one yield"),
        (never, False, "RuntimeError: the middleware never ended without a yield"),
    ],
)
async def test_an_attempt_fails_with_its_middleware(
    app: App, middleware: Callable[[BaseContext], Any], fails: bool, error: str
) -> None:
    add_tasks(app)
    app.middleware(middleware)
    async with working(app):
        for place in ("in_the_loop", "in_a_thread"):
            run = await ended(app, await app.submit(place, {"fails": fails}))
            assert run.state is RunState.FAILED
            assert error in (run.attempts[-1].error or "")


async def test_a_child_process_gets_the_object_of_a_method_and_the_arguments_of_a_partial(app: App) -> None:
    add_process_tasks(app)
    app.middleware(surrounded.Step("method").around)
    app.middleware(partial(surrounded.named_step, "partial"))
    app.middleware(surrounded.Step.of_class)
    async with working(app):
        run = await ended(app, await app.submit("in_a_process"))
    assert run.value == ["method in_a_process", "partial in_a_process", "class in_a_process"]


def local() -> Callable[[BaseContext], Iterator[None]]:
    def inner(ctx: BaseContext) -> Iterator[None]:
        yield

    return inner


@pytest.mark.parametrize("middleware_first", [True, False])
@pytest.mark.parametrize(
    ("middleware", "reason"),
    [
        (local(), "middleware: local.<locals>.inner is defined inside another function, .* at the top level"),
        (partial(local()), "middleware: .* cannot be pickled for the processes of tasks with process=True: .*local"),
        (surrounded.Step(Lock()).around, "middleware: .* cannot be pickled for .*_thread.lock.* __reduce__"),
    ],
)
def test_a_child_process_must_be_able_to_find_it(
    app: App, middleware: Callable[[BaseContext], Any], reason: str, middleware_first: bool
) -> None:
    steps = [partial(app.middleware, middleware), partial(add_process_tasks, app)]
    first, second = steps if middleware_first else reversed(steps)
    first()
    with pytest.raises(InvalidInput, match=reason):
        second()


async def test_an_object_that_cannot_be_pickled_any_more_fails_the_attempt(app: App) -> None:
    changed = surrounded.Step("before")
    app.middleware(changed.around)
    add_process_tasks(app)
    changed.name = Lock()
    async with working(app):
        run = await ended(app, await app.submit("in_a_process"))
    assert "the middleware Step.around cannot be pickled for a child process: " in (run.attempts[-1].error or "")


def test_a_process_cannot_run_the_method_of_an_object(app: App) -> None:
    with pytest.raises(InvalidInput, match=r"^process: .* is the method of an object"):
        app.task(process=True)(surrounded.Step("a").task)


async def test_a_middleware_is_stopped_like_a_task(app: App) -> None:
    entered, closed = asyncio.Event(), []

    @app.task(name="quick", retries=0)
    async def quick() -> None: ...

    @app.middleware
    async def slow(ctx: BaseContext) -> AsyncIterator[None]:
        entered.set()
        try:
            await asyncio.Event().wait()
            yield
        finally:
            closed.append(ctx.attempt)

    async with working(app):
        receipt = await quick.submit()
        await entered.wait()
        await app.cancel(receipt)
        run = await ended(app, receipt)
    assert (run.state, closed) == (RunState.CANCELLED, [1])


def test_a_middleware_is_a_generator(app: App) -> None:
    with pytest.raises(
        InvalidInput, match=r"^middleware: .* is not a generator function \(write def or async def with"
    ):

        @app.middleware
        async def onion(ctx: BaseContext, call_next: Any) -> Any:
            return await call_next(ctx)
