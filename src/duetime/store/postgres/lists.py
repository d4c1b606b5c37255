"""Lists: the homes merged in one snapshot, each read newest first and up to a bound."""

from typing import Any
from uuid import UUID

from duetime.model.lists import (
    DeadFilter,
    DeadGroups,
    DeadLetter,
    JobFilter,
    JobItem,
    JobReport,
    Page,
    RunFilter,
    RunItem,
)
from duetime.model.run import RunState
from duetime.store.postgres.database import SQL, Connection, columns
from duetime.store.postgres.reads import ReadingRole, find_job, runs_of_job
from duetime.store.rules.labels import wanted_labels
from duetime.store.rules.list_pages import (
    BOUND,
    LIVE_BOUND,
    MOST_LABELLED,
    SPARSE_BOUND,
    EndedWalk,
    Source,
    bounds,
    floor_of,
    horizon_of,
    ids_of,
    make_page,
    of_first_home,
    run_state_wanted,
    still_wanted,
    wants_ended,
    wants_live,
)
from duetime.store.shared.list_rows import (
    dead_group,
    dead_letter,
    ended_job_item,
    ended_run_item,
    live_job_item,
    live_run_item,
    report,
    stored_job_item,
)
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID


class ListingRole(ReadingRole):
    async def list_jobs(
        self, tenant_id: int, filter: JobFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[JobItem]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            jobs = _Jobs(connection, tenant_id, filter, before or LAST_ID, limit)
            return make_page(await jobs.sources(), limit)

    async def list_runs(
        self, tenant_id: int, filter: RunFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[RunItem]:
        state, top = filter.state, before or LAST_ID
        sources = []
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            if state is None or not state.is_end:
                sources.append(await _live_runs(connection, tenant_id, filter, top, limit))
            if state is None or state.is_end:
                sources.append(await _ended_runs(connection, tenant_id, filter, top, limit))
        return make_page(sources, limit)

    async def list_dead_letters(
        self, tenant_id: int, filter: DeadFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[DeadLetter]:
        bound = limit + 1 if filter == DeadFilter() else BOUND
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            rows = await connection.fetch(
                SQL["list_dead_letters"],
                tenant_id,
                before or LAST_ID,
                filter.job_id,
                filter.run_id,
                bound,
                filter.task,
                filter.queue,
                filter.failure,
                filter.died_from,
                filter.died_until,
                filter.error,
                limit + 1,
                filter.fingerprint,
            )
        items = [(row["run_id"], dead_letter(row)) for row in rows if row["run_id"] is not None]
        horizon = None if filter.job_id is not None else horizon_of(rows[0]["seen"], bound, rows[0]["lowest"])
        return make_page([Source(items, horizon)], limit)

    async def group_dead_letters(self, tenant_id: int, limit: int = 50, most: int = 100_000) -> DeadGroups:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            rows = await connection.fetch(SQL["group_dead_letters"], tenant_id, most + 1, limit)
        counted = rows[0]["counted"] if rows else 0
        return DeadGroups(tuple(dead_group(row, row["tasks"]) for row in rows), min(counted, most), counted > most)

    async def job_status(self, tenant_id: int, job_id: UUID) -> JobReport:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            job, recurring = await find_job(connection, tenant_id, job_id)
            return report(job, recurring, await runs_of_job(connection, tenant_id, job_id, 100))


class _Jobs:
    """One page of jobs, home by home."""

    def __init__(self, connection: Connection, tenant_id: int, filter: JobFilter, before: UUID, limit: int) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._filter = filter
        self._before = before
        self._limit = limit

    async def sources(self) -> list[Source]:
        if self._filter.ids is not None:
            wanted = [job_id for job_id in self._filter.ids if job_id < self._before]
            return await self._among(wanted, len(wanted) + 1)
        labels = wanted_labels(self._filter)
        if labels:
            return await self._labelled(labels)
        sources = []
        for bound in bounds(self._filter, self._limit, BOUND):
            sources = [await self._stored(None, bound)]
            if sources[0].is_enough(self._limit):
                break
        if wants_live(self._filter):
            floor = floor_of(sources, self._limit)
            for bound in bounds(self._filter, self._limit, BOUND):
                live = await self._live(None, bound, floor)
                if live.is_enough(self._limit):
                    break
            sources.append(live)
        if wants_ended(self._filter):
            sources.append(await self._ended(sources))
        return sources

    async def _labelled(self, labels: list[tuple[str, str]]) -> list[Source]:
        (kind, value), *others = labels
        bound = max(self._limit + 1, MOST_LABELLED)
        rows = await self._connection.fetch(
            SQL["list_labelled"], self._tenant_id, kind, value, self._before, *columns(others, 2), bound
        )
        if not rows:
            return []
        ids = [row["job_id"] for row in rows if row["among"]]
        return [Source((), horizon_of(len(rows), bound, rows[-1]["job_id"])), *await self._among(ids, bound)]

    async def _among(self, ids: list[UUID], bound: int) -> list[Source]:
        """Those of these jobs that match, wherever they live."""
        sources = [await self._stored(ids, bound)]
        if wants_live(self._filter) and (rest := still_wanted(ids, sources, self._limit)):
            sources.append(await self._live(rest, bound, None))
        if wants_ended(self._filter) and (rest := still_wanted(ids, sources, self._limit)):
            sources.append(await self._ended_among(rest))
        return sources

    async def _stored(self, ids: list[UUID] | None, bound: int) -> Source:
        home = of_first_home(self._filter)
        if home is None:
            return Source(())
        rows = await self._connection.fetch(
            SQL["list_stored_jobs"],
            self._tenant_id,
            self._before,
            ids,
            bound,
            self._limit + 1,
            home.states,
            home.recurring,
            *self._rest(),
        )
        items = [(row["id"], stored_job_item(row)) for row in rows if row["id"] is not None]
        return Source(items, None if ids is not None else horizon_of(rows[0]["seen"], bound, rows[0]["lowest"]))

    async def _live(self, ids: list[UUID] | None, bound: int, floor: UUID | None) -> Source:
        state = run_state_wanted(self._filter)
        running = state is RunState.RUNNING
        rows = await self._connection.fetch(
            SQL["list_live_jobs"],
            self._tenant_id,
            self._before,
            ids,
            bound,
            self._limit + 1,
            state,
            floor,
            *self._rest(),
            running,
        )
        items = [(row["job_id"], live_job_item(row, self._tenant_id)) for row in rows if row["job_id"] is not None]
        whole = ids is not None or running
        first = rows[0]
        return Source(items, None if whole else horizon_of(first["seen"], bound, first["lowest"], first["highest"]))

    async def _ended(self, sources: list[Source]) -> Source:
        floor = floor_of(sources, self._limit)
        walk = EndedWalk(self._filter, self._before, self._limit, beside=ids_of(sources))
        while not walk.done:
            step = (walk.place, floor or FIRST_ID, walk.state, walk.rows_at_once)
            (row,) = await self._connection.fetch(SQL["walk_ended_jobs"], self._tenant_id, *step)
            seen, lowest, highest, ids, runs = row
            wanted = walk.saw(seen, lowest, highest, ids)
            walk.take(await self._look_up(wanted, dict(zip(ids, runs, strict=True))))
        return Source(self._items(walk.found), walk.horizon)

    async def _ended_among(self, ids: list[UUID]) -> Source:
        walk = EndedWalk(self._filter, self._before, self._limit)
        walk.take(await self._look_up(ids, {}))
        return Source(self._items(walk.found))

    async def _look_up(self, ids: list[UUID], runs: dict[UUID, UUID | None]) -> list[Any]:
        """How jobs ended; quicker for those whose last run is known."""
        if not ids:
            return []
        last = [runs.get(job_id) for job_id in ids]
        return await self._connection.fetch(SQL["find_ended_jobs"], self._tenant_id, ids, last)

    def _items(self, rows: list[Any]) -> list[tuple[UUID, JobItem]]:
        return [(row["job_id"], ended_job_item(row, self._tenant_id)) for row in rows]

    def _rest(self) -> tuple[Any, ...]:
        return self._filter.task, self._filter.queue, self._filter.due_from, self._filter.due_until


async def _live_runs(connection: Connection, tenant_id: int, filter: RunFilter, before: UUID, limit: int) -> Source:
    running = filter.state is RunState.RUNNING

    async def look(bound: int, *, everybodys: bool) -> Source:
        rows = await connection.fetch(
            SQL["list_live_runs"],
            tenant_id,
            before,
            filter.job_id,
            running,
            bound,
            filter.state,
            filter.task,
            filter.queue,
            filter.due_from,
            filter.due_until,
            everybodys,
            limit + 1,
        )
        horizon = (
            None if filter.job_id is not None or running else horizon_of(rows[0]["seen"], bound, rows[0]["lowest"])
        )
        return Source([(row["id"], live_run_item(row)) for row in rows if row["id"] is not None], horizon)

    if filter.job_id is not None or running:
        return await look(LIVE_BOUND, everybodys=False)
    # Where most runs are this tenant's, the newest of all are soon enough; if it has few, they can all be sorted.
    found = await look(4 * limit + 50, everybodys=True)
    if not found.is_enough(limit):
        found = await look(LIVE_BOUND, everybodys=False)
        if found.horizon is not None:
            found = await look(SPARSE_BOUND, everybodys=True)
    return found


async def _ended_runs(connection: Connection, tenant_id: int, filter: RunFilter, before: UUID, limit: int) -> Source:
    found = Source(())
    for bound in bounds(filter, limit, BOUND):
        rows = await connection.fetch(
            SQL["list_ended_runs"],
            tenant_id,
            before,
            filter.job_id,
            filter.state,
            bound,
            filter.task,
            filter.queue,
            filter.due_from,
            filter.due_until,
            limit + 1,
        )
        first = rows[0]
        horizon = horizon_of(first["seen"], bound, first["lowest"], first["highest"])
        found = Source([(row["id"], ended_run_item(row)) for row in rows if row["id"] is not None], horizon)
        if found.is_enough(limit):
            break
    return found
