"""Working with stored jobs: read, wait, change, preview; and their calendars and graphs."""

import asyncio
from collections.abc import Iterable
from datetime import date, datetime
from typing import Any, Unpack
from uuid import UUID

from duetime import ids
from duetime.clock import monotonic
from duetime.errors import InvalidInput
from duetime.model.attempt import Run
from duetime.model.calendar import Calendar, make_calendar
from duetime.model.graph import Graph, GraphStatus
from duetime.model.job import Job
from duetime.model.schedule import check_moment
from duetime.sdk.open_stores import Stores
from duetime.sdk.preview import FEW, Preview
from duetime.sdk.task import Call, check_options
from duetime.spec.derived import OF_EDITS
from duetime.spec.identity import JobLike, RunLike, identity, job_identity
from duetime.spec.kinds import read_duration
from duetime.spec.options import Duration, EditOptions

GraphLike = Graph | str | UUID
"""A graph, or its id."""


class StoredJobs:
    """The part of an app that works on stored jobs."""

    _stores: Stores

    async def edit(
        self,
        job: JobLike,
        /,
        *,
        args: Call[Any] | None = None,
        version: int | None = None,
        **changes: Unpack[EditOptions],
    ) -> Job:
        """Change the given options of a job; None removes an option. `args` is a call of the job's task with its new
        arguments. With a new time, a schedule keeps its zone, its bounds and its excluded days.

        With `version=`, raises `StaleVersion` if another edit came first. A new schedule starts from now. Any other
        change keeps the schedule, and also applies to runs that wait for a worker.
        """
        if args is not None and not isinstance(args, Call):
            raise InvalidInput(f"{args!r} is not a call", field="args", remedy="args=send.bind(to=…)")
        check_options(changes, OF_EDITS, None)
        job_id = job_identity(job)
        return await self._stores.ask(lambda jobs: jobs.edit(job_id, changes, args, version))

    async def pause(self, job: JobLike) -> Job:
        """Stop firing until the job is resumed."""
        job_id = job_identity(job)
        return await self._stores.ask(lambda jobs: jobs.pause(job_id))

    async def resume(self, job: JobLike) -> Job:
        """Continue firing. The misfire policy decides about missed occurrences."""
        job_id = job_identity(job)
        return await self._stores.ask(lambda jobs: jobs.resume(job_id))

    async def trigger(self, job: JobLike, *, idempotency_key: str | None = None) -> Run:
        """Make an extra run now; the schedule stays unchanged. With an `idempotency_key`, here and below, a repeated
        call has no effect and returns the first answer."""
        job_id = job_identity(job)
        return await self._stores.ask(lambda jobs: jobs.trigger(job_id, idempotency_key))

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
        """Make the runs of a past range, `rate` a second; returns how many. Refused when there are more than `limit`.
        Future occurrences are omitted: they fire by themselves."""
        job_id, first, last = job_identity(job), check_moment(start, "start"), check_moment(end, "end")
        return await self._stores.ask(lambda jobs: jobs.backfill(job_id, first, last, limit, rate, idempotency_key))

    async def retry(self, run: RunLike, *, idempotency_key: str | None = None) -> Run:
        """Retry a run. A RETRYING run starts now; a run that ended FAILED, CANCELLED or SKIPPED gets a new run. A run
        is replayed once: a second call returns the same new run."""
        run_id = identity("run", run)
        return await self._stores.ask(lambda jobs: jobs.retry(run_id, idempotency_key))

    async def cancel(self, job: JobLike) -> Job:
        """Make no further runs of this job. A waiting run is cancelled, a running one is asked to stop."""
        job_id = job_identity(job)
        return await self._stores.ask(lambda jobs: jobs.cancel(job_id))

    async def cancel_run(self, run: RunLike) -> Run:
        """Cancel a waiting run, or ask a running one to stop."""
        run_id = identity("run", run)
        return await self._stores.ask(lambda jobs: jobs.cancel_run(run_id))

    async def job(self, job: JobLike) -> Job:
        """The current state of a job."""
        job_id = job_identity(job)
        return await self._stores.ask(lambda jobs: jobs.job(job_id))

    async def run(self, run: RunLike) -> Run:
        """A run, with its attempts."""
        run_id = identity("run", run)
        return await self._stores.ask(lambda jobs: jobs.run(run_id))

    async def runs(self, job: JobLike, limit: int = 100) -> list[Run]:
        """The runs of a job, newest first."""
        job_id = job_identity(job)
        return await self._stores.ask(lambda jobs: jobs.runs(job_id, limit))

    async def wait(self, job: JobLike, timeout: Duration | None = None) -> Run:
        """Wait until the newest run of a job has ended. Raises `TimeoutError` after `timeout`, and `Conflict` when the
        job has ended without a run."""
        job_id = job_identity(job)
        pauses = _Pauses(timeout)
        while (found := await self._stores.ask(lambda jobs: jobs.look(job_id))).run is None:
            if pauses.are_over:
                why = await self._stores.ask(lambda jobs: jobs.why(job_id))
                raise pauses.timeout(f"{ids.show('job', job_id)} has not ended", why or f"it is {found.status}")
            await pauses.rest()
        return found.run

    async def preview(self, schedule: JobLike, *, count: int = FEW, **options: Any) -> Preview:
        """The meaning and the next fires of a job's schedule; or of any schedule, as `duetime.preview` shows them, with
        this app's calendars and the database's clock."""
        if isinstance(schedule, str) and not schedule.startswith("job_"):
            return await self._stores.ask(lambda jobs: jobs.preview(schedule, count, options))
        if options:
            option = next(iter(options))
            raise InvalidInput(f"`{option}` cannot be given for a stored job", field=option, remedy="omit it")
        job_id = job_identity(schedule)
        return await self._stores.ask(lambda jobs: jobs.preview_job(job_id, count))

    # Calendars.

    async def set_calendar(self, name: str, dates: Iterable[date | str]) -> Calendar:
        """Create or replace a named set of days, such as holidays, that jobs can exclude
        (`exclude={"calendars": [name]}`). When it returns, all jobs that use it follow the new days."""
        calendar = make_calendar(name, dates)
        return await self._stores.ask(lambda jobs: jobs.set_calendar(calendar.name, calendar.dates))

    async def calendar(self, name: str) -> Calendar:
        return await self._stores.ask(lambda jobs: jobs.calendar(name))

    async def calendars(self) -> list[Calendar]:
        return await self._stores.ask(lambda jobs: jobs.calendars())

    async def delete_calendar(self, name: str) -> None:
        """Raises `CalendarInUse` while a job excludes its days."""
        await self._stores.ask(lambda jobs: jobs.delete_calendar(name))

    # Graphs.

    async def graph(self, graph: GraphLike) -> Graph:
        """A graph with the current state of its nodes."""
        graph_id = _graph_identity(graph)
        return await self._stores.ask(lambda jobs: jobs.graph(graph_id))

    async def cancel_graph(self, graph: GraphLike) -> Graph:
        """Cancel its waiting runs, and ask running ones to stop."""
        graph_id = _graph_identity(graph)
        return await self._stores.ask(lambda jobs: jobs.cancel_graph(graph_id))

    async def rerun_graph(self, graph: GraphLike) -> Graph:
        """Run the nodes that did not succeed again, and all that depend on them. Succeeded nodes keep their results."""
        graph_id = _graph_identity(graph)
        return await self._stores.ask(lambda jobs: jobs.rerun_graph(graph_id))

    async def wait_graph(self, graph: GraphLike, timeout: Duration | None = None) -> Graph:
        """Wait until a graph has ended. Raises `TimeoutError` after `timeout`."""
        pauses = _Pauses(timeout)
        while (found := await self.graph(graph)).status is GraphStatus.RUNNING:
            if pauses.are_over:
                raise pauses.timeout("the graph has not ended", f"it is {found.status.name}")
            await pauses.rest()
        return found


class _Pauses:
    """Growing pauses between polls, until the timeout."""

    def __init__(self, timeout: Duration | None) -> None:
        self._seconds = None if timeout is None else read_duration(timeout, "timeout").total_seconds()
        self._deadline = None if self._seconds is None else monotonic() + self._seconds
        self._pause = 0.005

    @property
    def are_over(self) -> bool:
        return self._deadline is not None and monotonic() + self._pause > self._deadline

    def timeout(self, problem: str, reason: str) -> TimeoutError:
        return TimeoutError(f"{problem} within {self._seconds:g} s: {reason}")

    async def rest(self) -> None:
        await asyncio.sleep(self._pause)
        self._pause = min(0.25, self._pause * 1.5)


def _graph_identity(graph: GraphLike) -> UUID:
    return graph.id if isinstance(graph, Graph) else identity("gra", graph)
