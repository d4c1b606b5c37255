"""Control: what people ask for while jobs are on their way."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
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
from duetime.model.microseconds import stamp
from duetime.model.withdrawn_runs import Withdrawn
from duetime.store.postgres.database import SQL, Connection, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.edits import EditingRole, lock
from duetime.store.postgres.role import Context, Role
from duetime.store.postgres.suspects import put_on_trial
from duetime.store.postgres.transaction import PostgresTransaction
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
from duetime.store.shared.reads import ReadingRole, find_job


class ControlRole(Role):
    def __init__(self, context: Context, reads: ReadingRole, edits: EditingRole) -> None:
        super().__init__(context)
        self._reads = reads
        self._edits = edits

    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        return await self._edits.edit_job(tenant_id, job_id, changes, version)

    @retry_on_deadlock
    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        async with self.database.acting_for(tenant_id) as connection:
            await self.stop_job(connection, tenant_id, job_id)
            job, _ = await find_job(PostgresTransaction(connection), tenant_id, job_id)
            await connection.execute(SQL["tell"], EventKind.CHANGED, tenant_id, [job_id])
        self.hints.give(Hint.CANCEL)
        return job

    async def stop_job(self, connection: Connection, tenant_id: int, job_id: UUID) -> None:
        """No further run: end what waits, and ask what runs to stop."""
        # The cursor first: a scanner that is firing this job finishes before we look where the row lives.
        await connection.fetchval(SQL["lock_cursor"], job_id)
        row = await connection.fetchrow(SQL["lock_job"], tenant_id, job_id)
        if row is not None and row["recurring"]:
            if row["state"] < 2:
                await connection.execute(SQL["cancel_recurring"], tenant_id, job_id)
        elif row is not None:
            key = LaneKey(tenant_id, row["queue"], row["tier"], row["task"])
            lane_id = (await self.lane_book.ids_within(connection, [key]))[key]
            due_at = row["next_fire_at"] or row["created_at"]
            await connection.execute(
                SQL["cancel_once"],
                tenant_id,
                job_id,
                once_run_id(job_id, due_at),
                lane_id,
                due_at,
                CANCELLED_BY_REQUEST,
            )
        runs = await connection.fetch(SQL["lock_live_runs"], tenant_id, job_id)
        await stop_runs(connection, tenant_id, [run["id"] for run in runs])

    @retry_on_deadlock
    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        async with self.database.acting_for(tenant_id) as connection:
            await stop_runs(connection, tenant_id, [run_id])
        self.hints.give(Hint.CANCEL)
        return await self._reads.run(tenant_id, run_id)

    @retry_on_deadlock
    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        async with self.database.acting_for(tenant_id) as connection:
            row = await lock(connection, tenant_id, job_id)
            if row["state"] == JobState.ACTIVE:
                await _pause(connection, tenant_id, job_id, row)
                await connection.execute(SQL["tell"], EventKind.CHANGED, tenant_id, [job_id])
        return await self._reads.job(tenant_id, job_id)

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        async with self.database.acting_for(tenant_id) as connection:
            row = await lock(connection, tenant_id, job_id)
            if row["state"] == JobState.PAUSED:
                newest = []
                if row["next_fire_at"] is None:
                    newest = await connection.fetch(SQL["ended_runs_of_job"], tenant_id, job_id, 1)
                    newest += await connection.fetch(SQL["see_live_runs"], tenant_id, job_id)
                now = await connection.fetchval(SQL["clock"])
                cursor = cursor_after_pause(row, [run[0] for run in newest], now)
                if cursor is not None:
                    place = (cursor.scan_at, cursor.next_fire_at, cursor.exact)
                    await connection.execute(SQL["put_cursor"], job_id, *place)
                await connection.execute(SQL["set_job_state"], tenant_id, job_id, JobState.ACTIVE)
                await connection.execute(SQL["tell"], EventKind.CHANGED, tenant_id, [job_id])
        return await self._reads.job(tenant_id, job_id)

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        async with self.database.acting_for(tenant_id) as connection:
            made = await first_answer(PostgresTransaction(connection), tenant_id, request, UUID)
            if made is None:
                row = await lock(connection, tenant_id, job_id)
                run = manual_run(job_id, await connection.fetchval(SQL["clock"]), nonce)
                await self._make_runs(connection, tenant_id, job_id, row, [(run.run_id, run.due_at, run.due_at)])
                made = run.run_id
                await keep_answer(PostgresTransaction(connection), tenant_id, request, made)
        self.ready.announce()
        return await self._reads.run(tenant_id, made)

    async def backfill_job(
        self,
        tenant_id: int,
        job_id: UUID,
        fires: Sequence[datetime],
        nonce: bytes,
        rate: float,
        request: KeyedRequest | None = None,
    ) -> int:
        async with self.database.acting_for(tenant_id) as connection:
            count = await first_answer(PostgresTransaction(connection), tenant_id, request, int)
            if count is None:
                row = await lock(connection, tenant_id, job_id)
                now = await connection.fetchval(SQL["clock"])
                runs = await asyncio.to_thread(backfilled, job_id, fires, now, nonce, rate)  # up to 10,000
                await self._make_runs(connection, tenant_id, job_id, row, runs)
                count = len(runs)
                await keep_answer(PostgresTransaction(connection), tenant_id, request, count)
        self.ready.announce()
        return count

    async def _make_runs(
        self,
        connection: Connection,
        tenant_id: int,
        job_id: UUID,
        row: Fields,
        runs: Sequence[tuple[UUID, datetime, datetime]],
    ) -> None:
        key = lane_of(tenant_id, row["queue"], row["tier"], row["task"], row["options"])
        lane_id = (await self.lane_book.ids_within(connection, [key]))[key]
        rows = [(job_id, run_id, lane_id, stamp(due_at), stamp(ready_at)) for run_id, due_at, ready_at in runs]
        await connection.execute(SQL["make_runs"], *columns(rows, 5), None, True)
        await put_on_trial(connection, [job_id])


async def _pause(connection: Connection, tenant_id: int, job_id: UUID, row: Fields) -> None:
    """Withdraw what no worker has held, and hold the cursor with what is owed."""
    found = await connection.fetch(SQL["withdraw_runs"], tenant_id, job_id)
    held = held_cursor(job_id, row, [Withdrawn(run_id, due_at) for run_id, due_at, _ in found])
    if held is not None:
        await connection.execute(SQL["hold_cursor"], job_id, *held, len(found))
    elif found:
        skips = [(job_id, run_id, lane_id, due_at, MISSED_BY_PAUSE) for run_id, due_at, lane_id in found]
        await connection.execute(SQL["skip_runs"], *columns(skips, 5))
        await connection.execute(SQL["count_follows"], [job_id], [-len(found)], [len(found)])
    await connection.execute(SQL["set_job_state"], tenant_id, job_id, JobState.PAUSED)


async def end_freed(connection: Connection, freed: Iterable[Iterable[Any]]) -> Collection[int]:
    """Runs that wait again (id, tenant, whether a cancellation was requested) hold no limit any more; those
    that are to be cancelled end. Returns the limits that may have room, for `parking.free` after the commit."""
    rows = [tuple(row) for row in freed]
    if not rows:
        return ()
    for run_id, tenant_id, cancel_requested in rows:
        if cancel_requested:
            await connection.fetchval(SQL["cancel_waiting"], tenant_id, [run_id], CANCELLED_BY_REQUEST)
    return await connection.fetchval(SQL["free_holds"], [row[0] for row in rows]) or ()


async def stop_runs(
    connection: Connection, tenant_id: int, run_ids: list[UUID], reason: str = CANCELLED_BY_REQUEST
) -> None:
    """End the runs that wait, and ask the others to stop."""
    if run_ids:
        # Held first, in the order in which everybody does, so that a run cannot come to wait between the look at the
        # waiting ones and at the others.
        await connection.execute(SQL["lock_runs"], tenant_id, run_ids)
        await connection.fetchval(SQL["cancel_waiting"], tenant_id, run_ids, reason)
        await connection.execute(SQL["ask_to_stop"], tenant_id, run_ids)
