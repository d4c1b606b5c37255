"""What an app does with jobs that are stored already: editing them, looking ahead, and keeping calendars for them."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any, Unpack

from msgspec import UNSET, UnsetType

from duetime.editing import Edits, make_changes
from duetime.engine.options import Duration
from duetime.errors import InvalidInput
from duetime.identity import JobLike, job_identity
from duetime.model.calendar import Calendar, make_calendar
from duetime.model.job import DEFAULT_TENANT, Job
from duetime.model.schedule import DayMatch, Exclusion, Once, Schedule, make_schedule
from duetime.previewing import FEW, Preview, preview, preview_of
from duetime.settings import Settings
from duetime.stores import Jobs
from duetime.task import Task


class Tending(ABC):
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
        self,
        job: JobLike,
        *,
        version: int | None = None,
        run_at: datetime | str | None = None,
        run_in: Duration | None = None,
        cron: str | None = None,
        every: Duration | None = None,
        when: str | None = None,
        rrule: str | None = None,
        tz: str | None = None,
        day_match: DayMatch | None = None,
        start_at: datetime | str | None = None,
        end_at: datetime | str | None = None,
        exclude: Exclusion | dict[str, Any] | None = None,
        **edits: Unpack[Edits],
    ) -> Job:
        """Change a job: what you name becomes different, the rest stays. A schedule is given whole, with its bounds.

        With `version=`, the edit is refused as `StaleVersion` when somebody else was faster. Another schedule starts
        from now; any other change leaves the rhythm, and runs that wait for a worker take it on.
        """
        store = await self._jobs()
        found = await store.job(DEFAULT_TENANT, job_identity(job))
        bounds: dict[str, Any] = {
            "tz": tz,
            "day_match": day_match,
            "start_at": start_at,
            "end_at": end_at,
            "exclude": exclude,
        }
        kinds: dict[str, Any] = {"run_at": run_at, "run_in": run_in, "cron": cron, "every": every, "when": when}
        kinds["rrule"] = rrule
        schedule: Schedule | UnsetType = UNSET
        if any(kind is not None for kind in kinds.values()):
            schedule = make_schedule(**kinds, **bounds, now=await store.now())
        elif lonely := next((name for name, value in bounds.items() if value is not None), None):
            raise InvalidInput(
                "a schedule is edited as a whole", field=lonely, remedy="give cron, rrule, every or when too"
            )
        limit = self.settings.max_payload
        changes = make_changes(found, self.tasks.get(found.task), schedule, edits, max_payload=limit)
        return await store.edit_job(DEFAULT_TENANT, found.id, changes, version)

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
