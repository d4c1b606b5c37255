"""Lists: the homes merged in one transaction, each read newest first and up to a bound."""

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
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.reads import ReadingRole, find_job, runs_of_job
from duetime.store.sqlite.values import listed, maybe_bytes, maybe_stamp, packed, places, unpacked


class ListingRole(ReadingRole):
    async def list_jobs(
        self, tenant_id: int, filter: JobFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[JobItem]:
        def work(connection: Connection, _now: int) -> Page[JobItem]:
            return make_page(_Jobs(connection, tenant_id, filter, before or LAST_ID, limit).sources(), limit)

        return await self.database.run(work)

    async def list_runs(
        self, tenant_id: int, filter: RunFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[RunItem]:
        wanted = {
            "tenant_id": tenant_id,
            "before": (before or LAST_ID).bytes,
            "job_id": maybe_bytes(filter.job_id),
            "state": filter.state,
            "limit": limit + 1,
            **_rest(filter),
        }

        def work(connection: Connection, _now: int) -> Page[RunItem]:
            sources = []
            if filter.state is None or not filter.state.is_end:
                sources.append(_live_runs(connection, filter, wanted, limit))
            if filter.state is None or filter.state.is_end:
                sources.append(_ended_runs(connection, filter, wanted, limit))
            return make_page(sources, limit)

        return await self.database.run(work)

    async def list_dead_letters(
        self, tenant_id: int, filter: DeadFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[DeadLetter]:
        bound = limit + 1 if filter == DeadFilter() else BOUND
        wanted = {
            "tenant_id": tenant_id,
            "before": (before or LAST_ID).bytes,
            "bound": bound,
            "limit": limit + 1,
            **dead_wanted(filter),
        }
        rows = await self.database.run(lambda connection, _: connection.records("list_dead_letters", wanted))
        items = [(row["run_id"], dead_letter(row)) for row in rows if row["run_id"] is not None]
        horizon = None if filter.job_id is not None else horizon_of(rows[0]["seen"], bound, rows[0]["lowest"])
        return make_page([Source(items, horizon)], limit)

    async def group_dead_letters(self, tenant_id: int, limit: int = 50, most: int = 100_000) -> DeadGroups:
        wanted = {"tenant_id": tenant_id, "most": most + 1, "limit": limit}
        rows = await self.database.run(lambda connection, _: connection.records("group_dead_letters", wanted))
        counted = rows[0]["counted"] if rows else 0
        groups = tuple(dead_group(row, sorted(row["tasks"])) for row in rows)
        return DeadGroups(groups, min(counted, most), counted > most)

    async def job_status(self, tenant_id: int, job_id: UUID) -> JobReport:
        def work(connection: Connection, _now: int) -> JobReport:
            job, recurring = find_job(connection, tenant_id, job_id)
            return report(job, recurring, runs_of_job(connection, tenant_id, job_id, 100))

        return await self.database.run(work)


class _Jobs:
    """One page of jobs, home by home."""

    def __init__(self, connection: Connection, tenant_id: int, filter: JobFilter, before: UUID, limit: int) -> None:
        self._connection = connection
        self._tenant_id = tenant_id
        self._filter = filter
        self._before = before
        self._limit = limit
        self._wanted = {
            "tenant_id": tenant_id,
            "before": before.bytes,
            "limit": limit + 1,
            **_rest(filter),
        }

    def sources(self) -> list[Source]:
        if self._filter.ids is not None:
            wanted = [job_id for job_id in self._filter.ids if job_id < self._before]
            return self._among(wanted, len(wanted) + 1)
        labels = wanted_labels(self._filter)
        if labels:
            return self._labelled(labels)
        sources = []
        for bound in bounds(self._filter, self._limit, BOUND):
            sources = [self._stored(None, bound)]
            if sources[0].is_enough(self._limit):
                break
        if wants_live(self._filter):
            floor = floor_of(sources, self._limit)
            for bound in bounds(self._filter, self._limit, BOUND):
                live = self._live(None, bound, floor)
                if live.is_enough(self._limit):
                    break
            sources.append(live)
        if wants_ended(self._filter):
            sources.append(self._ended(sources))
        return sources

    def _labelled(self, labels: list[tuple[str, str]]) -> list[Source]:
        (kind, value), *others = labels
        bound = max(self._limit + 1, MOST_LABELLED)
        label = {"kind": kind, "value": value, "others": listed(others), "bound": bound}
        rows = self._connection.records("list_labelled", {**self._wanted, **label})
        if not rows:
            return []
        ids = [row["job_id"] for row in rows if row["among"]]
        return [Source((), horizon_of(len(rows), bound, rows[-1]["job_id"])), *self._among(ids, bound)]

    def _among(self, ids: list[UUID], bound: int) -> list[Source]:
        """Those of these jobs that match, wherever they live."""
        sources = [self._stored(ids, bound)]
        if wants_live(self._filter) and (rest := still_wanted(ids, sources, self._limit)):
            sources.append(self._live(rest, bound, None))
        if wants_ended(self._filter) and (rest := still_wanted(ids, sources, self._limit)):
            sources.append(self._ended_among(rest))
        return sources

    def _stored(self, ids: list[UUID] | None, bound: int) -> Source:
        home = of_first_home(self._filter)
        if home is None:
            return Source(())
        states = None if home.states is None else listed(home.states)
        wanted = {**self._wanted, **_packed(ids), "bound": bound, "states": states, "recurring": home.recurring}
        rows = self._connection.records("list_stored_jobs", wanted)
        items = [(row["id"], stored_job_item(row)) for row in rows if row["id"] is not None]
        return Source(items, None if ids is not None else horizon_of(rows[0]["seen"], bound, rows[0]["lowest"]))

    def _live(self, ids: list[UUID] | None, bound: int, floor: UUID | None) -> Source:
        state = run_state_wanted(self._filter)
        held = _held(self._connection) if state is RunState.RUNNING and ids is None else None
        rows = self._connection.records(
            "list_live_jobs",
            {
                **self._wanted,
                **_packed(ids),
                **_holding(held),
                "bound": bound,
                "state": state,
                "floor": (floor or FIRST_ID).bytes,
            },
        )
        items = [(row["job_id"], live_job_item(row, self._tenant_id)) for row in rows if row["job_id"] is not None]
        whole = ids is not None or held is not None
        first = rows[0]
        return Source(items, None if whole else horizon_of(first["seen"], bound, first["lowest"], first["highest"]))

    def _ended(self, sources: list[Source]) -> Source:
        floor = floor_of(sources, self._limit)
        walk = EndedWalk(self._filter, self._before, self._limit, beside=ids_of(sources))
        rare = walk.state is not None and walk.state != RunState.SUCCEEDED
        name = "walk_ended_jobs_by_state" if rare else "walk_ended_jobs"
        while not walk.done:
            place = {"before": walk.place.bytes, "floor": (floor or FIRST_ID).bytes}
            step = {**self._wanted, **place, "state": walk.state, "bound": walk.rows_at_once}
            rows = self._connection.records(name, step)
            ends = [row["job_id"] for row in rows] or [None]
            one_offs = [row["job_id"] for row in rows if row["one_off"]]
            walk.take(self._look_up(walk.saw(sum(row["ends"] for row in rows), ends[-1], ends[0], one_offs)))
        return Source(self._items(walk.found), walk.horizon)

    def _ended_among(self, ids: list[UUID]) -> Source:
        walk = EndedWalk(self._filter, self._before, self._limit)
        walk.take(self._look_up(ids))
        return Source(self._items(walk.found))

    def _look_up(self, ids: list[UUID]) -> list[Any]:
        return self._connection.records("find_ended_jobs", {**self._wanted, **_packed(ids)}) if ids else []

    def _items(self, rows: list[Any]) -> list[tuple[UUID, JobItem]]:
        return [(row["job_id"], ended_job_item(row, self._tenant_id)) for row in rows]


def dead_wanted(filter: DeadFilter) -> dict[str, Any]:
    return {
        "run_id": maybe_bytes(filter.run_id),
        "job_id": maybe_bytes(filter.job_id),
        "task": filter.task,
        "queue": filter.queue,
        "failure": filter.failure,
        "died_from": maybe_stamp(filter.died_from),
        "died_until": maybe_stamp(filter.died_until),
        "error": filter.error,
        "fingerprint": filter.fingerprint,
    }


def _rest(filter: JobFilter | RunFilter) -> dict[str, Any]:
    return {
        "task": filter.task,
        "queue": filter.queue,
        "due_from": maybe_stamp(filter.due_from),
        "due_until": maybe_stamp(filter.due_until),
    }


def _packed(ids: list[UUID] | None) -> dict[str, Any]:
    blob = None if ids is None else packed(ids)
    return {"ids": blob, "places": None if blob is None else places(blob)}


def _held(connection: Connection) -> bytes:
    """The ids of all runs that workers hold, once each: a claim that is not closed yet still names a run that its
    worker gave back and claimed again."""
    blobs = [row[0] for row in connection.rows("held_runs", {})]
    return b"".join(dict.fromkeys(each for blob in blobs for each in unpacked(blob)))


def _holding(held: bytes | None) -> dict[str, Any]:
    return {"held": held, "held_places": None if held is None else places(held)}


def _live_runs(connection: Connection, filter: RunFilter, wanted: dict[str, Any], limit: int) -> Source:
    held = _held(connection) if filter.state is RunState.RUNNING and filter.job_id is None else None
    this = {**wanted, **_holding(held)}

    def look(bound: int, *, everybodys: bool) -> Source:
        rows = connection.records("list_live_runs", {**this, "bound": bound, "everybodys": everybodys})
        whole = filter.job_id is not None or held is not None
        horizon = None if whole else horizon_of(rows[0]["seen"], bound, rows[0]["lowest"])
        return Source([(row["id"], live_run_item(row)) for row in rows if row["id"] is not None], horizon)

    if filter.job_id is not None or held is not None:
        return look(LIVE_BOUND, everybodys=False)
    # Where most runs are this tenant's, the newest of all are soon enough; if it has few, they can all be sorted.
    found = look(4 * limit + 50, everybodys=True)
    if not found.is_enough(limit):
        found = look(LIVE_BOUND, everybodys=False)
        if found.horizon is not None:
            found = look(SPARSE_BOUND, everybodys=True)
    return found


def _ended_runs(connection: Connection, filter: RunFilter, wanted: dict[str, Any], limit: int) -> Source:
    if filter.job_id is not None:
        name = "list_ended_runs_of_job"
    elif filter.state is not None and filter.state is not RunState.SUCCEEDED:
        name = "list_ended_runs_by_state"
    else:
        name = "list_ended_runs"
    found = Source(())
    for bound in bounds(filter, limit, BOUND):
        rows = connection.records(name, {**wanted, "bound": bound})
        first = rows[0]
        horizon = horizon_of(first["seen"], bound, first["lowest"], first["highest"])
        found = Source([(row["id"], ended_run_item(row)) for row in rows if row["id"] is not None], horizon)
        if found.is_enough(limit):
            break
    return found
