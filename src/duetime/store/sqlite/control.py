"""Control: what people ask for while jobs are on their way."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from duetime.ids import once_run_id
from duetime.model.attempt import Run
from duetime.model.job import Job
from duetime.model.lane import LaneKey
from duetime.store.completions import CANCELLED_BY_REQUEST
from duetime.store.protocol import Hint
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.reading import ReadingRole, read_job, read_run
from duetime.store.sqlite.values import stamp


class ControlRole(ReadingRole):
    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        def work(connection: Connection, now: int) -> Job:
            this = {"tenant_id": tenant_id, "job_id": job_id.bytes, "now": now}
            for row in connection.records("lock_job", this):
                if not row["recurring"]:
                    self._cancel_once(connection, this, row)
                elif row["state"] < 2:
                    connection.execute("cancel_recurring", this)
            for run in connection.rows("lock_live_runs", this):
                _stop(connection, now, tenant_id, run[0])
            return read_job(connection, tenant_id, job_id)

        job = await self.database.run(work)
        self.hints.give(Hint.CANCEL)
        return job

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        def work(connection: Connection, now: int) -> Run:
            _stop(connection, now, tenant_id, run_id.bytes)
            return read_run(connection, tenant_id, run_id)

        run = await self.database.run(work)
        self.hints.give(Hint.CANCEL)
        return run

    def _cancel_once(self, connection: Connection, this: dict[str, Any], row: dict[str, Any]) -> None:
        key = LaneKey(row["tenant_id"], row["queue"], row["tier"], row["task"])
        due_at = row["next_fire_at"] or row["created_at"]
        connection.execute(
            "cancel_once",
            {
                **this,
                "run_id": once_run_id(row["id"], due_at).bytes,
                "lane_id": self.lane_book.ids(connection, [key])[key],
                "due_at": stamp(due_at),
                "error": CANCELLED_BY_REQUEST,
            },
        )


def end_cancelled(connection: Connection, now: int, freed: Iterable[tuple[Any, ...]]) -> None:
    """Runs that wait again, but that somebody asked to cancel meanwhile, end (id, tenant, whether they were asked)."""
    for run_id, tenant_id, cancel_requested in freed:
        if cancel_requested:
            _end_waiting(connection, now, tenant_id, run_id)


def _stop(connection: Connection, now: int, tenant_id: int, run_id: bytes) -> None:
    _end_waiting(connection, now, tenant_id, run_id)
    connection.execute("ask_to_stop", {"tenant_id": tenant_id, "run_id": run_id, "now": now})


def _end_waiting(connection: Connection, now: int, tenant_id: int, run_id: bytes) -> None:
    connection.execute(
        "cancel_waiting", {"tenant_id": tenant_id, "run_id": run_id, "now": now, "error": CANCELLED_BY_REQUEST}
    )
