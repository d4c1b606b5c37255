"""App: the entry point of the SDK.

    app = duetime.App()

    @app.task(retries=3, timeout="30s")
    async def send_report(to: str) -> str: ...

    await send_report.submit(to="ops@example.com")
    await send_report.options(run_in="10m").submit(to="ops@example.com")

An app knows its tasks and where its jobs are stored. It connects on first use, once per event loop: to the server in
`DUETIME_URL`, to the database in `DUETIME_DATABASE_URL`, or to an SQLite file in the data folder.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from duetime.errors import InvalidInput
from duetime.sdk.blocking import SyncApp
from duetime.sdk.open_stores import Stores
from duetime.sdk.submission import Submission
from duetime.sdk.task import (
    Anything,
    AsyncFunction,
    AsyncFunctionWithContext,
    Function,
    FunctionWithContext,
    Task,
    TaskDecorator,
    make_task,
)
from duetime.settings import Settings, load
from duetime.spec.options import TaskOptions
from duetime.store.protocol.store import Store
from duetime.worker.context import Context, SyncContext
from duetime.worker.hooks import FailedAttempt, Hooks, SucceededAttempt
from duetime.worker.middleware import Middleware, check_carried, check_middleware
from duetime.worker.task import Place

P = ParamSpec("P")
R = TypeVar("R")
StartHook = Callable[[], Awaitable[object]]
SuccessHook = TypeVar("SuccessHook", bound=Callable[[SucceededAttempt[Any]], object])
FailureHook = TypeVar("FailureHook", bound=Callable[[FailedAttempt], object])
Around = TypeVar("Around", bound=Middleware)


class App(Submission):
    """A set of tasks, and the connection to their jobs."""

    def __init__(
        self,
        *,
        database_url: str | None = None,
        data_dir: str | Path | None = None,
        url: str | None = None,
        key: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        """`database_url` and `data_dir` name a database, `url` and `key` a server. What is omitted comes from the
        settings (`DUETIME_DATABASE_URL`, `DUETIME_URL`, …). `settings` replaces all of them."""
        self._given = {"database_url": database_url, "data_dir": data_dir, "url": url, "key": key}
        single = [name for name, value in self._given.items() if value is not None]
        if settings is not None and single:
            raise InvalidInput("cannot be combined with `settings`", field=single[0], remedy="put it into the settings")
        self._settings = settings
        self._tasks: dict[str, Task[..., Any]] = {}
        self._stores = Stores(lambda: self.settings)
        self._start_hooks: list[StartHook] = []
        self.hooks = Hooks()
        """Called after the attempts of all tasks."""
        self.middlewares: list[Middleware] = []
        """Around the attempts of all tasks; the first is the outermost."""
        self._sync = SyncApp(self, self.close)

    # Tasks.

    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Anything, ...], Coroutine[Any, Any, R]], /
    ) -> AsyncFunction[..., R]: ...
    @overload
    def task(self, function: Callable[Concatenate[Anything, ...], R], /) -> Function[..., R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncFunctionWithContext[P, R]: ...
    @overload
    def task(self, function: Callable[Concatenate[SyncContext, P], R], /) -> FunctionWithContext[P, R]: ...
    @overload
    def task(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncFunction[P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Function[P, R]: ...
    @overload
    def task(
        self, *, name: str | None = None, process: bool = False, **options: Unpack[TaskOptions]
    ) -> TaskDecorator: ...

    def task(self, *function: Any, **options: Any) -> Any:
        """Make a function a task. Async functions run on the event loop, others in threads, or with `process=True` in
        their own process."""

        def decorate(function: Callable[..., Any]) -> Task[..., Any]:
            task = make_task(self, function, **options)
            if task.name in self._tasks:
                raise InvalidInput(f"the task {task.name!r} already exists", field="task", remedy="give it a name=")
            self._tasks[task.name] = task
            return task

        return decorate(*function) if function else decorate

    def on_start(self, hook: StartHook) -> StartHook:
        """Call this async function after each start of a node or worker with this app. Use it to schedule permanent
        jobs: with `key=`, any number of starts leave one job."""
        if not inspect.iscoroutinefunction(hook):
            raise InvalidInput(f"{hook!r} is not an async function", field="on_start", remedy="write async def")
        self._start_hooks.append(hook)
        return hook

    # Hooks. Plain functions are called in threads. A hook has 30 seconds; an exception is logged and has no other
    # effect. The methods of a task with the same names add hooks for that task only.

    def on_success(self, hook: SuccessHook) -> SuccessHook:
        """Call this function with a `SucceededAttempt` after each attempt that succeeded in a worker with this app."""
        self.hooks.add("on_success", hook)
        return hook

    def on_retry(self, hook: FailureHook) -> FailureHook:
        """Call this function with a `FailedAttempt` after each failed attempt whose run is tried again."""
        self.hooks.add("on_retry", hook)
        return hook

    def on_failure(self, hook: FailureHook) -> FailureHook:
        """Call this function with a `FailedAttempt` after each failed attempt that ends its run, for example to report
        it to an error tracker. The failure is always logged."""
        self.hooks.add("on_failure", hook)
        return hook

    def middleware(self, function: Around) -> Around:
        """Run this generator function around each attempt of this app's tasks: what it does before its `yield` happens
        before the function, the rest after it. It gets the context of the attempt."""
        check_middleware(function)
        if any(task.definition.place is Place.PROCESS for task in self._tasks.values()):
            check_carried(function)
        self.middlewares.append(function)
        return function

    async def started(self) -> None:
        """Call the start hooks."""
        for hook in self._start_hooks:
            await hook()

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        return self._tasks

    # The connection.

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = load(None, os.environ, self._given)
        return self._settings

    def configure(self, settings: Settings) -> None:
        """Use these settings from now on. The arguments of a command take precedence over those of the app."""
        self._settings = settings

    @property
    def sync(self) -> SyncApp:
        """The blocking methods of the app, for scripts and threaded web applications."""
        return self._sync

    async def store(self) -> Store:
        """The open store: one per event loop, or one for all if the database is an embedded file."""
        return await self._stores.get()

    def using_store(self, store: Store) -> AbstractContextManager[None]:
        """Use this open store inside the block (on this event loop, if it is not embedded). The caller closes it."""
        return self._stores.using_store(store)

    async def close(self) -> None:
        """Close the connection of this event loop. The next use opens it again."""
        await self._stores.close()

    async def shut_down(self) -> None:
        """Close everything that this app has opened: on this event loop, and for blocking code."""
        await asyncio.to_thread(self._sync.close)
        await self.close()

    async def __aenter__(self) -> Self:
        await self._stores.reach()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
