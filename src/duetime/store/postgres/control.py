"""Control: what people ask for while jobs are on their way."""

from collections.abc import Iterable
from uuid import UUID

from duetime.ids import once_run_id
from duetime.model.attempt import Run
from duetime.model.job import Job
from duetime.model.lane import LaneKey
from duetime.store.completions import CANCELLED_BY_REQUEST
from duetime.store.postgres.database import SQL, Connection, Row
from duetime.store.postgres.reading import ReadingRole
from duetime.store.protocol import Hint


class ControlRole(ReadingRole):
    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        async with self.database.transaction() as connection:
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
            await _stop(connection, tenant_id, [run["id"] for run in runs])
        self.hints.give(Hint.CANCEL)
        return await self.job(tenant_id, job_id)

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        async with self.database.transaction() as connection:
            await _stop(connection, tenant_id, [run_id])
        self.hints.give(Hint.CANCEL)
        return await self.run(tenant_id, run_id)


async def end_cancelled(connection: Connection, freed: Iterable[Row]) -> None:
    """Runs that wait again, but that somebody asked to cancel meanwhile, end (id, tenant, whether they were asked)."""
    for run_id, tenant_id, cancel_requested in freed:
        if cancel_requested:
            await connection.fetchval(SQL["cancel_waiting"], tenant_id, [run_id], CANCELLED_BY_REQUEST)


async def _stop(connection: Connection, tenant_id: int, run_ids: list[UUID]) -> None:
    if run_ids:
        await connection.fetchval(SQL["cancel_waiting"], tenant_id, run_ids, CANCELLED_BY_REQUEST)
        await connection.execute(SQL["ask_to_stop"], tenant_id, run_ids)
