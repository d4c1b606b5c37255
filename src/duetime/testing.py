"""A test harness: your app on a real store in memory, with a clock that the test moves.

    async with duetime.testing.harness(app) as harness:
        await send_report.options(run_in="10m").submit(to="ops@example.com")
        harness.assert_submitted(send_report.bind(to="ops@example.com"), run_in="10m")
        assert await harness.run_due() == []
        [run] = await harness.advance(minutes=10)
        assert run.state is duetime.RunState.SUCCEEDED

Nothing runs by itself. `run_due` and `advance` run the due jobs, and what these submit for now, through the real
scanner and worker. A retry waits until the clock reaches its time. No thread uses the app's own database; after the
block the app is as before. With `eager=True`, a submission returns when everything that is due has run.

`sync_harness` is the same for tests that are not async. With pytest, the fixture `jobs` is either of them.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from typing import Any, Unpack
from uuid import UUID

import msgspec

from duetime.clock import ManualClock, monotonic
from duetime.duration import format_duration
from duetime.engine.scanner import Scanner
from duetime.engine.settler import BATCH
from duetime.errors import InvalidInput
from duetime.model import json
from duetime.model.attempt import Claimed, Completion, Run
from duetime.model.job import DEFAULT_TENANT, NewJob, Submitted, decode_options
from duetime.model.lane import Tier
from duetime.model.run import RunState
from duetime.model.schedule import Once, Schedule, check_moment, same_schedule
from duetime.process.background_loop import BackgroundLoop
from duetime.sdk.app import App
from duetime.sdk.receipt import JobReceipt, receipt_fields
from duetime.sdk.task import Call, Task, check_options
from duetime.spec.derived import OPTIONS
from duetime.spec.kinds import read_duration
from duetime.spec.options import Duration, ScheduleOptions, SubmitOptions
from duetime.spec.resolved import NOTHING_GIVEN, STORED, TIMES, Resolved, resolve
from duetime.store.address import store_in_memory
from duetime.store.protocol.store import Intake, Store
from duetime.store.wrappers.overlay import overlay
from duetime.worker.capacity import WorkerLimits
from duetime.worker.context import current
from duetime.worker.store_source import StoreSource
from duetime.worker.worker import Worker

_FOR_EVER = timedelta(days=1_000_000)
_LOOK = 0.05
"""Seconds between looks at whether anything is still due."""


class AnyOptions(SubmitOptions, ScheduleOptions, total=False):
    """All options of submissions and schedules."""


class Submission(msgspec.Struct, frozen=True):
    """A submission or schedule of the code under test."""

    task: str
    args: dict[str, Any]
    """As the task gets them, without defaults."""
    stored: bytes
    """Their JSON."""
    given: Resolved
    """Its options."""
    receipt: JobReceipt

    @property
    def schedule(self) -> Schedule:
        return self.given.schedule

    @property
    def queue(self) -> str:
        return self.given.queue

    @property
    def priority(self) -> str:
        return Tier(self.given.tier).name

    @property
    def key(self) -> str | None:
        return self.given.options.key

    @property
    def idempotency_key(self) -> str | None:
        return self.given.idempotency_key

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.args.items())
        options = [
            f"{name}={value!r}"
            for name, value, usual in (
                ("queue", self.queue, "default"),
                ("priority", self.priority, "MEDIUM"),
                ("key", self.key, None),
                ("idempotency_key", self.idempotency_key, None),
            )
            if value != usual
        ]
        return " ".join([f"{self.task}({arguments})", _when(self.schedule), *options])


class Harness:
    """An app under test. Created by `harness`."""

    def __init__(self, app: App, store: Store, clock: ManualClock, *, eager: bool = False) -> None:
        self.eager = eager
        """Whether a submission waits until everything that is due has run. A test may change it."""
        self.clock = clock
        """The store's clock. Only the test moves it."""
        self.submitted: list[Submission] = []
        """Everything that was submitted or scheduled, in order."""
        self._app = app
        self._store = store
        self._scanner = Scanner(store, interval=_FOR_EVER)
        self._one_at_a_time = threading.Lock()

    async def run_due(self, *, timeout: Duration = "10s") -> list[Run]:
        """Run all due jobs, and what they submit for now; returns the ended runs in the order of their due times.

        Raises `TimeoutError`, which names the tasks, if they do not end within `timeout` of real time.
        """
        attempted: dict[UUID, None] = {}
        deadline = monotonic() + read_duration(timeout, "timeout").total_seconds()
        await self._fire()
        while await self._is_due():
            await self._work(attempted, deadline)
            await self._fire()
        runs = [await self._store.reads.run(DEFAULT_TENANT, run_id) for run_id in attempted]
        return sorted((run for run in runs if run.state.is_end), key=lambda run: (run.due_at, run.id))

    async def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        timeout: Duration = "10s",
    ) -> list[Run]:
        """Advance the clock. Jobs that become due on the way run at their own moments. Returns the runs that ended.

        (`clock.advance` jumps instead, as if no node had been running: a recurring job then has one run for all missed
        occurrences.) `timeout` bounds the real time of each moment.
        """
        target = self.clock.now() + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        if target < self.clock.now():
            raise InvalidInput(
                "a clock is not advanced by a negative time", remedy="jobs.clock.move_to(…) puts it back"
            )
        ended = await self.run_due(timeout=timeout)
        while (moment := await self._next_moment()) is not None and moment <= target:
            self.clock.move_to(moment)
            ended += await self.run_due(timeout=timeout)
        self.clock.move_to(target)
        return ended

    async def run_eagerly(self) -> None:
        """Run what is due, unless a task submits: the runner of that task also runs what it submits."""
        if not self.eager or current.get(None) is not None:
            return
        await asyncio.to_thread(self._one_at_a_time.acquire)
        try:
            await self.run_due()
        finally:
            self._one_at_a_time.release()

    def assert_submitted(self, what: Task[..., Any] | Call[Any] | str, /, **options: Unpack[AnyOptions]) -> Submission:
        """Fail unless this was submitted: a task with any arguments, or a call with these arguments; with these
        options, if any are given. Returns the first match."""
        found = self._matching(what, options)
        if not found:
            raise AssertionError(f"{_asked(what, options)} was not submitted.\n{self._listed(what)}")
        return found[0]

    def assert_not_submitted(self, what: Task[..., Any] | Call[Any] | str, /, **options: Unpack[AnyOptions]) -> None:
        """Fail if this was submitted."""
        if self._matching(what, options):
            raise AssertionError(f"{_asked(what, options)} was submitted.\n{self._listed(what)}")

    def _matching(self, what: Task[..., Any] | Call[Any] | str, options: Mapping[str, Any]) -> list[Submission]:
        task, args = _name(what), json.decode(what.encoded()) if isinstance(what, Call) else {}
        if task not in self._app.tasks:
            raise AssertionError(f"there is no task {task!r} in this app; it has: {', '.join(sorted(self._app.tasks))}")
        check_options(options, OPTIONS, self._app.tasks[task])
        expected = resolve(NOTHING_GIVEN, options, now=self.clock.now())
        return [
            item
            for item in self.submitted
            if item.task == task
            and args.items() <= json.decode(item.stored).items()
            and all(_is_same(name, item.given, expected) for name, value in options.items() if value is not None)
        ]

    def _listed(self, what: Task[..., Any] | Call[Any] | str) -> str:
        if not self.submitted:
            return "Nothing was submitted."
        # Submissions of the same task come first.
        ordered = sorted(self.submitted, key=lambda item: item.task != _name(what))
        shown = [f"  {item}" for item in ordered[:20]]
        if len(ordered) > 20:
            shown.append(f"  … and {len(ordered) - 20} more")
        return "\n".join(["Submitted were:", *shown])

    async def _fire(self) -> timedelta:
        """Fire due cursors and settle ends; returns the time until the next fire."""
        while await self._store.graphs.settle(BATCH):
            pass
        while (pause := await self._scanner.tick()) == 0:
            pass
        return timedelta(seconds=pause)

    async def _waiting(self) -> list[datetime]:
        """When the first waiting run of each lane is ready."""
        lanes = [lane.id for lane in await self._store.claims.lanes() if lane.key.task in self._app.tasks]
        return [sight.ready_at[0] for sight in (await self._store.claims.look(lanes, 1)).sights]

    async def _is_due(self) -> bool:
        return any(ready_at <= self.clock.now() for ready_at in await self._waiting())

    async def _next_moment(self) -> datetime | None:
        in_view = await self._fire()
        moments = [moment for moment in await self._waiting() if moment > self.clock.now()]
        if in_view < _FOR_EVER:
            moments.append(self.clock.now() + in_view)
        return min(moments, default=None)

    async def _work(self, attempted: dict[UUID, None], deadline: float) -> None:
        """Run a worker until one attempt has ended, and all others that it has started by then."""
        ended = asyncio.Event()

        def observe(_task: str, claimed: Claimed, _completion: Completion) -> None:
            attempted[claimed.run_id] = None
            ended.set()

        tasks = {name: task.definition for name, task in self._app.tasks.items()}
        settings = self._app.settings
        limits = WorkerLimits(
            lease=_FOR_EVER,
            grace=_FOR_EVER,
            max_result=settings.max_result,
            max_log_lines=settings.max_log_lines,
        )
        worker = Worker(StoreSource(self._store), tasks, limits, observe=observe, hooks=self._app.hooks)
        working = asyncio.create_task(worker.run())
        first = asyncio.create_task(ended.wait())
        try:
            while not (working.done() or first.done()) and (left := deadline - monotonic()) > 0:
                await asyncio.wait({working, first}, timeout=min(_LOOK, left), return_when=asyncio.FIRST_COMPLETED)
                if not await self._is_due():  # the worker has claimed everything, or a limit has postponed the rest
                    break
            worker.stop()
            await asyncio.wait({working}, timeout=deadline - monotonic())
            if not working.done():
                raise TimeoutError(f"not done in time: {', '.join(await self._running()) or 'more and more is due'}")
        finally:
            first.cancel()
            if not working.done():
                worker.stop()
                worker.stop()
            await working

    async def _running(self) -> list[str]:
        jobs = {item.receipt.job_id: None for item in self.submitted}
        runs = [run for job_id in jobs for run in await self._app.runs(job_id)]
        return sorted({run.task for run in runs if run.state is RunState.RUNNING})


