"""What an app does with jobs that are stored already: editing them, looking ahead, and keeping calendars for them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import msgspec

from duetime.errors import InvalidInput
from duetime.model import json
from duetime.model.calendar import Calendar, make_calendar
from duetime.model.job import DEFAULT_TENANT, Job
from duetime.model.schedule import Once
from duetime.sdk.open_stores import Jobs
from duetime.sdk.preview import FEW, Preview, preview, preview_of
from duetime.sdk.submission import check_mapping, edit_options
from duetime.sdk.task import Task
from duetime.settings import Settings
from duetime.spec.identity import JobLike, job_identity
from duetime.spec.resolved import TIMES, edit


class StoredJobs(ABC):
    """The part of an app that tends to its jobs."""

    @abstractmethod
    async def _jobs(self) -> Jobs: ...

    @property
    @abstractmethod
    def settings(self) -> Settings: ...

    @property
    @abstractmethod
    def tasks(self) -> Mapping[str, Task[..., Any]]: ...

    async def edit(
        self, job: JobLike, *, version: int | None = None, args: Mapping[str, Any] | None = None, **changes: Any
    ) -> Job:
        """Change a job: what you name becomes different, the rest stays; None removes an option. A schedule is given
        whole, with its bounds.

        With `version=`, the edit is refused as `StaleVersion` when another one came first. Another schedule starts from
        now; any other change leaves the rhythm, and runs that wait for a worker take it on.
        """
        store = await self._jobs()
        found = await store.job(DEFAULT_TENANT, job_identity(job))
        options = edit_options(changes)
        made = edit(found, options, now=None if TIMES.isdisjoint(options) else await store.now())
        if args is not None:
            arguments, task = check_mapping(args, "args"), self.tasks.get(found.task)
            if task is not None:
                task.definition.check_args(arguments)
            body = json.encode(arguments, field="args", limit=self.settings.max_payload)
            made = msgspec.structs.replace(made, args=body)
        return await store.edit_job(DEFAULT_TENANT, found.id, made, version)

    async def preview(self, schedule: JobLike, *, count: int = FEW, **options: Any) -> Preview:
        """What a job's schedule means and its next fires; or those of a schedule that no job has yet, as
        `duetime.preview` shows them, with this app's calendars and the database's clock."""
        store = await self._jobs()
        now = await store.now()
        if isinstance(schedule, str) and not schedule.startswith("job_"):
            given: dict[str, Any] = {"start": now, "calendars": await store.calendars(DEFAULT_TENANT), **options}
            return preview(schedule, count=count, **given)
        if options:
            raise InvalidInput("a job has a schedule of its own", field=next(iter(options)), remedy="leave it out")
        found = (await store.job(DEFAULT_TENANT, job_identity(schedule))).schedule
        return preview_of(found, "UTC" if isinstance(found, Once) else found.zone, now, count)

    async def set_calendar(self, name: str, dates: Iterable[date | str]) -> Calendar:
        """Give days a name, such as holidays, for jobs to leave out (`exclude={"calendars": [name]}`). When it returns,
        all jobs that use it go by its new days."""
        calendar = make_calendar(name, dates)
        return await (await self._jobs()).set_calendar(DEFAULT_TENANT, calendar.name, calendar.dates)

    async def calendar(self, name: str) -> Calendar:
        return await (await self._jobs()).calendar(DEFAULT_TENANT, name)

    async def calendars(self) -> list[Calendar]:
        return await (await self._jobs()).calendars(DEFAULT_TENANT)

    async def delete_calendar(self, name: str) -> None:
        """Refused as `CalendarInUse` while a job leaves out its days."""
        await (await self._jobs()).delete_calendar(DEFAULT_TENANT, name)
