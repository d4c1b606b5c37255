"""Figures: counts up to a cap, the newest rows of history, the first cursors of each stretch of time."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from duetime.model.figures import Ahead, Recent, Standing
from duetime.model.firing import LOOK_AHEAD
from duetime.model.listing import RunEnd
from duetime.store.figure_views import CAP, Looking, count_to, recent, waiting
from duetime.store.list_views import run_end
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import microseconds, moment, places, stamp

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
        def work(connection: Connection, _now: int) -> Ahead:
            looking = Looking(steps)
            whole = {"tenant_id": tenant_id, "start": stamp(start), "until": stamp(start + step * steps)}
            for at, queue in connection.rows("upcoming_runs", {**whole, "most": looking.each}):
                looking.made(moment(at), queue)
            for number in range(steps):
                low, until = start + step * number, start + step * (number + 1)
                stretch = {"start": stamp(low - LOOK_AHEAD if number == 0 else low), "until": stamp(until)}
                wanted = {**stretch, "tenant_id": tenant_id, "each": looking.each}
                if looking.saw(number, connection.records("upcoming_cursors", wanted)) and looking.left > 0:
                    cap = looking.left
                    looking.counted(number, connection.value("count_cursors", {**stretch, "cap": cap}), cap)
            return looking.ahead()

        return await self.database.run(work)

    async def recent_runs(self, tenant_id: int, job_ids: Sequence[UUID], most: int) -> dict[UUID, list[RunEnd]]:
        def work(connection: Connection, _now: int) -> dict[UUID, list[RunEnd]]:
            wanted = {"tenant_id": tenant_id, "most": most}
            return {
                job_id: [run_end(row) for row in connection.records("recent_runs", {**wanted, "job_id": job_id.bytes})]
                for job_id in job_ids
            }

        return await self.database.run(work)