@asynccontextmanager
async def harness(app: App, *, start: datetime | str | None = None, eager: bool = False) -> AsyncIterator[Harness]:
    """Use the app on an empty store in memory inside the block. Its clock starts at `start`; by default at the
    beginning of 2026, so that a test has the same calendar on every day. `eager`: a submission returns when everything
    that is due has run."""
    clock = ManualClock() if start is None else ManualClock(check_moment(start, "start"))
    store = store_in_memory(clock)
    made = Harness(app, store, clock, eager=eager)
    store.intake = overlay(store.intake, _Recorder(store.intake, app, made))
    await store.open()
    try:
        await store.migrate()
        with app.using_store(store):
            yield made
    finally:
        await store.close()


class SyncHarness:
    """The harness for tests that are not async: the same methods, which block. Created by `sync_harness`."""

    def __init__(self, harness: Harness, background: BackgroundLoop) -> None:
        self.harness = harness
        self.clock = harness.clock
        self.submitted = harness.submitted
        self.assert_submitted = harness.assert_submitted
        self.assert_not_submitted = harness.assert_not_submitted
        self._background = background

    @property
    def eager(self) -> bool:
        return self.harness.eager

    @eager.setter
    def eager(self, eager: bool) -> None:
        self.harness.eager = eager

    def run_due(self, *, timeout: Duration = "10s") -> list[Run]:
        """See `Harness.run_due`."""
        return self._background.run(self.harness.run_due(timeout=timeout))

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        timeout: Duration = "10s",
    ) -> list[Run]:
        """See `Harness.advance`."""
        advance = self.harness.advance(days=days, hours=hours, minutes=minutes, seconds=seconds, timeout=timeout)
        return self._background.run(advance)


