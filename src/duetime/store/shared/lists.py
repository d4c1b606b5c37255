"""Lists merge the homes in one snapshot. Each home is read newest first, up to a bound."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from msgspec.structs import asdict, replace

from duetime.clock import monotonic
from duetime.model.lists import (
    DeadFilter,
    DeadGroups,
    DeadLetter,
    JobFilter,
    JobItem,
    JobReport,
    JobsByName,
    NamePlace,
    Page,
    RunFilter,
    RunItem,
)
from duetime.model.microseconds import EPOCH
from duetime.model.run import RunState
from duetime.model.scope import Facts, Scope
from duetime.model.search import MOST_TERMS, SHORTEST, folded, has_labels, ids_beginning, is_found_by
from duetime.store.rules.labels import labels_of_scope, wanted_labels
from duetime.store.rules.list_pages import (
    BOUND,
    LIVE_BOUND,
    MOST_LABELLED,
    MOST_OWNED,
    MOST_SECONDS,
    MOST_WINDOWS,
    SPARSE_BOUND,
    EndedWalk,
    RunSpan,
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
from duetime.store.shared.reads import find_job, runs_of_job
from duetime.store.shared.search import find_terms
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID
from duetime.store.shared.transaction import Row, SharedRole, Transaction
from duetime.store.shared.transaction import found as found_row

T = TypeVar("T", RunItem, DeadLetter)
_Read = Callable[[list[UUID] | None, UUID | None, int], Awaitable[Page[T]]]
"""Reads a page of the runs of some jobs, or (None) of all, before a run."""


class _LabelledJobs(NamedTuple):
    seen: list[UUID]
    """The jobs with the first label, newest first."""
    found: list[UUID]
    """Those of them that have all labels."""


class ListingRole(SharedRole):
    async def list_jobs(
        self, tenant_id: int, filter: JobFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[JobItem]:
        place = before or LAST_ID

        async def work(transaction: Transaction) -> list[Source]:
            return await _Jobs(transaction, tenant_id, filter, place, limit).sources()

        until = monotonic() + MOST_SECONDS
        while True:
            page = make_page(await self.transactions.reading(tenant_id).run(work), limit)
            if page.items or page.next is None or page.next >= place or monotonic() > until:
                return page
            place = page.next

    async def list_jobs_by_name(
        self, tenant_id: int, filter: JobFilter, after: NamePlace | None = None, limit: int = 50, *, down: bool = False
    ) -> JobsByName:
        size = max(limit + 1, MOST_LABELLED)
        found: list[tuple[NamePlace, JobItem]] = []

        async def window(transaction: Transaction) -> tuple[list[NamePlace], dict[UUID, JobItem]]:
            value, job_id = (None, None) if after is None else (after.name, after.job_id)
            place = {"tenant_id": tenant_id, "value": value, "job_id": job_id, "down": down}
            rows = await transaction.rows("list_by_name", **place, bound=size)
            sources = await _Jobs(transaction, tenant_id, filter, LAST_ID, size).among([row["job_id"] for row in rows])
            items = {each: item for source in sources for each, item in source.items}
            return [NamePlace(row["value"], row["job_id"]) for row in rows], items

        for _ in range(MOST_WINDOWS):
            places, items = await self.transactions.reading(tenant_id).run(window)
            found += [(place, items[place.job_id]) for place in places if place.job_id in items]
            after = places[-1] if len(places) == size else None
            if after is None or len(found) > limit:
                break
        if len(found) > limit:
            after = found[limit - 1][0]
        return JobsByName(tuple(item for _, item in found[:limit]), after)

    async def list_runs(
        self, tenant_id: int, filter: RunFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[RunItem]:
        has_end = filter.due_until is not None
        now = await self.transactions.run(lambda transaction: transaction.now()) if has_end else EPOCH
        span = RunSpan(filter, now)

        async def read(job_ids: list[UUID] | None, before: UUID | None, limit: int) -> Page[RunItem]:
            wanted = {
                "tenant_id": tenant_id,
                "job_ids": job_ids,
                "state": filter.state,
                "limit": limit + 1,
                **_rest(filter),
            }

            async def work(transaction: Transaction) -> list[Source]:
                sources = []
                if filter.state is None or not filter.state.is_end:
                    sources.append(await _live_runs(transaction, filter, wanted, limit))
                if filter.state is None or filter.state.is_end:
                    ended = _ended_runs if job_ids is None or filter.job_id is not None else _ended_runs_of
                    sources.append(await ended(transaction, filter, wanted, limit))
                return sources

            wanted["before"] = span.top(before or LAST_ID)
            until = monotonic() + MOST_SECONDS
            for _ in range(MOST_WINDOWS):
                page = make_page(await self.transactions.reading(tenant_id).run(work), limit)
                goes_on = not page.items and job_ids is None and monotonic() < until
                if page.next is None or not (span.is_above(page) or goes_on):
                    break
                wanted["before"] = page.next
            return span.ended(page)

        return await self._of_jobs(tenant_id, filter, before, limit, read)

    async def list_dead_letters(
        self, tenant_id: int, filter: DeadFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[DeadLetter]:
        bound = limit + 1 if filter == DeadFilter() else BOUND

        async def read(job_ids: list[UUID] | None, before: UUID | None, limit: int) -> Page[DeadLetter]:
            page = {"tenant_id": tenant_id, "before": before or LAST_ID, "bound": bound, "limit": limit + 1}
            reading = self.transactions.reading(tenant_id)
            rows = await reading.rows("list_dead_letters", **page, **asdict(filter), job_ids=job_ids)
            items = [(row["run_id"], dead_letter(row)) for row in rows if row["run_id"] is not None]
            horizon = None if job_ids is not None else horizon_of(rows[0]["seen"], bound, rows[0]["lowest"])
            return make_page([Source(items, horizon)], limit)

        return await self._of_jobs(tenant_id, filter, before, limit, read)

    async def _of_jobs(
        self, tenant_id: int, filter: RunFilter | DeadFilter, place: UUID | None, limit: int, read: _Read[T]
    ) -> Page[T]:
        """A page of the runs of all jobs, of one job, or of the jobs in a scope."""
        labels = labels_of_scope(filter.within)
        if filter.job_id is not None:
            return await read([filter.job_id], place, limit)
        if filter.within is None or not labels:
            return await read(None, place, limit)
        jobs = await self._labelled_jobs(tenant_id, labels, LAST_ID, MOST_OWNED + 1)
        if len(jobs.seen) <= MOST_OWNED:
            return await read(jobs.found, place, limit)
        return await self._job_by_job(tenant_id, filter.within, place, limit, read)

    async def _job_by_job(
        self, tenant_id: int, scope: Scope, place: UUID | None, limit: int, read: _Read[T]
    ) -> Page[T]:
        """The runs in a scope with many jobs: those of its newest jobs first, a window of jobs at a time. Only jobs of
        the scope are read, so nothing about the page depends on others. Its place is a run, after which its job goes
        on; or a job, below which the next ones are."""
        found: list[T] = []
        below, size = place or LAST_ID, MOST_OWNED
        job_id = None if place is None else (await self.jobs_of_runs(tenant_id, [place])).get(place)
        if job_id is not None:
            below = job_id
            if scope.admits((await self.facts_of_jobs(tenant_id, [job_id]))[job_id]):
                page = await read([job_id], place, limit)
                found += page.items
                if page.next is not None:
                    return page
        for _ in range(MOST_WINDOWS):
            if len(found) == limit:
                break
            jobs = await self._labelled_jobs(tenant_id, labels_of_scope(scope), below, size)
            page = await read(jobs.found, None, limit - len(found)) if jobs.found else Page(())
            if page.next is not None and len(jobs.found) > 1:
                size = max(1, len(jobs.seen) // 8)
                continue
            found += page.items
            if page.next is not None:
                return Page(tuple(found), page.next)
            if len(jobs.seen) < size:
                return Page(tuple(found))
            below = jobs.seen[-1]
        return Page(tuple(found), below)

    async def _labelled_jobs(
        self, tenant_id: int, labels: list[tuple[str, str]], below: UUID, bound: int
    ) -> _LabelledJobs:
        (kind, value), *others = labels
        rows = await self.transactions.reading(tenant_id).rows(
            "list_labelled",
            tenant_id=tenant_id,
            before=below,
            kind=kind,
            value=value,
            kinds=[kind for kind, _ in others],
            values=[value for _, value in others],
            bound=bound,
        )
        return _LabelledJobs([row["job_id"] for row in rows], [row["job_id"] for row in rows if row["among"]])

    async def group_dead_letters(self, tenant_id: int, limit: int = 50, most: int = 100_000) -> DeadGroups:
        reading = self.transactions.reading(tenant_id)
        rows = await reading.rows("group_dead_letters", tenant_id=tenant_id, most=most + 1, limit=limit)
        counted = rows[0]["counted"] if rows else 0
        return DeadGroups(tuple(dead_group(row) for row in rows), min(counted, most), counted > most)

    async def job_status(self, tenant_id: int, job_id: UUID) -> JobReport:
        async def work(transaction: Transaction) -> JobReport:
            job, recurring = await find_job(transaction, tenant_id, job_id)
            return report(job, recurring, await runs_of_job(transaction, tenant_id, job_id, 100))

        return await self.transactions.reading(tenant_id).run(work)

    async def facts_of_jobs(self, tenant_id: int, job_ids: Collection[UUID]) -> dict[UUID, Facts]:
        if not job_ids:
            return {}
        rows = await self.transactions.reading(tenant_id).rows("job_facts", tenant_id=tenant_id, ids=list(job_ids))
        return {row["job_id"]: Facts(row["owner"], tuple(row["tags"]), row["queue"]) for row in rows}

    async def jobs_of_runs(self, tenant_id: int, run_ids: Collection[UUID]) -> dict[UUID, UUID]:
        if not run_ids:
            return {}
        rows = await self.transactions.reading(tenant_id).rows("jobs_of_runs", tenant_id=tenant_id, ids=list(run_ids))
        return {row["run_id"]: row["job_id"] for row in rows}


class _Jobs:
    """One page of jobs, home by home."""

    def __init__(
        self,
        transaction: Transaction,
        tenant_id: int,
        filter: JobFilter,
        before: UUID,
        limit: int,
        tasks: list[str] | None = None,
    ) -> None:
        self._transaction = transaction
        self._tenant_id = tenant_id
        self._filter = filter
        self._before = before
        self._limit = limit
        self._tasks = tasks if tasks is not None else None if filter.task is None else [filter.task]
        self._wanted = {
            "tenant_id": tenant_id,
            "before": before,
            "limit": limit + 1,
            **_rest(filter),
            "tasks": self._tasks,
        }

    async def sources(self) -> list[Source]:
        if self._filter.search is not None:
            return await self._searched(self._filter.search, replace(self._filter, search=None))
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

    async def among(self, ids: list[UUID]) -> list[Source]:
        """The jobs among these that match, from any home."""
        return await self._among(ids, len(ids) + 1) if ids else []

    async def _searched(self, text: str, rest: JobFilter) -> list[Source]:
        """Jobs that a text finds: by the index, or in the newest jobs where most are found."""
        # The terms are those of all jobs of the tenant, so a caller with a scope searches its own jobs.
        terms = None if rest.within is not None else await self._found_terms(text)
        if terms is None:
            sources = await _Jobs(self._transaction, self._tenant_id, rest, self._before, BOUND).sources()
            return [_kept(source, lambda item: is_found_by(item, text)) for source in sources]
        sources = await self._by_id(text, rest)
        by_task, known = await self._by_task(text, rest), set(ids_of(sources))
        sources += [
            Source([(each, item) for each, item in found.items if each not in known], found.horizon)
            for found in by_task
        ]
        if not terms:
            return sources
        bound = max(self._limit + 1, MOST_LABELLED)
        kinds, values = zip(*terms, strict=True)
        wanted = {"tenant_id": self._tenant_id, "before": self._before, "bound": bound}
        rows = await self._transaction.rows("list_found", **wanted, kinds=list(kinds), values=list(values))
        known = set(ids_of(sources))
        ids = [row["job_id"] for row in rows if row["job_id"] not in known]
        found = await _Jobs(self._transaction, self._tenant_id, rest, self._before, self._limit)._among(ids, bound)
        horizon = horizon_of(len(rows), bound, rows[-1]["job_id"]) if rows else None
        return [
            *sources,
            Source((), horizon),
            *(_kept(source, lambda item: has_labels(item, rest)) for source in found),
        ]

    async def _found_terms(self, text: str) -> list[tuple[str, str]] | None:
        """The labels that contain a text; None: it is too short or too frequent for the index."""
        if len(folded(text)) < SHORTEST:
            return None
        return await find_terms(self._transaction, self._tenant_id, text, MOST_TERMS)

    async def _by_task(self, text: str, rest: JobFilter) -> list[Source]:
        """Jobs whose task contains a text. A tenant has few tasks: the matching ones are a condition of the rows."""
        rows = await self._transaction.rows("tasks_of_tenant", tenant_id=self._tenant_id)
        tasks = [
            row["task"] for row in rows if folded(text) in folded(row["task"]) and rest.task in (None, row["task"])
        ]
        if not tasks:
            return []
        return await _Jobs(self._transaction, self._tenant_id, rest, self._before, self._limit, tasks).sources()

    async def _by_id(self, text: str, rest: JobFilter) -> list[Source]:
        """Jobs whose id begins with a text."""
        between = ids_beginning(text)
        if between is None or between[0] >= self._before:
            return []
        low, high = between
        before = min(self._before, UUID(int=min(high.int + 1, LAST_ID.int)))
        sources = await _Jobs(self._transaction, self._tenant_id, rest, before, self._limit).sources()
        return [
            Source(
                [(each, item) for each, item in source.items if each >= low],
                source.horizon if source.horizon is not None and source.horizon > low else None,
            )
            for source in sources
        ]

    async def _labelled(self, labels: list[tuple[str, str]]) -> list[Source]:
        (kind, value), *others = labels
        bound = max(self._limit + 1, MOST_LABELLED)
        rows = await self._transaction.rows(
            "list_labelled",
            **self._wanted,
            kind=kind,
            value=value,
            kinds=[kind for kind, _ in others],
            values=[value for _, value in others],
            bound=bound,
        )
        if not rows:
            return []
        ids = [row["job_id"] for row in rows if row["among"]]
        return [Source((), horizon_of(len(rows), bound, rows[-1]["job_id"])), *await self._among(ids, bound)]

    async def _among(self, ids: list[UUID], bound: int) -> list[Source]:
        """The jobs among these that match, from any home."""
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
        wanted = {**self._wanted, "ids": ids, "bound": bound, "states": home.states, "recurring": home.recurring}
        rows = await self._transaction.rows("list_stored_jobs", **wanted)
        items = [(row["id"], stored_job_item(row)) for row in rows if row["id"] is not None]
        return Source(items, None if ids is not None else horizon_of(rows[0]["seen"], bound, rows[0]["lowest"]))

    async def _live(self, ids: list[UUID] | None, bound: int, floor: UUID | None) -> Source:
        state = run_state_wanted(self._filter)
        running = state is RunState.RUNNING
        wanted = {**self._wanted, "ids": ids, "bound": bound, "state": state, "running": running}
        rows = await self._transaction.rows("list_live_jobs", **wanted, floor=floor or FIRST_ID)
        items = [(row["job_id"], live_job_item(row, self._tenant_id)) for row in rows if row["job_id"] is not None]
        whole = ids is not None or running
        first = rows[0]
        return Source(items, None if whole else horizon_of(first["seen"], bound, first["lowest"], first["highest"]))

    async def _ended(self, sources: list[Source]) -> Source:
        floor = floor_of(sources, self._limit) or FIRST_ID
        walk = EndedWalk(self._filter, self._before, self._limit, beside=ids_of(sources), tasks=self._tasks)
        while not walk.done:
            place = {"before": walk.place, "floor": floor, "state": walk.state, "bound": walk.rows_at_once}
            row = found_row(await self._transaction.row("walk_ended_jobs", tenant_id=self._tenant_id, **place))
            ids = row["ids"] or ()
            wanted = walk.saw(row["seen"], row["lowest"], row["highest"], ids)
            walk.take(await self._look_up(wanted, dict(zip(ids, row["run_ids"] or (), strict=False))))
        return Source(self._items(walk.found), walk.horizon)

    async def _ended_among(self, ids: list[UUID]) -> Source:
        walk = EndedWalk(self._filter, self._before, self._limit, tasks=self._tasks)
        walk.take(await self._look_up(ids, {}))
        return Source(self._items(walk.found))

    async def _look_up(self, ids: list[UUID], last: dict[UUID, UUID | None]) -> Sequence[Row]:
        """How jobs ended. Faster in PostgreSQL for jobs whose last run is known."""
        if not ids:
            return []
        wanted = {"tenant_id": self._tenant_id, "ids": ids, "run_ids": [last.get(job_id) for job_id in ids]}
        return await self._transaction.rows("find_ended_jobs", **wanted)

    def _items(self, rows: list[Row]) -> list[tuple[UUID, JobItem]]:
        return [(row["job_id"], ended_job_item(row, self._tenant_id)) for row in rows]


def _kept(source: Source, wanted: Callable[[JobItem], bool]) -> Source:
    return Source([(each, item) for each, item in source.items if wanted(item)], source.horizon)


def _rest(filter: JobFilter | RunFilter) -> dict[str, Any]:
    return {
        "task": filter.task,
        "queue": filter.queue,
        "due_from": filter.due_from,
        "due_until": filter.due_until,
    }


async def _ended_runs_of(transaction: Transaction, filter: RunFilter, wanted: dict[str, Any], limit: int) -> Source:
    rows = await transaction.rows("list_ended_runs_of", **wanted, bound=limit + 1)
    return Source([(row["id"], ended_run_item(row)) for row in rows if row["id"] is not None], rows[0]["lowest"])


async def _live_runs(transaction: Transaction, filter: RunFilter, wanted: dict[str, Any], limit: int) -> Source:
    running = filter.state is RunState.RUNNING
    whole = wanted["job_ids"] is not None or running

    async def look(bound: int, *, everybodys: bool) -> Source:
        how = {"running": running, "everybodys": everybodys, "bound": bound}
        rows = await transaction.rows("list_live_runs", **wanted, **how)
        horizon = None if whole else horizon_of(rows[0]["seen"], bound, rows[0]["lowest"])
        return Source([(row["id"], live_run_item(row)) for row in rows if row["id"] is not None], horizon)

    if whole:
        return await look(LIVE_BOUND, everybodys=False)
    # If most runs are this tenant's, they are found among the newest of all; if it has few, all can be sorted.
    found = await look(4 * limit + 50, everybodys=True)
    if not found.is_enough(limit):
        found = await look(LIVE_BOUND, everybodys=False)
        if found.horizon is not None:
            found = await look(SPARSE_BOUND, everybodys=True)
    return found


async def _ended_runs(transaction: Transaction, filter: RunFilter, wanted: dict[str, Any], limit: int) -> Source:
    found = Source(())
    for bound in bounds(filter, limit, BOUND):
        rows = await transaction.rows("list_ended_runs", **wanted, job_id=filter.job_id, bound=bound)
        first = rows[0]
        horizon = horizon_of(first["seen"], bound, first["lowest"], first["highest"])
        found = Source([(row["id"], ended_run_item(row)) for row in rows if row["id"] is not None], horizon)
        if found.is_enough(limit):
            break
    return found
