"""Firing: due cursors become runs, and move on, in one transaction."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from duetime.model.firing import DueJob, Fire, LiveRun, SetAside
from duetime.model.job import lane_of
from duetime.model.lane import LaneKey
from duetime.model.moments import maybe_stamp, stamp
from duetime.store.completions import REPLACED
from duetime.store.postgres.clashes import again_after_clash
from duetime.store.postgres.control import stop_runs
from duetime.store.postgres.database import SQL, Connection, Row, columns
from duetime.store.postgres.limiting import LimitingRole
from duetime.store.protocol import Hint, PlanFires, Scan


class FiringRole(LimitingRole):
    @again_after_clash
    async def fire_due(self, limit: int, plan: PlanFires) -> Scan:
        fires: list[Fire] = []
        aside: list[SetAside] = []
        busy: set[UUID] = set()
        async with self.database.transaction() as connection:
            rows = await connection.fetch(SQL["due_cursors"], limit)
            if rows:
                due = await _due(connection, rows)
                now = await connection.fetchval(SQL["clock"])
                for decided in plan(due, now):
                    if isinstance(decided, Fire):
                        fires.append(decided)
                    else:
                        aside.append(decided)
                busy = await _replace(connection, fires, {job.job_id: job.live for job in due if job.live})
                fires = [fire for fire in fires if fire.job_id not in busy]
                lanes = await self.lane_book.ids_within(connection, {fire.lane for fire in fires})
                await _fire(connection, fires, lanes)
            if aside:
                await connection.execute(
                    SQL["set_aside"], [item.job_id for item in aside], [item.problem for item in aside]
                )
            full = len(rows) - len(busy) >= limit
            next_in = None if full else await connection.fetchval(SQL["next_scan"])
        if fires:
            self.hints.give(Hint.READY)
        if any(fire.replaces for fire in fires):
            self.hints.give(Hint.CANCEL)
        return Scan(len(fires), tuple(aside), len(rows) - len(busy), next_in)

    async def unblock(self, limit: int) -> int:
        freed = await self.database.execute("unblock", limit) + await self.free_parked(limit)
        if freed:
            self.hints.give(Hint.READY)
        return freed


async def _due(connection: Connection, rows: Sequence[Row]) -> list[DueJob]:
    """The jobs in view; those that are decided when they are due with their live runs."""
    live: dict[UUID, list[LiveRun]] = defaultdict(list)
    exact = [(row["tenant_id"], row["job_id"]) for row in rows if row["exact"]]
    if exact:
        for job_id, run_id, running in await connection.fetch(SQL["live_runs_of"], *columns(exact, 2)):
            live[job_id].append(LiveRun(run_id, running))
    return [
        DueJob(
            row["job_id"],
            lane_of(row["tenant_id"], row["queue"], row["tier"], row["task"], row["options"]),
            row["schedule"],
            row["next_fire_at"],
            row["options"],
            row["made"],
            tuple(live.get(row["job_id"], ())),
        )
        for row in rows
    ]


async def _replace(
    connection: Connection, fires: Sequence[Fire], live: Mapping[UUID, tuple[LiveRun, ...]]
) -> set[UUID]:
    """Stop the runs that others take the place of; returns the jobs that have to wait, because somebody else holds a
    run of theirs: a scanner waits for nobody while it holds a thousand cursors."""
    jobs = {run.run_id: fire for fire in fires if fire.replaces for run in live[fire.job_id]}
    if not jobs:
        return set()
    held = {row[0] for row in await connection.fetch(SQL["hold_free_runs"], list(jobs))}
    rest = [run_id for run_id in jobs if run_id not in held]
    taken = await connection.fetch(SQL["which_live"], rest) if rest else []
    busy = {jobs[row[0]].job_id for row in taken}
    stopped: dict[int, list[UUID]] = defaultdict(list)
    for run_id in held:
        if jobs[run_id].job_id not in busy:
            stopped[jobs[run_id].lane.tenant_id].append(run_id)
    for tenant_id, run_ids in stopped.items():
        await stop_runs(connection, tenant_id, run_ids, REPLACED)
    return busy


async def _fire(connection: Connection, fires: Sequence[Fire], lanes: Mapping[LaneKey, int]) -> None:
    runs, skips, cursors = [], [], []
    for fire in fires:
        lane = lanes[fire.lane]
        runs += [(fire.job_id, run.run_id, lane, stamp(run.due_at), run.blocked) for run in fire.runs]
        skips += [(fire.job_id, skip.run_id, lane, skip.due_at, skip.reason) for skip in fire.skips]
        moments = (maybe_stamp(fire.next_fire_at), maybe_stamp(fire.scan_at), stamp(fire.last_fire_at))
        cursors.append((fire.job_id, *moments, len(fire.runs), len(fire.skips), fire.recurring))
    if runs:
        *known, blocked = columns(runs, 5)
        await connection.execute(SQL["make_runs"], *known, None, _unless_all(blocked, usual=False), False)
    if skips:
        await connection.execute(SQL["skip_runs"], *columns(skips, 5))
    if cursors:
        *known, made, missed, recurring = columns(cursors, 7)
        rest = (_unless_all(made, usual=1), _unless_all(missed, usual=0), _unless_all(recurring, usual=True))
        await connection.execute(SQL["move_cursors"], *known, *rest)


def _unless_all(values: list[Any], *, usual: int) -> list[Any] | None:
    """A column, or nothing where it says the usual everywhere: saying it a thousand times costs as much as the rest."""
    return None if values.count(usual) == len(values) else values