@contextmanager
def sync_harness(app: App, *, start: datetime | str | None = None, eager: bool = False) -> Iterator[SyncHarness]:
    """`harness` for code that is not async: `send_report.sync.submit(…)`, then `jobs.run_due()`."""
    background = BackgroundLoop("the harness", "duetime-harness", _nothing)
    entered = harness(app, start=start, eager=eager)
    try:
        found = background.run(entered.__aenter__())
        try:
            yield SyncHarness(found, background)
        finally:
            background.run(entered.__aexit__(None, None, None))
    finally:
        background.close()


async def _nothing() -> None:
    pass


class _Recorder:
    """The store, with a list of its submissions."""

    def __init__(self, inner: Intake, app: App, harness: Harness) -> None:
        self._inner = inner
        self._app = app
        self._harness = harness

    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        answers = await self._inner.submit(tenant_id, jobs)
        self._harness.submitted += [
            Submission(
                job.lane.task,
                self._arguments(job),
                job.args,
                Resolved(
                    queue=job.lane.queue,
                    tier=Tier(job.lane.tier),
                    timeout_ms=job.timeout_ms,
                    options=decode_options(job.options),
                    schedule=job.schedule,
                    depends_on=job.depends_on,
                    idempotency_key=job.idempotency_key,
                ),
                JobReceipt(*receipt_fields(answer)),
            )
            for job, answer in zip(jobs, answers, strict=True)
        ]
        await self._harness.run_eagerly()
        return answers

    def _arguments(self, job: NewJob) -> dict[str, Any]:
        task = self._app.tasks.get(job.lane.task)
        return json.decode(job.args) if task is None else task.definition.decode(job.args)


def _name(what: Task[..., Any] | Call[Any] | str) -> str:
    return what if isinstance(what, str) else what.task.name if isinstance(what, Call) else what.name


def _is_same(option: str, given: Resolved, expected: Resolved) -> bool:
    """Whether a submission has the expected value of an option."""
    if option in TIMES:
        return given.schedule == expected.schedule or same_schedule(given.schedule, expected.schedule)
    if option == "retries":
        return given.options.retry.retries == expected.options.retry.retries
    if option == "delivery":
        return given.options.at_most_once == expected.options.at_most_once
    if option in STORED:
        return bool(getattr(given.options, option) == getattr(expected.options, option))
    field = {"priority": "tier", "timeout": "timeout_ms"}.get(option, option)
    return bool(getattr(given, field) == getattr(expected, field))


def _asked(what: Task[..., Any] | Call[Any] | str, options: Mapping[str, Any]) -> str:
    named = ", ".join(f"{name}={value!r}" for name, value in options.items())
    shown = repr(what) if isinstance(what, Call) else _name(what)
    return f"{shown} with {named}" if named else shown


def _when(schedule: Schedule) -> str:
    if not isinstance(schedule, Once):
        return str(schedule)
    if schedule.at is not None:
        return f"at {schedule.at.isoformat()}"
    return "now" if schedule.delay is None else f"in {format_duration(schedule.delay)}"
