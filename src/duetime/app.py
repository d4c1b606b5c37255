"""App: what a Python developer writes on day one.

    app = duetime.App()

    @app.task(retries=3, timeout="30s")
    async def send_report(to: str) -> str: ...

    await send_report.submit(to="ops@example.com", run_in="10m")

An app knows its tasks and where its jobs live. It connects when it is first used, once for each event loop. The
database is `DUETIME_DATABASE_URL`, or an SQLite file in the data folder.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload
from weakref import WeakKeyDictionary

from duetime import ids
from duetime.clock import monotonic
from duetime.engine.intake import Intake, prepare
from duetime.errors import InvalidInput, NotFound
from duetime.model.attempt import Run
from duetime.model.job import DEFAULT_OPTIONS, DEFAULT_QUEUE, DEFAULT_TENANT, Job, NewJob, Submitted
from duetime.model.retry import RetryPolicy
from duetime.model.schedule import Schedule, make_schedule
from duetime.receipt import Receipt
from duetime.settings import Settings, load
from duetime.store.opening import open_ready, store_for
from duetime.store.protocol import Store
from duetime.task import (
    Defaults,
    Delivery,
    Duration,
    Priority,
    Task,
    check_delivery,
    check_duration,
    check_tier,
    make_definition,
    make_options,
)

if TYPE_CHECKING:
    from duetime.sync import SyncApp

P = ParamSpec("P")
R = TypeVar("R")
TaskLike = Task[..., Any] | str
StartHook = Callable[[], Awaitable[object]]


class App:
    """A set of tasks, and the place where their jobs live."""

    def __init__(
        self, *, database_url: str | None = None, data_dir: str | Path | None = None, settings: Settings | None = None
    ) -> None:
        self._given = {"database_url": database_url, "data_dir": data_dir}
        self._settings = settings
        self._tasks: dict[str, Task[..., Any]] = {}
        self._stores: WeakKeyDictionary[asyncio.AbstractEventLoop, Store] = WeakKeyDictionary()
        self._opening: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._embedded: Store | None = None
        self._borrowed: Store | None = None
        self._start_hooks: list[StartHook] = []
        self._sync: SyncApp | None = None

    # Tasks.

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: Priority = "MEDIUM",
        retries: int | None = None,
        retry: RetryPolicy | None = None,
        timeout: Duration | None = None,
        delivery: Delivery = "at_least_once",
        process: bool = False,
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, *function: Any, **options: Any) -> Any:
        """Make a function a task. Async functions run on the event loop, plain ones in threads, and those with
        `process=True` in a process of their own."""

        def decorate(function: Callable[..., Any]) -> Task[..., Any]:
            return self._add(function, **options)

        return decorate(*function) if function else decorate

    def on_start(self, hook: StartHook) -> StartHook:
        """Call this async function whenever a node or a worker with this app has started: the place to schedule what
        shall always be scheduled, with `key=`, so that any number of starts leave one job."""
        self._start_hooks.append(hook)
        return hook

    async def started(self) -> None:
        """Call the start hooks."""
        for hook in self._start_hooks:
            await hook()

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        return self._tasks

    # Jobs.

    async def submit(
        self,
        task: TaskLike,
        *,
        run_at: datetime | str | None = None,
        run_in: Duration | None = None,
        args: Mapping[str, Any] | None = None,
        connection: object = None,
        **options_and_arguments: Any,
    ) -> Receipt:
        """Run a task once: now, at `run_at`, or after `run_in`.

        Options: `key` (one live job of that name: the same again changes nothing), `idempotency_key`, `queue`,
        `priority`, `retries`, `retry`, `timeout`, `job_name`, `tags`, `delivery`. Everything else is an argument of the
        task; `args={…}` passes them as a dict. `connection=` takes your own open asyncpg or psycopg connection: the
        job then commits or rolls back with your data.
        """
        job = self._prepare(task, make_schedule(run_at=run_at, run_in=run_in), args, options_and_arguments)
        if connection is not None:
            store = self._guest_store()
            return Receipt.of(Submitted(await store.submit_within(connection, DEFAULT_TENANT, job), None))
        return (await self._store_jobs([job]))[0]

    async def submit_many(
        self,
        task: TaskLike,
        batch: Sequence[Mapping[str, Any]],
        *,
        run_at: datetime | str | None = None,
        run_in: Duration | None = None,
        **options: Any,
    ) -> list[Receipt]:
        """Run a task once for each set of arguments; all are stored in one transaction, or none."""
        schedule = make_schedule(run_at=run_at, run_in=run_in)
        jobs = []
        drawn = ids.new_ids(len(batch))
        for index, arguments in enumerate(batch):
            try:
                jobs.append(self._prepare(task, schedule, arguments, options, job_id=drawn[index]))
            except InvalidInput as error:
                field = f"batch[{index}].{error.field}" if error.field else f"batch[{index}]"
                raise InvalidInput(error.message, field=field, remedy=error.remedy) from None
        return await self._store_jobs(jobs)

    async def schedule(
        self,
        task: TaskLike,
        *,
        cron: str | None = None,
        every: Duration | None = None,
        tz: str | None = None,
        start_at: datetime | str | None = None,
        args: Mapping[str, Any] | None = None,
        **options_and_arguments: Any,
    ) -> Receipt:
        """Run a task again and again, on a cron line or at an interval. With `key=`, scheduling the same thing twice
        leaves one job, and scheduling something else under the key replaces it."""
        if cron is None and every is None:
            raise InvalidInput("says neither cron nor every", field="cron", remedy="give one, or use submit")
        schedule = make_schedule(cron=cron, every=every, tz=tz, start_at=start_at)
        return (await self._store_jobs([self._prepare(task, schedule, args, options_and_arguments)]))[0]

    async def cancel(self, job_id: str) -> Job:
        """No further run of this job; a run that waits is cancelled, one that is running is asked to stop."""
        return await (await self.store()).cancel_job(DEFAULT_TENANT, ids.parse("job", job_id))

    async def cancel_run(self, run_id: str) -> Run:
        """Cancel a run that waits, or ask a running one to stop."""
        return await (await self.store()).cancel_run(DEFAULT_TENANT, ids.parse("run", run_id))

    async def job(self, job_id: str) -> Job:
        return await (await self.store()).job(DEFAULT_TENANT, ids.parse("job", job_id))

    async def run(self, run_id: str) -> Run:
        """A run, with its attempts."""
        return await (await self.store()).run(DEFAULT_TENANT, ids.parse("run", run_id))

    async def runs(self, job_id: str, limit: int = 100) -> list[Run]:
        """The runs of a job, newest first."""
        return await (await self.store()).runs_of_job(DEFAULT_TENANT, ids.parse("job", job_id), limit)

    async def wait(self, receipt: Receipt | str, timeout: Duration | None = None) -> Run:
        """Wait until the newest run of a job has ended; raises `TimeoutError` when that takes too long."""
        job_id = receipt if isinstance(receipt, str) else receipt.job_id
        seconds = None if timeout is None else check_duration(timeout, "timeout").total_seconds()
        deadline = None if seconds is None else monotonic() + seconds
        pause = 0.005
        while True:
            runs = await self.runs(job_id, 1)
            if runs and runs[0].state.is_end:
                return runs[0]
            if not runs:
                await self.job(job_id)  # raises NotFound for a job that does not exist
            if deadline is not None and monotonic() + pause > deadline:
                raise TimeoutError(f"{job_id} has not ended within {seconds:g} s")
            await asyncio.sleep(pause)
            pause = min(0.25, pause * 1.5)

    # The connection.

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            self._settings = load(None, os.environ, self._given)
        return self._settings

    def configure(self, settings: Settings) -> None:
        """Use these settings from now on: what a command was given is stronger than what the app was made with."""
        self._settings = settings

    @property
    def sync(self) -> "SyncApp":
        """The same app for code that is not async: scripts, and web applications that use threads."""
        if self._sync is None:
            from duetime.sync import SyncApp

            self._sync = SyncApp(self)
        return self._sync

    async def store(self) -> Store:
        """The open store: one for each event loop, or one for all where the database is an embedded file."""
        loop = asyncio.get_running_loop()
        async with self._opening.setdefault(loop, asyncio.Lock()):
            found = self._embedded or self._stores.get(loop)
            if found is None:
                found = store_for(self.settings)
                await open_ready(found, self.settings)
                self._keep(found)
        return found

    def use(self, store: Store) -> None:
        """Use this open store from now on (on this event loop, if it is not embedded); whoever opened it closes it."""
        self._borrowed = store
        self._keep(store)

    def _keep(self, store: Store) -> None:
        if store.embedded:
            self._embedded = store
        else:
            self._stores[asyncio.get_running_loop()] = store

    async def close(self) -> None:
        """Let go of the connection that this event loop has made."""
        store, self._embedded = self._embedded or self._stores.pop(asyncio.get_running_loop(), None), None
        if store is not None and store is not self._borrowed:
            await store.close()
        self._borrowed = None

    async def __aenter__(self) -> "App":
        await self.store()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Inside.

    def _add(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        queue: str = DEFAULT_QUEUE,
        priority: Priority = "MEDIUM",
        retries: int | None = None,
        retry: RetryPolicy | None = None,
        timeout: Duration | None = None,
        delivery: Delivery = "at_least_once",
        process: bool = False,
    ) -> Task[..., Any]:
        check_delivery(delivery)
        definition = make_definition(name, function, process=process)
        if definition.name in self._tasks:
            raise InvalidInput(f"there is a task {definition.name!r} already", field="task", remedy="give it a name=")
        options = make_options(DEFAULT_OPTIONS, retries=retries, retry=retry, delivery=delivery)
        limit = None if timeout is None else check_duration(timeout, "timeout")
        task = Task(self, definition, Defaults(queue, check_tier(priority), limit, options), function)
        self._tasks[definition.name] = task
        return task

    def _find(self, task: TaskLike) -> Task[..., Any]:
        name = task.name if isinstance(task, Task) else task
        found = self._tasks.get(name)
        if found is None:
            known = ", ".join(sorted(self._tasks)) or "none"
            raise NotFound(f"there is no task {name!r} in this app", field="task", remedy=f"it has: {known}")
        return found

    def _prepare(
        self,
        task: TaskLike,
        schedule: Schedule,
        args: Mapping[str, Any] | None,
        given: Mapping[str, Any],
        job_id: Any = None,
    ) -> NewJob:
        found = self._find(task)
        defaults = found.defaults
        options, arguments = _split(given)
        if args is not None:
            if arguments:
                raise InvalidInput(
                    "pass arguments by name or as args=, not both", field=f"args.{next(iter(arguments))}"
                )
            arguments = dict(args)
        found.definition.check_args(arguments)
        queue, priority, timeout = (
            options.pop("queue", None),
            options.pop("priority", None),
            options.pop("timeout", None),
        )
        key, idempotency_key = options.get("key"), options.pop("idempotency_key", None)
        return prepare(
            task=found.name,
            args=arguments,
            max_payload=self.settings.max_payload,
            schedule=schedule,
            queue=defaults.queue if queue is None else queue,
            tier=defaults.tier if priority is None else check_tier(priority),
            options=make_options(defaults.options, **options) if options else defaults.options,
            timeout=defaults.timeout if timeout is None else check_duration(timeout, "timeout"),
            key=key,
            idempotency_key=idempotency_key,
            job_id=job_id,
        )

    async def _store_jobs(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        return [Receipt.of(answer) for answer in await Intake(await self.store()).submit(jobs)]

    def _guest_store(self) -> Store:
        """A store that only works on the caller's connection needs none of its own."""
        if self._embedded is not None or self.settings.sqlite_file is not None:
            raise InvalidInput(
                "submitting inside a transaction needs PostgreSQL, and this app uses an SQLite file",
                field="connection",
                remedy="set DUETIME_DATABASE_URL",
            )
        return store_for(self.settings)


_OPTIONS = frozenset(
    {"key", "idempotency_key", "queue", "priority", "retries", "retry", "timeout", "job_name", "tags", "delivery"}
)


def _split(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options and arguments, apart."""
    if _OPTIONS.isdisjoint(given):
        return {}, dict(given)
    options = {name: value for name, value in given.items() if name in _OPTIONS}
    return options, {name: value for name, value in given.items() if name not in _OPTIONS}
