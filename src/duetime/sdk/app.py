"""App: what a Python developer writes on day one.

    app = duetime.App()

    @app.task(retries=3, timeout="30s")
    async def send_report(to: str) -> str: ...

    await send_report.submit(to="ops@example.com", run_in="10m")

An app knows its tasks and where its jobs live. It connects when it is first used, once for each event loop. The
database is `DUETIME_DATABASE_URL`, or an SQLite file in the data folder.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from duetime import ids
from duetime.clock import monotonic
from duetime.engine.backfill import check_rate, fires_between
from duetime.engine.intake import Intake
from duetime.errors import InvalidInput, NotFound, never_ran
from duetime.model.attempt import Run
from duetime.model.idempotency import keyed_request
from duetime.model.job import DEFAULT_TENANT, Job, JobState, NewJob, Submitted
from duetime.model.policy import Misfire, MisfireMode, Overlap
from duetime.model.schedule import DayMatch, Exclusion, Once, check_moment
from duetime.model.target import Target
from duetime.model.tracing import traced
from duetime.sdk.graph_plan import GraphSubmission
from duetime.sdk.open_stores import Jobs, Stores
from duetime.sdk.receipt import Receipt
from duetime.sdk.submission import check_mapping, check_no_target, make_job, make_target_job, split_options
from duetime.sdk.task import RESERVED, Task, make_task
from duetime.settings import Settings, load
from duetime.spec.derived import OF_SCHEDULES, OF_SUBMISSIONS
from duetime.spec.identity import JobLike, RunLike, identity, job_identity
from duetime.spec.kinds import read_duration
from duetime.spec.options import Duration, TaskOptions
from duetime.spec.resolved import NOTHING_GIVEN, Resolved, is_told_by_day, resolve
from duetime.store.protocol.store import Store
from duetime.targets.validation import TargetRules
from duetime.telemetry.traces import Tracer, make_tracer
from duetime.worker.failures import FailureHook

if TYPE_CHECKING:
    from duetime.sdk.blocking import SyncApp

P = ParamSpec("P")
R = TypeVar("R")
StartHook = Callable[[], Awaitable[object]]
TaskLike = Task[..., Any] | str
TargetLike = Target | Mapping[str, Any]


class App(GraphSubmission):
    """A set of tasks, and the place where their jobs live."""

    def __init__(
        self, *, database_url: str | None = None, data_dir: str | Path | None = None, settings: Settings | None = None
    ) -> None:
        self._given = {"database_url": database_url, "data_dir": data_dir}
        self._settings = settings
        self._tasks: dict[str, Task[..., Any]] = {}
        self._stores = Stores(lambda: self.settings)
        self._start_hooks: list[StartHook] = []
        self._failure_hooks: list[FailureHook] = []
        self._sync: SyncApp | None = None
        self._rules: TargetRules | None = None
        self._traces: Tracer | None = None

    # Tasks.

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self,
        *,
        name: str | None = None,
        process: bool = False,
        **options: Unpack[TaskOptions],
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(self, *function: Any, **options: Any) -> Any:
        """Make a function a task. Async functions run on the event loop, plain ones in threads, and those with
        `process=True` in a process of their own."""

        def decorate(function: Callable[..., Any]) -> Task[..., Any]:
            task = make_task(self, function, **options)
            if task.name in self._tasks:
                raise InvalidInput(f"there is a task {task.name!r} already", field="task", remedy="give it a name=")
            self._tasks[task.name] = task
            return task

        return decorate(*function) if function else decorate

    def on_start(self, hook: StartHook) -> StartHook:
        """Call this async function whenever a node or a worker with this app has started: the place to schedule what
        shall always be scheduled, with `key=`, so that any number of starts leave one job."""
        _check_async(hook, "on_start")
        self._start_hooks.append(hook)
        return hook

    def on_failure(self, hook: FailureHook) -> FailureHook:
        """Call this async function with a `FailedAttempt` whenever an attempt has failed in a worker with this app: the
        place to tell an error tracker. The failure is logged anyway. What the hook itself raises is logged and changes
        nothing; it gets 30 seconds, and runs beside the tasks, one failure after the other."""
        _check_async(hook, "on_failure")
        self._failure_hooks.append(hook)
        return hook

    @property
    def failure_hooks(self) -> Sequence[FailureHook]:
        return self._failure_hooks

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
        task: TaskLike | None = None,
        /,
        *,
        target: TargetLike | None = None,
        callback_url: str | None = None,
        run_at: datetime | str | None = None,
        run_in: Duration | None = None,
        when: str | None = None,
        tz: str | None = None,
        args: Mapping[str, Any] | None = None,
        connection: object = None,
        **options_and_arguments: Any,
    ) -> Receipt:
        """Run a task once: now, at `run_at`, after `run_in`, or as the words `when` say ("tomorrow at 8"). `tz` is the
        zone whose clock and calendar words and delays in days or months (`P1M`) go by.

        Instead of a task there may be a `target`, a call or a command that duetime's own workers carry out, or a
        `callback_url`, which is short for a POST of the arguments.

        Options: `key` (one live job of that name: the same again changes nothing), `idempotency_key`, `queue`,
        `priority`, `retries`, `retry`, `timeout`, `job_name`, `tags`, `delivery`, and `depends_on`: jobs to wait for, a
        list of receipts or ids, or `Needs`. Everything else is an argument of the task; `args={…}` passes them as a
        dict. `connection=` takes your own open asyncpg or psycopg connection: the job then commits or rolls back with
        your data.
        """
        times = {"run_at": run_at, "run_in": run_in, "when": when, "tz": tz}
        options, arguments = split_options(options_and_arguments | times, args, OF_SUBMISSIONS)
        job = await self._made(task, (target, callback_url), options, arguments, connection)
        if not isinstance(job.schedule, Once):
            raise InvalidInput(f"{when!r} means again and again", field="when", remedy="use schedule")
        if connection is not None:
            store = self._stores.for_guests()
            with traced(self._tracer(), [job]) as (remembering,):
                return Receipt.of(Submitted(await store.submit_within(connection, DEFAULT_TENANT, remembering), None))
        return (await self._store_jobs([job]))[0]

    async def submit_many(
        self,
        task: TaskLike,
        batch: Iterable[Mapping[str, Any]],
        /,
        *,
        run_at: datetime | str | None = None,
        run_in: Duration | None = None,
        when: str | None = None,
        tz: str | None = None,
        **options: Any,
    ) -> list[Receipt]:
        """Run a task once for each set of arguments; all are stored in one transaction, or none."""
        unknown = sorted(options.keys() - RESERVED)
        if unknown:
            raise InvalidInput("is not an option", field=unknown[0], remedy="arguments of the task go into the batch")
        found, limit = self._find(task), self.settings.max_payload
        times = {"run_at": run_at, "run_in": run_in, "when": when, "tz": tz}
        resolved = await self._resolve(found, split_options(options | times, None, OF_SUBMISSIONS)[0])
        jobs: list[NewJob] = []
        items = list(batch)
        for index, (given, job_id) in enumerate(zip(items, ids.new_ids(len(items)), strict=True)):
            try:
                arguments = {} if given is None else check_mapping(given, "args")
                jobs.append(make_job(found, resolved, arguments, max_payload=limit, job_id=job_id))
            except InvalidInput as error:
                field = f"batch[{index}].{error.field}" if error.field else f"batch[{index}]"
                raise InvalidInput(error.message, field=field, remedy=error.remedy) from None
        return await self._store_jobs(jobs)

    async def schedule(
        self,
        task: TaskLike | None = None,
        /,
        *,
        target: TargetLike | None = None,
        callback_url: str | None = None,
        cron: str | None = None,
        every: Duration | None = None,
        when: str | None = None,
        rrule: str | None = None,
        after: JobLike | Mapping[str, Any] | None = None,
        tz: str | None = None,
        day_match: DayMatch | None = None,
        start_at: datetime | str | None = None,
        end_at: datetime | str | None = None,
        exclude: Exclusion | dict[str, Any] | None = None,
        misfire: Misfire | MisfireMode | None = None,
        overlap: Overlap | None = None,
        jitter: Duration | None = None,
        max_runs: int | None = None,
        args: Mapping[str, Any] | None = None,
        **options_and_arguments: Any,
    ) -> Receipt:
        """Run a task (or a `target`, or a `callback_url`, as in `submit`) again and again: on a cron line, on a
        recurrence rule (`rrule`), at an interval, or as words say ("every weekday at 9am"). With `key=`, scheduling the
        same thing twice leaves one job, and scheduling something else under the key edits it.

        `start_at` and `end_at` bound it, `exclude` leaves out days: `{"dates": […], "weekdays": […], "calendars": […],
        "instead": "skip" or "next_day"}`. With `day_match="both"`, a day must match both the day of month and the day
        of week of a cron line, rather than one of them. Policies: `misfire` says what becomes of missed occurrences
        ("latest", "skip" or "all"), `overlap` of one that meets a run of this job that is not over ("allow", "skip",
        "queue" or "replace"). `jitter` moves each fire back by up to that long, `max_runs` ends the job after so many
        runs.

        `after=` another job (or `{"job": …, "on": "success", "failure" or "any"}`) makes a chain instead: it runs
        whenever a run of that one has ended so.
        """
        given: dict[str, Any] = {
            "cron": cron,
            "every": every,
            "when": when,
            "rrule": rrule,
            "after": after,
            "tz": tz,
            "day_match": day_match,
            "start_at": start_at,
            "end_at": end_at,
            "exclude": exclude,
            "misfire": misfire,
            "overlap": overlap,
            "jitter": jitter,
            "max_runs": max_runs,
        }
        if all(given[name] is None for name in ("cron", "every", "when", "rrule", "after")):
            raise InvalidInput(
                "`cron`, `every`, `when`, `rrule` or `after` is required", field="cron", remedy="or use submit"
            )
        options, arguments = split_options(options_and_arguments | given, args, OF_SCHEDULES)
        job = await self._made(task, (target, callback_url), options, arguments)
        return (await self._store_jobs([job]))[0]

    async def pause(self, job: JobLike) -> Job:
        """Fire no more until it is resumed."""
        return await (await self._jobs()).pause_job(DEFAULT_TENANT, job_identity(job))

    async def resume(self, job: JobLike) -> Job:
        """Go on; what was missed meanwhile is for the misfire policy to decide."""
        return await (await self._jobs()).resume_job(DEFAULT_TENANT, job_identity(job))

    async def trigger(self, job: JobLike, *, idempotency_key: str | None = None) -> Run:
        """Make an extra run now, without touching the rhythm. With an `idempotency_key`, here and below, the same call
        again has no effect and gets the first answer."""
        job_id = job_identity(job)
        request = keyed_request(idempotency_key, "trigger", job_id)
        return await (await self._jobs()).trigger_job(DEFAULT_TENANT, job_id, os.urandom(8), request)

    async def backfill(
        self,
        job: JobLike,
        start: datetime | str,
        end: datetime | str,
        *,
        limit: int = 1000,
        rate: float = 10.0,
        idempotency_key: str | None = None,
    ) -> int:
        """Make the runs of a past range, `rate` a second, and say how many; refused when it holds more than `limit`.
        What lies ahead of now is left out: it fires by itself."""
        store = await self._jobs()
        found = await store.job(DEFAULT_TENANT, job_identity(job))
        bounds = check_moment(start, "start"), check_moment(end, "end")
        fires = fires_between(found.schedule, *bounds, limit)
        check_rate(rate)
        request = keyed_request(idempotency_key, "backfill", found.id, *bounds, limit, rate)
        return await store.backfill_job(DEFAULT_TENANT, found.id, fires, os.urandom(8), rate, request)

    async def retry(self, run: RunLike, *, idempotency_key: str | None = None) -> Run:
        """Try a run again: one that waits for its retry now; one that ended FAILED, CANCELLED or SKIPPED by a new run.
        A run is repeated once: asked again, the answer is the run that repeats it."""
        run_id = identity("run", run)
        request = keyed_request(idempotency_key, "retry", run_id)
        return await (await self._jobs()).retry_run(DEFAULT_TENANT, run_id, os.urandom(8), request)

    async def cancel(self, job: JobLike) -> Job:
        """No further run of this job; a run that waits is cancelled, one that is running is asked to stop."""
        return await (await self._jobs()).cancel_job(DEFAULT_TENANT, job_identity(job))

    async def cancel_run(self, run: RunLike) -> Run:
        """Cancel a run that waits, or ask a running one to stop."""
        return await (await self._jobs()).cancel_run(DEFAULT_TENANT, identity("run", run))

    async def job(self, job: JobLike) -> Job:
        """A job as it stands now."""
        return await (await self._jobs()).job(DEFAULT_TENANT, job_identity(job))

    async def run(self, run: RunLike) -> Run:
        """A run, with its attempts."""
        return await (await self._jobs()).run(DEFAULT_TENANT, identity("run", run))

    async def runs(self, job: JobLike, limit: int = 100) -> list[Run]:
        """The runs of a job, newest first."""
        return await (await self._jobs()).runs_of_job(DEFAULT_TENANT, job_identity(job), limit)

    async def wait(self, job: JobLike, timeout: Duration | None = None) -> Run:
        """Wait until the newest run of a job has ended; raises `TimeoutError` when that takes too long, and `Conflict`
        when the job is over and never had one."""
        seconds = None if timeout is None else read_duration(timeout, "timeout").total_seconds()
        deadline = None if seconds is None else monotonic() + seconds
        pause = 0.005
        while True:
            runs = await self.runs(job, 1)
            if runs and runs[0].state.is_end:
                return runs[0]
            if not runs:
                over = (await self.job(job)).state in (JobState.CANCELLED, JobState.ENDED)
                if over and not await self.runs(job, 1):
                    raise never_ran(ids.show("job", job_identity(job)))
            if deadline is not None and monotonic() + pause > deadline:
                state = runs[0].state.name if runs else "not due yet"
                job_id = ids.show("job", job_identity(job))
                raise TimeoutError(f"{job_id} has not ended within {seconds:g} s: it is {state}")
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
            from duetime.sdk.blocking import SyncApp

            self._sync = SyncApp(self)
        return self._sync

    async def store(self) -> Store:
        """The open store: one for each event loop, or one for all where the database is an embedded file."""
        return await self._stores.get()

    async def _jobs(self) -> Jobs:
        """Where the jobs are: in the open store, or behind the server that owns it."""
        return await self._stores.jobs()

    def lent(self, store: Store) -> AbstractContextManager[None]:
        """Use this open store inside the block (on this event loop, if it is not embedded); the lender closes it."""
        return self._stores.lent(store)

    async def close(self) -> None:
        """Let go of the connection that this event loop has made; the next use makes it again."""
        await self._stores.close()

    async def shut_down(self) -> None:
        """Let go of everything that this app has opened: on this event loop, and for code that is not async."""
        if self._sync is not None:
            await asyncio.to_thread(self._sync.close)
        await self.close()

    async def __aenter__(self) -> "App":
        await self._jobs()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Inside.

    def _find(self, task: object) -> Task[..., Any]:
        if isinstance(task, Task):
            if self._tasks.get(task.name) is not task:
                raise NotFound(f"the task {task.name!r} belongs to another app", field="task")
            return task
        if not isinstance(task, str):
            raise InvalidInput(f"{task!r} is not a task", field="task", remedy="decorate it with @app.task")
        found = self._tasks.get(task)
        if found is None:
            known = ", ".join(sorted(self._tasks)) or "none"
            raise NotFound(f"there is no task {task!r} in this app", field="task", remedy=f"it has: {known}")
        return found

    async def _made(
        self,
        task: TaskLike | None,
        target: tuple[TargetLike | None, str | None],
        options: Mapping[str, Any],
        arguments: Mapping[str, Any],
        connection: object = None,
    ) -> NewJob:
        """A job that does a task, or has a target. What may be called is for the settings beside the database to say: a
        server checks for itself."""
        limit = self.settings.max_payload
        if task is not None:
            check_no_target(*target)
            found = self._find(task)
            return make_job(found, await self._resolve(found, options, connection), arguments, max_payload=limit)
        self._rules = self._rules or TargetRules(self.settings)
        checks = connection is not None or await self._stores.are_here()
        resolved = await self._resolve(None, options, connection)
        return make_target_job(self._rules if checks else None, *target, resolved, arguments, max_payload=limit)

    async def _resolve(
        self, task: Task[..., Any] | None, options: Mapping[str, Any], connection: object = None
    ) -> Resolved:
        base = NOTHING_GIVEN if task is None else task.resolved
        if not is_told_by_day(options):
            return resolve(base, options)
        if connection is not None:
            field = "run_in" if options.get("when") is None else "when"
            raise InvalidInput(
                f"{options[field]!r} is counted from the day, which a transaction of yours does not tell",
                field=field,
                remedy="give run_at, or a length in hours",
            )
        return resolve(base, options, now=await (await self._jobs()).now())

    async def _store_jobs(self, jobs: Sequence[NewJob]) -> list[Receipt]:
        with traced(self._tracer(), jobs) as remembering:
            return [Receipt.of(answer) for answer in await Intake(await self._jobs()).submit(remembering)]

    def _tracer(self) -> Tracer | None:
        if self._traces is None and self.settings.traces == "on":
            self._traces = make_tracer()
        return self._traces


def _check_async(hook: object, field: str) -> None:
    if not inspect.iscoroutinefunction(hook):
        raise InvalidInput(f"{hook!r} is not an async function", field=field, remedy="write async def")
