"""What an app does with jobs that are stored already: reading them, waiting for them, changing them, looking ahead, and
keeping calendars for them."""

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
"""A graph as it was read, or by its id."""


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
        """Change a job: what you name becomes different, the rest stays; None removes an option. `args` is a call of
        the job's task with its new arguments. A schedule is given whole, with its bounds.

        With `version=`, the edit is refused as `StaleVersion` when another one came first. Another schedule starts from
        now; any other change leaves the rhythm, and runs that wait for a worker take it on.
        """
        if args is not None and not isinstance(args, Call):
            raise InvalidInput(f"{args!r} is not a call", field="args", remedy="args=send.bind(to=…)")
        check_options(changes, OF_EDITS, None)
        job_id = job_identity(job)
        return await self._stores.ask(lambda jobs: jobs.edit(job_id, changes, args, version))

    async def pause(self, job: JobLike) -> Job:
        """Fire no more until it is resumed."""
        job_id = job_identity(job)
        return await self._stores.ask(lambda jobs: jobs.pause(job_id))

    async def resume(self, job: JobLike) -> Job:
        """Go on; what was missed meanwhile is for the misfire policy to decide."""
        job_id = job_identity(job)
        return await self._stores.ask(lambda jobs: jobs.resume(job_id))

    async def trigger(self, job: JobLike, *, idempotency_key: str | None = None) -> Run:
        """Make an extra run now, without touching the rhythm. With an `idempotency_key`, here and below, the same call
        again has no effect and gets the first answer."""
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
        """Make the runs of a past range, `rate` a second, and say how many; refused when it holds more than `limit`.
        What lies ahead of now is left out: it fires by itself."""
        job_id, first, last = job_identity(job), check_moment(start, "start"), check_moment(end, "end")
        return await self._stores.ask(lambda jobs: jobs.backfill(job_id, first, last, limit, rate, idempotency_key))

    async def retry(self, run: RunLike, *, idempotency_key: str | None = None) -> Run:
        """Try a run again: one that waits for its retry now; one that ended FAILED, CANCELLED or SKIPPED by a new run.
        A run is repeated once: asked again, the answer is the run that repeats it."""
        run_id = identity("run", run)
        return await self._stores.ask(lambda jobs: jobs.retry(run_id, idempotency_key))

    async def cancel(self, job: JobLike) -> Job:
        """No further run of this job; a run that waits is cancelled, one that is running is asked to stop."""
        job_id = job_identity(job)
        return await self._stores.ask(lambda jobs: jobs.cancel(job_id))

    async def cancel_run(self, run: RunLike) -> Run:
        """Cancel a run that waits, or ask a running one to stop."""
        run_id = identity("run", run)
        return await self._stores.ask(lambda jobs: jobs.cancel_run(run_id))

    async def job(self, job: JobLike) -> Job:
        """A job as it stands now."""
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
        """Wait until the newest run of a job has ended; raises `TimeoutError` when that takes too long, and `Conflict`
        when the job is over and never had one."""
        job_id = job_identity(job)
        pauses = _Pauses(timeout)
        while (found := await self._stores.ask(lambda jobs: jobs.look(job_id))).run is None:
            await pauses.rest(f"{ids.show('job', job_id)} has not ended", f": it is {found.status}")
        return found.run

    async def preview(self, schedule: JobLike, *, count: int = FEW, **options: Any) -> Preview:
        """What a job's schedule means and its next fires; or those of a schedule that no job has yet, as
        `duetime.preview` shows them, with this app's calendars and the database's clock."""
        if isinstance(schedule, str) and not schedule.startswith("job_"):
            return await self._stores.ask(lambda jobs: jobs.preview(schedule, count, options))
        if options:
            raise InvalidInput("a job has a schedule of its own", field=next(iter(options)), remedy="leave it out")
        job_id = job_identity(schedule)
        return await self._stores.ask(lambda jobs: jobs.preview_job(job_id, count))

    # Calendars.

    async def set_calendar(self, name: str, dates: Iterable[date | str]) -> Calendar:
        """Give days a name, such as holidays, for jobs to leave out (`exclude={"calendars": [name]}`). When it returns,
        all jobs that use it go by its new days."""
        calendar = make_calendar(name, dates)
        return await self._stores.ask(lambda jobs: jobs.set_calendar(calendar.name, calendar.dates))

    async def calendar(self, name: str) -> Calendar:
        return await self._stores.ask(lambda jobs: jobs.calendar(name))

    async def calendars(self) -> list[Calendar]:
        return await self._stores.ask(lambda jobs: jobs.calendars())

    async def delete_calendar(self, name: str) -> None:
        """Refused as `CalendarInUse` while a job leaves out its days."""
        await self._stores.ask(lambda jobs: jobs.delete_calendar(name))

    # Graphs.

    async def graph(self, graph: GraphLike) -> Graph:
        """A graph with its nodes as they stand now."""
        graph_id = _graph_identity(graph)
        return await self._stores.ask(lambda jobs: jobs.graph(graph_id))

    async def cancel_graph(self, graph: GraphLike) -> Graph:
        """End what waits, and ask what runs to stop."""
        graph_id = _graph_identity(graph)
        return await self._stores.ask(lambda jobs: jobs.cancel_graph(graph_id))

    async def rerun_graph(self, graph: GraphLike) -> Graph:
        """Run again what did not succeed, and all that depends on it; what succeeded keeps its results."""
        graph_id = _graph_identity(graph)
        return await self._stores.ask(lambda jobs: jobs.rerun_graph(graph_id))

    async def wait_graph(self, graph: GraphLike, timeout: Duration | None = None) -> Graph:
        """Wait until a graph is over; raises `TimeoutError` when that takes too long."""
        pauses = _Pauses(timeout)
        while (found := await self.graph(graph)).status is GraphStatus.RUNNING:
            await pauses.rest("the graph has not ended")
        return found


class _Pauses:
    """Longer and longer pauses between two looks, until the time is up."""

    def __init__(self, timeout: Duration | None) -> None:
        self._seconds = None if timeout is None else read_duration(timeout, "timeout").total_seconds()
        self._deadline = None if self._seconds is None else monotonic() + self._seconds
        self._pause = 0.005

    async def rest(self, problem: str, detail: str = "") -> None:
        if self._deadline is not None and monotonic() + self._pause > self._deadline:
            raise TimeoutError(f"{problem} within {self._seconds:g} s{detail}")
        await asyncio.sleep(self._pause)
        self._pause = min(0.25, self._pause * 1.5)


def _graph_identity(graph: GraphLike) -> UUID:
    return graph.id if isinstance(graph, Graph) else identity("gra", graph)
