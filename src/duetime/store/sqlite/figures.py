"""Figures: counts up to a cap, the newest rows of history, what a tenant's jobs have ahead of them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from duetime.model.lists import RunEnd
from duetime.model.overview import Ahead, AheadPage, ComingJob, Recent, Standing
from duetime.store.shared.figure_rows import (
    CAP,
    COUNTED,
    LOOKED_AT,
    MOST_MADE,
    ahead_page,
    coming_job,
    count_to,
    recent,
    sample_bound,
    waiting,
)
from duetime.store.shared.list_rows import run_end
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity, microseconds, moment, places, stamp

_ROWS = 20_000
"""How much of history is read."""


class FigureRole(Role):
    async def recent(self, tenant_id: int, window: timedelta, step: timedelta) -> Recent:
        def work(connection: Connection, now: int) -> Recent:
            until = moment(now)
            since = until - window
            wanted = {"tenant_id": tenant_id, "most": _ROWS, "since": stamp(since), "step": microseconds(step)}
            rows = connection.rows("recent_attempts", wanted)
            seen = since
            for kind, number, _, _, _, value in rows:
                if kind == "seen" and number >= _ROWS:
                    seen = max(seen, since + timedelta(seconds=value))
            return recent(rows, since, until, step, seen)

        return await self.database.run(work)

    async def standing(self, tenant_id: int) -> Standing:
        def work(connection: Connection, now: int) -> Standing:
            held = b"".join([row[0] for row in connection.rows("held_runs", {})])
            wanted = {"tenant_id": tenant_id, "cap": CAP, "held": held, "held_places": places(held)}
            found = connection.row("standing", wanted)
            assert found is not None
            jobs, running, dead = (count_to(number, CAP) for number in found)
            lanes = connection.rows("waiting_lanes", {"tenant_id": tenant_id, "now": now})
            waits = waiting((task, queue, moment(at)) for task, queue, at in lanes if at is not None)
            return Standing(jobs, running, dead, waits)

        return await self.database.run(work)

    async def ahead(self, tenant_id: int, start: datetime, step: timedelta, steps: int) -> Ahead:
        def work(connection: Connection, now: int) -> Ahead:
            span = {"since": max(now, stamp(start)), "until": stamp(start + step * steps), "most": MOST_MADE}
            stretches = {"tenant_id": tenant_id, "start": stamp(start), "step": microseconds(step)}
            runs = {
                (stretch, queue): count for stretch, queue, count in connection.rows("runs_ahead", span | stretches)
            }
            ids = _ids(connection, tenant_id, LAST_ID, LOOKED_AT + 1)
            looked = there = len(ids)
            if looked > LOOKED_AT:
                there = connection.value("count_jobs_to_sample", {"tenant_id": tenant_id, "most": COUNTED})
                bound = {"bound": sample_bound(there), "most": COUNTED}
                ids = [row[0] for row in connection.rows("sample_jobs", {"tenant_id": tenant_id, **bound})]
                looked = len(ids)
            whole = there < COUNTED and sum(runs.values()) < MOST_MADE
            return Ahead(moment(now), _coming(connection, tenant_id, ids), runs, looked, there, whole)

        return await self.database.run(work)

    async def ahead_page(
        self, tenant_id: int, start: datetime, end: datetime, before: UUID | None, most: int
    ) -> AheadPage:
        def work(connection: Connection, now: int) -> AheadPage:
            top = before or LAST_ID
            ids = _ids(connection, tenant_id, top, most)
            horizon = identity(ids[-1]) if len(ids) >= most else None
            span = {"since": max(now, stamp(start)), "until": stamp(end), "most": most, "tenant_id": tenant_id}
            below = {"before": top.bytes, "floor": (horizon or FIRST_ID).bytes}
            made = [(identity(job_id), queue) for job_id, queue in connection.rows("jobs_of_runs_ahead", span | below)]
            return ahead_page(moment(now), _coming(connection, tenant_id, ids), made, horizon, most)

        return await self.database.run(work)

    async def recent_runs(self, tenant_id: int, job_ids: Sequence[UUID], most: int) -> dict[UUID, list[RunEnd]]:
        def work(connection: Connection, _now: int) -> dict[UUID, list[RunEnd]]:
            wanted = {"tenant_id": tenant_id, "most": most}
            return {
                job_id: [run_end(row) for row in connection.records("recent_runs", {**wanted, "job_id": job_id.bytes})]
                for job_id in job_ids
            }

        return await self.database.run(work)


def _ids(connection: Connection, tenant_id: int, before: UUID, most: int) -> list[bytes]:
    wanted = {"tenant_id": tenant_id, "before": before.bytes, "most": most}
    return [row[0] for row in connection.rows("job_ids", wanted)]


def _coming(connection: Connection, tenant_id: int, ids: Sequence[bytes]) -> list[ComingJob]:
    packed = b"".join(ids)
    wanted = {"tenant_id": tenant_id, "ids": packed, "places": places(packed)}
    return [coming_job(row) for row in connection.records("coming_jobs", wanted)]
