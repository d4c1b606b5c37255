"""Control: what people ask for while jobs are on their way."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from duetime.ids import once_run_id
from duetime.model.attempt import Run
from duetime.model.edit import Changes
from duetime.model.event import EventKind
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import Job, JobState, lane_of
from duetime.model.lane import LaneKey
from duetime.model.withdrawn_runs import Withdrawn
from duetime.store.protocol.store import Hint
from duetime.store.rules.completions import CANCELLED_BY_REQUEST
from duetime.store.rules.job_control import (
    MISSED_BY_PAUSE,
    backfilled,
    cursor_after_pause,
    held_cursor,
    manual_run,
)
from duetime.store.shared.answers import first_answer, keep_answer
from duetime.store.shared.job_rows import Fields
from duetime.store.shared.reads import find_job, find_run
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.edits import EditingRole, steerable
from duetime.store.sqlite.event_log import tell
from duetime.store.sqlite.limiting import free_holds
from duetime.store.sqlite.occurrences import NewRun, Skipped, make_runs, skip_runs
from duetime.store.sqlite.role import Context, Role
from duetime.store.sqlite.suspects import put_on_trial
from duetime.store.sqlite.transaction import SqliteTransaction, at_once
from duetime.store.sqlite.values import identity, maybe_stamp, moment, stamp


class ControlRole(Role):
    def __init__(self, context: Context, edits: EditingRole) -> None:
        super().__init__(context)
        self._edits = edits

    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        return await self._edits.edit_job(tenant_id, job_id, changes, version)

    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        def work(connection: Connection, now: int) -> Job:
            self.stop_job(connection, now, tenant_id, job_id)
            job = at_once(find_job(SqliteTransaction(connection, now), tenant_id, job_id))[0]
            tell(connection, now, EventKind.CHANGED, tenant_id, [job_id])
            return job

        job = await self.database.run(work)
        self.hints.give(Hint.CANCEL)
        return job

    def stop_job(self, connection: Connection, now: int, tenant_id: int, job_id: UUID) -> None:
        """No further run: end what waits, and ask what runs to stop."""
        this = {"tenant_id": tenant_id, "job_id": job_id.bytes, "now": now}
        for row in connection.records("lock_job", this):
            if not row["recurring"]:
                self._cancel_once(connection, this, row)
            elif row["state"] < 2:
                connection.execute("cancel_recurring", this)
        for run in connection.rows("lock_live_runs", this):
            stop_run(connection, now, tenant_id, run[0])

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        def work(connection: Connection, now: int) -> Run:
            stop_run(connection, now, tenant_id, run_id.bytes)
            return at_once(find_run(SqliteTransaction(connection, now), tenant_id, run_id))

        run = await self.database.run(work)
        self.hints.give(Hint.CANCEL)
        return run

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        def work(connection: Connection, now: int) -> Job:
            row = steerable(connection, tenant_id, job_id)
            if row["state"] == JobState.ACTIVE:
                _pause(connection, now, tenant_id, job_id, row)
                tell(connection, now, EventKind.CHANGED, tenant_id, [job_id])
            return at_once(find_job(SqliteTransaction(connection, now), tenant_id, job_id))[0]

        return await self.database.run(work)

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        def work(connection: Connection, now: int) -> Job:
            row = steerable(connection, tenant_id, job_id)
            if row["state"] == JobState.PAUSED:
                of_job = {"tenant_id": tenant_id, "job_id": job_id.bytes}
                newest = []
                if row["next_fire_at"] is None:
                    newest = connection.rows("ended_runs_of_job", {**of_job, "limit": 1})
                    newest += connection.rows("lock_live_runs", of_job)
                cursor = cursor_after_pause(row, [identity(run[0]) for run in newest], moment(now))
                if cursor is not None:
                    place = {"scan_at": stamp(cursor.scan_at), "next_fire_at": stamp(cursor.next_fire_at)}
                    connection.execute("put_cursor", {**of_job, **place, "exact": cursor.exact})
                connection.execute("set_job_state", {**of_job, "state": JobState.ACTIVE})
                tell(connection, now, EventKind.CHANGED, tenant_id, [job_id])
            return at_once(find_job(SqliteTransaction(connection, now), tenant_id, job_id))[0]

        return await self.database.run(work)

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        def work(connection: Connection, now: int) -> Run:
            made = at_once(first_answer(SqliteTransaction(connection, now), tenant_id, request, UUID))
            if made is None:
                row = steerable(connection, tenant_id, job_id)
                run = manual_run(job_id, moment(now), nonce)
                self._make_runs(connection, now, tenant_id, job_id, row, [(run.run_id, run.due_at, run.due_at)])
                made = run.run_id
                at_once(keep_answer(SqliteTransaction(connection, now), tenant_id, request, made))
            return at_once(find_run(SqliteTransaction(connection, now), tenant_id, made))

        found = await self.database.run(work)
        self.ready.announce()
        return found

    async def backfill_job(
        self,
        tenant_id: int,
        job_id: UUID,
        fires: Sequence[datetime],
        nonce: bytes,
        rate: float,
        request: KeyedRequest | None = None,
    ) -> int:
        def work(connection: Connection, now: int) -> int:
            count = at_once(first_answer(SqliteTransaction(connection, now), tenant_id, request, int))
            if count is None:
                row = steerable(connection, tenant_id, job_id)
                runs = backfilled(job_id, fires, moment(now), nonce, rate)
                self._make_runs(connection, now, tenant_id, job_id, row, runs)
                count = len(runs)
                at_once(keep_answer(SqliteTransaction(connection, now), tenant_id, request, count))
            return count

        count = await self.database.run(work)
        self.ready.announce()
        return count

    def _make_runs(
        self,
        connection: Connection,
        now: int,
        tenant_id: int,
        job_id: UUID,
        row: Fields,
        runs: Sequence[tuple[UUID, datetime, datetime]],
    ) -> None:
        key = lane_of(tenant_id, row["queue"], row["tier"], row["task"], row["options"])
        lane_id = self.lane_book.ids(connection, [key])[key]
        tell(connection, now, EventKind.FIRED, tenant_id, [run_id for run_id, _, _ in runs])
        made = [NewRun(job_id.bytes, each.bytes, lane_id, stamp(due), stamp(ready)) for each, due, ready in runs]
        make_runs(connection, now, made, manual=True)
        put_on_trial(connection, now, [job_id])

    def _cancel_once(self, connection: Connection, this: dict[str, Any], row: dict[str, Any]) -> None:
        key = LaneKey(row["tenant_id"], row["queue"], row["tier"], row["task"])
        due_at = row["next_fire_at"] or row["created_at"]
        run_id = once_run_id(row["id"], due_at)
        tell(connection, this["now"], EventKind.CANCELLED, row["tenant_id"], [run_id])
        connection.execute(
            "cancel_once",
            {
                **this,
                "run_id": run_id.bytes,
                "lane_id": self.lane_book.ids(connection, [key])[key],
                "due_at": stamp(due_at),
                "error": CANCELLED_BY_REQUEST,
            },
        )


def _pause(connection: Connection, now: int, tenant_id: int, job_id: UUID, row: Fields) -> None:
    """Withdraw what no worker has held, and hold the cursor with what is owed."""
    of_job = {"tenant_id": tenant_id, "job_id": job_id.bytes}
    found = connection.rows("withdraw_runs", of_job)
    held = held_cursor(job_id, row, [Withdrawn(identity(run_id), moment(due_at)) for run_id, due_at, _ in found])
    if held is not None:
        place = {"next_fire_at": stamp(held.next_fire_at), "last_fire_at": maybe_stamp(held.last_fire_at)}
        connection.execute("hold_cursor", {**of_job, **place, "owed": held.owed, "withdrawn": len(found)})
    elif found:
        skips = [Skipped(job_id.bytes, run_id, lane, due_at, MISSED_BY_PAUSE) for run_id, due_at, lane in found]
        skip_runs(connection, now, skips)
        tell(connection, now, EventKind.SKIPPED, tenant_id, [identity(run_id) for run_id, _, _ in found])
        connection.execute("count_follows", {"job_id": job_id.bytes, "made": -len(found), "missed": len(found)})
    connection.execute("set_job_state", {**of_job, "state": JobState.PAUSED})


def end_freed(connection: Connection, now: int, freed: Sequence[tuple[Any, ...]]) -> None:
    """Runs that wait again (id, tenant, whether a cancellation was requested) hold no limit any more; those
    with a cancellation end."""
    free_holds(connection, now, [row[0] for row in freed])
    for run_id, tenant_id, cancel_requested in freed:
        if cancel_requested:
            _end_waiting(connection, now, tenant_id, run_id)


def stop_run(
    connection: Connection, now: int, tenant_id: int, run_id: bytes, reason: str = CANCELLED_BY_REQUEST
) -> None:
    """End a run that waits, or ask a running one to stop."""
    _end_waiting(connection, now, tenant_id, run_id, reason)
    connection.execute("ask_to_stop", {"tenant_id": tenant_id, "run_id": run_id, "now": now})


def _end_waiting(
    connection: Connection, now: int, tenant_id: int, run_id: bytes, reason: str = CANCELLED_BY_REQUEST
) -> None:
    ended = {"tenant_id": tenant_id, "run_id": run_id, "now": now, "error": reason}
    if connection.execute("cancel_waiting", ended):
        tell(connection, now, EventKind.CANCELLED, tenant_id, [identity(run_id)])
