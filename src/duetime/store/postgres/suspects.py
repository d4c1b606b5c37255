"""Suspects: jobs and tasks whose runs were there when workers died."""

from collections.abc import Sequence
from uuid import UUID

from duetime.clock import monotonic
from duetime.model.suspicion import FORGET_JOBS, FORGET_TASKS, Loss
from duetime.store.postgres.database import SQL, Connection, columns
from duetime.store.postgres.role import Role
from duetime.store.rules.deaths import deaths_of_jobs, trial_lanes, worst_of_tasks

_ASKED_EVERY = 0.5


class SuspectsRole(Role):
    _has_suspects = False
    _asked_at = -1e9

    async def has_suspects(self) -> bool:
        """Whether anything has lost a worker of late; at most half a second old."""
        if monotonic() - self._asked_at >= _ASKED_EVERY:
            self._has_suspects = await self.database.fetchval("has_suspects")
            self._asked_at = monotonic()
        return self._has_suspects

    async def suspect(self, connection: Connection, losses: Sequence[Loss]) -> dict[UUID, int]:
        """Count what these runs were lost for, of their jobs and tasks; returns the trial lane of each run."""
        if not losses:
            return {}
        deaths = [(*job, count) for job, count in deaths_of_jobs(losses).items()]
        in_a_row = dict(tuple(row) for row in await connection.fetch(SQL["suspect_jobs"], *columns(deaths, 4)))
        worst = [(*task, count) for task, count in worst_of_tasks(losses, in_a_row).items()]
        await connection.execute(SQL["suspect_tasks"], *columns(worst, 3))
        keys = trial_lanes(losses, in_a_row)
        lanes = await self.lane_book.ids_within(connection, set(keys.values()))
        self._has_suspects = True
        return {run_id: lanes[key] for run_id, key in keys.items()}

    async def tend_suspects(self, connection: Connection) -> None:
        """Clear those that have proved harmless, and put the waiting runs of the others on trial."""
        if await connection.fetchval(SQL["has_suspects"]):
            await connection.execute(SQL["clear_suspects"], FORGET_JOBS, FORGET_TASKS)
            await connection.execute(SQL["put_on_trial"], None)


async def put_on_trial(connection: Connection, job_ids: Sequence[UUID]) -> None:
    """Runs that were made in this transaction go where their jobs' standing says."""
    await connection.execute(SQL["put_on_trial"], list(job_ids))
