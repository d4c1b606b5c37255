"""Firing: due cursors make runs and move on, in one transaction."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from datetime import timedelta
from uuid import UUID

import msgspec

from duetime.model.event import EventKind
from duetime.model.firing import DueJob, Fire, LiveRun, PassedBy, SetAside
from duetime.model.job import lane_of
from duetime.store.protocol.store import Hint, PlanFires, Scan
from duetime.store.rules.completions import REPLACED
from duetime.store.shared.control import stop_runs
from duetime.store.shared.pausing import keep_fences
from duetime.store.shared.suspects import put_on_trial
from duetime.store.sqlite.backlogs import Due, Turns
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.event_log import append_events, is_heard
from duetime.store.sqlite.limiting import free_parked
from duetime.store.sqlite.occurrences import NewRun, Skipped, make_runs, skip_runs
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.transaction import SqliteTransaction, at_once
from duetime.store.sqlite.values import duration, identity, listed, maybe_stamp, moment, packed, stamp

_live = msgspec.json.Decoder(list[tuple[UUID, UUID, int]])


class FiringRole(Role):
    async def fire_due(self, limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
        replaced = False

        def work(connection: Connection, now: int) -> Scan:
            nonlocal replaced
            turns = Turns(connection, now, limit, without)
            due = _due(connection, turns.taken)
            decided = plan(due, moment(now)) if due else ()
            fires = [item for item in decided if isinstance(item, Fire)]
            aside = tuple(item for item in decided if isinstance(item, SetAside))
            passed = tuple(item for item in decided if isinstance(item, PassedBy))
            live = {job.job_id: job.live for job in due}
            for fire in fires:
                if fire.replaces:
                    replaced = True
                    stopped = [run.run_id for run in live[fire.job_id]]
                    at_once(stop_runs(SqliteTransaction(connection, now), fire.lane.tenant_id, stopped, REPLACED))
            self._fire(connection, now, fires)
            turns.charge(Counter(fire.lane.tenant_id for fire in fires))
            if fires and connection.value("has_suspects", {}):
                at_once(put_on_trial(SqliteTransaction(connection, now), [fire.job_id for fire in fires]))
            connection.many("set_aside", [{"job_id": item.job_id.bytes, "problem": item.problem} for item in aside])
            since = now + 1 if without or passed else 0  # a job that is passed by must not cause a scan at once
            next_scan = None if turns.full else connection.value("next_scan", {"since": since})
            next_in = None if next_scan is None else duration(next_scan - now)
            if turns.has_more and not turns.full:
                next_in = timedelta(0)
            kept_waiting = bool(self.database.used)
            return Scan(len(fires), aside, len(due) + turns.held, next_in, passed, turns.held, kept_waiting)

        scan = await self.database.run(work)
        self.ready.announce(scan.fired)
        if replaced:
            self.hints.give(Hint.CANCEL)
        return scan

    async def unblock(self, limit: int) -> int:
        def work(connection: Connection, now: int) -> int:
            freed = len(connection.rows("unblock", {"limit": limit, "now": now}))
            if freed:
                at_once(put_on_trial(SqliteTransaction(connection, now)))
            return freed + free_parked(connection, now, limit)

        freed = await self.database.run(work)
        self.ready.announce(freed)
        return freed

    def _fire(self, connection: Connection, now: int, fires: Sequence[Fire]) -> None:
        lanes = self.lane_book.ids(connection, {fire.lane for fire in fires})
        runs: dict[int, list[NewRun]] = defaultdict(list)
        skips: dict[int, list[Skipped]] = defaultdict(list)
        for fire in fires:
            job_id, lane_id = fire.job_id.bytes, lanes[fire.lane]
            for run in fire.runs:
                due_at = stamp(run.due_at)
                made = NewRun(job_id, run.run_id.bytes, lane_id, due_at, due_at, run.blocked)
                runs[fire.lane.tenant_id].append(made)
            for skip in fire.skips:
                missed = Skipped(job_id, skip.run_id.bytes, lane_id, stamp(skip.due_at), skip.reason)
                skips[fire.lane.tenant_id].append(missed)
        for kind, rows in ((EventKind.FIRED, runs), (EventKind.SKIPPED, skips)):
            if rows and is_heard(connection, now):
                for tenant_id, of_tenant in rows.items():
                    append_events(connection, now, kind, tenant_id, [identity(row.run_id) for row in of_tenant])
        make_runs(connection, now, [run for of_tenant in runs.values() for run in of_tenant], manual=False)
        at_once(keep_fences(SqliteTransaction(connection, now), fires))
        skip_runs(connection, now, [skip for of_tenant in skips.values() for skip in of_tenant])
        _move_cursors(connection, now, fires)


def _move_cursors(connection: Connection, now: int, fires: Sequence[Fire]) -> None:
    going_on = [fire for fire in fires if fire.next_fire_at is not None]
    if going_on:
        words = [
            (
                maybe_stamp(fire.next_fire_at),
                maybe_stamp(fire.scan_at),
                maybe_stamp(fire.last_fire_at),
                len(fire.runs),
                len(fire.skips),
            )
            for fire in going_on
        ]
        this = {"ids": packed(fire.job_id for fire in going_on), "words": listed(words), "now": now}
        connection.execute("move_cursors", this)
    over = [fire for fire in fires if fire.next_fire_at is None]
    if over:
        ends = [(len(fire.runs), len(fire.skips), int(fire.recurring)) for fire in over]
        this = {"ids": packed(fire.job_id for fire in over), "words": listed(ends), "now": now}
        connection.execute("end_cursors", this)


def _due(connection: Connection, taken: Sequence[Due]) -> list[DueJob]:
    """The jobs in view. Jobs that are decided when they are due come with their live runs."""
    live: dict[UUID, list[LiveRun]] = defaultdict(list)
    exact = [due for due in taken if due.exact]
    if exact:
        of_jobs = {"ids": packed(due.job_id for due in exact), "tenants": listed([due.tenant_id for due in exact])}
        for job_id, run_id, running in _live.decode(connection.value("live_runs_of", of_jobs)):
            live[job_id].append(LiveRun(run_id, bool(running)))
    return [
        DueJob(
            due.job_id,
            lane_of(due.tenant_id, due.queue, due.tier, due.task, options := _bytes(due.options)),
            bytes.fromhex(due.schedule),
            moment(due.next_fire_at),
            options,
            due.made,
            tuple(live.get(due.job_id, ())),
            _bytes(due.owed),
        )
        for due in taken
    ]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
