"""Control: what people ask for while jobs are on their way."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from duetime.ids import once_run_id
from duetime.model.attempt import Run
from duetime.model.event import EventKind
from duetime.model.job import Job, JobState, lane_of
from duetime.model.lane import LaneKey
from duetime.model.moments import stamp
from duetime.store.completions import CANCELLED_BY_REQUEST
from duetime.store.postgres.clashes import again_after_clash
from duetime.store.postgres.database import SQL, Connection, affected, columns
from duetime.store.postgres.editing import lock
from duetime.store.postgres.reading import ReadingRole, find_job
from duetime.store.protocol import Hint
from duetime.store.steering import (
    backfilled,
    cursor_after_pause,
    held_cursor,
    last_occurrence,
    manual_run,
)
from duetime.store.views import Fields


class ControlRole(ReadingRole):
    @again_after_clash
    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        async with self.database.acting_for(tenant_id) as connection:
            await self.stop_job(connection, tenant_id, job_id)
            job, _ = await find_job(connection, tenant_id, job_id)
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

    @again_after_clash
    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        async with self.database.acting_for(tenant_id) as connection:
            await stop_runs(connection, tenant_id, [run_id])
        self.hints.give(Hint.CANCEL)
        return await self.run(tenant_id, run_id)

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        async with self.database.acting_for(tenant_id) as connection:
            row = await lock(connection, tenant_id, job_id)
            if row["state"] == JobState.ACTIVE:
                await _pause(connection, tenant_id, job_id, row)
                await connection.execute(SQL["tell"], EventKind.CHANGED, tenant_id, [job_id])
        return await self.job(tenant_id, job_id)

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        async with self.database.acting_for(tenant_id) as connection:
            row = await lock(connection, tenant_id, job_id)
            if row["state"] == JobState.PAUSED:
                cursor = cursor_after_pause(row, await connection.fetchval(SQL["clock"]))
                if cursor is not None:
                    place = (cursor.scan_at, cursor.next_fire_at, cursor.exact)
                    await connection.execute(SQL["put_cursor"], job_id, *place)
                await connection.execute(SQL["set_job_state"], tenant_id, job_id, JobState.ACTIVE)
                await connection.execute(SQL["tell"], EventKind.CHANGED, tenant_id, [job_id])
        return await self.job(tenant_id, job_id)

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes) -> Run:
        async with self.database.acting_for(tenant_id) as connection:
            row = await lock(connection, tenant_id, job_id)
            run = manual_run(job_id, await connection.fetchval(SQL["clock"]), nonce)
            await self._make_runs(connection, tenant_id, job_id, row, [(run.run_id, run.due_at, run.due_at)])
        self.hints.give(Hint.READY)
        return await self.run(tenant_id, run.run_id)

    async def backfill_job(
        self, tenant_id: int, job_id: UUID, fires: Sequence[datetime], nonce: bytes, rate: float
    ) -> int:
        async with self.database.acting_for(tenant_id) as connection:
            row = await lock(connection, tenant_id, job_id)
            runs = backfilled(job_id, fires, await connection.fetchval(SQL["clock"]), nonce, rate)
            await self._make_runs(connection, tenant_id, job_id, row, runs)
        self.hints.give(Hint.READY)
        return len(runs)

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


async def _pause(connection: Connection, tenant_id: int, job_id: UUID, row: Fields) -> None:
    """Take back what was fired ahead, and hold the cursor at the fire that is owed."""
    last = last_occurrence(job_id, row)
    withdrawn = 0 if last is None else affected(await connection.execute(SQL["withdraw_run"], tenant_id, last))
    held = held_cursor(row, withdrawn)
    if held is not None:
        await connection.execute(SQL["hold_cursor"], job_id, *held, withdrawn)
    await connection.execute(SQL["set_job_state"], tenant_id, job_id, JobState.PAUSED)


async def end_freed(connection: Connection, freed: Iterable[Iterable[Any]]) -> None:
    """Runs that wait again (id, tenant, whether somebody asked to cancel it meanwhile) hold no limit any more; those
    that shall be cancelled end."""
    rows = [tuple(row) for row in freed]
    if rows:
        await connection.fetchval(SQL["free_holds"], [row[0] for row in rows])
    for run_id, tenant_id, cancel_requested in rows:
        if cancel_requested:
            await connection.fetchval(SQL["cancel_waiting"], tenant_id, [run_id], CANCELLED_BY_REQUEST)


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
