"""Firing: due cursors become runs, and move on, in one transaction."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from duetime.model.event import EventKind
from duetime.model.firing import DueJob, Fire, LiveRun, PassedBy, SetAside
from duetime.model.job import lane_of
from duetime.store.completions import REPLACED
from duetime.store.protocol import Hint, PlanFires, Scan
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.control import stop_run
from duetime.store.sqlite.limiting import free_parked
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.suspecting import put_on_trial
from duetime.store.sqlite.telling import is_heard, tell
from duetime.store.sqlite.values import duration, identity, maybe_stamp, moment, stamp


class FiringRole(Role):
    async def fire_due(self, limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
        replaced = False
        passing = {job_id.bytes for job_id in without}

        def work(connection: Connection, now: int) -> Scan:
            nonlocal replaced
            found = connection.rows("due_cursors", {"now": now, "limit": limit + len(passing)})
            rows = [row for row in found if row[0] not in passing][:limit] if passing else found
            due = [_due(connection, row) for row in rows]
            decided = plan(due, moment(now)) if due else ()
            fires = [item for item in decided if isinstance(item, Fire)]
            aside = tuple(item for item in decided if isinstance(item, SetAside))
            passed = tuple(item for item in decided if isinstance(item, PassedBy))
            live = {job.job_id: job.live for job in due}
            for fire in fires:
                if fire.replaces:
                    replaced = True
                    for run in live[fire.job_id]:
                        stop_run(connection, now, fire.lane.tenant_id, run.run_id.bytes, REPLACED)
            self._fire(connection, now, fires)
            if fires:
                put_on_trial(connection, now, [fire.job_id for fire in fires])
            connection.many("set_aside", [{"job_id": item.job_id.bytes, "problem": item.problem} for item in aside])
            since = now + 1 if passing or passed else 0  # what is passed by now must not call for a look at once
            next_scan = None if len(rows) >= limit else connection.value("next_scan", {"since": since})
            next_in = None if next_scan is None else duration(next_scan - now)
            return Scan(len(fires), aside, len(rows), next_in, passed)

        scan = await self.database.run(work)
        if scan.fired:
            self.hints.give(Hint.READY)
        if replaced:
            self.hints.give(Hint.CANCEL)
        return scan

    async def unblock(self, limit: int) -> int:
        def work(connection: Connection, now: int) -> int:
            freed = len(connection.rows("unblock", {"limit": limit, "now": now}))
            if freed:
                put_on_trial(connection, now)
            return freed + free_parked(connection, now, limit)

        freed = await self.database.run(work)
        if freed:
            self.hints.give(Hint.READY)
        return freed

    def _fire(self, connection: Connection, now: int, fires: Sequence[Fire]) -> None:
        lanes = self.lane_book.ids(connection, {fire.lane for fire in fires})
        runs, skips, cursors = [], [], []
        for fire in fires:
            of_job = {"job_id": fire.job_id.bytes, "lane_id": lanes[fire.lane], "now": now}
            of_job["tenant_id"] = fire.lane.tenant_id
            for run in fire.runs:
                due_at = stamp(run.due_at)
                planned = {"run_id": run.run_id.bytes, "due_at": due_at, "ready_at": due_at, "blocked": run.blocked}
                runs.append({**of_job, **planned, "manual": False})
            for skip in fire.skips:
                missed = {"run_id": skip.run_id.bytes, "due_at": stamp(skip.due_at), "reason": skip.reason}
                skips.append({**of_job, **missed})
            cursors.append({**of_job, **_cursor(fire)})
        for kind, rows in ((EventKind.FIRED, runs), (EventKind.SKIPPED, skips)):
            if rows and is_heard(connection, now):
                _tell(connection, now, kind, rows)
        connection.many("make_runs", runs)
        connection.many("skip_runs", skips)
        connection.many("move_cursors", cursors)


def _tell(connection: Connection, now: int, kind: EventKind, rows: Sequence[dict[str, Any]]) -> None:
    by_tenant: dict[int, list[UUID]] = defaultdict(list)
    for row in rows:
        by_tenant[row["tenant_id"]].append(identity(row["run_id"]))
    for tenant_id, run_ids in by_tenant.items():
        tell(connection, now, kind, tenant_id, run_ids)


def _due(connection: Connection, row: tuple[Any, ...]) -> DueJob:
    """A job in view; one that is decided when it is due with its live runs."""
    job_id, tenant_id, queue, tier, task, schedule, next_fire_at, options, made, exact, owed = row
    live: tuple[LiveRun, ...] = ()
    if exact:
        found = connection.rows("live_runs_of", {"tenant_id": tenant_id, "job_id": job_id})
        live = tuple(LiveRun(identity(run_id), bool(running)) for run_id, running in found)
    lane = lane_of(tenant_id, queue, tier, task, options)
    return DueJob(identity(job_id), lane, schedule, moment(next_fire_at), options, made, live, owed)


def _cursor(fire: Fire) -> dict[str, Any]:
    return {
        "next_fire_at": maybe_stamp(fire.next_fire_at),
        "scan_at": maybe_stamp(fire.scan_at),
        "last_fire_at": maybe_stamp(fire.last_fire_at),
        "made": len(fire.runs),
        "missed": len(fire.skips),
        "recurring": fire.recurring,
    }
