"""Reads merge the homes in one snapshot, so that a row that moves between homes is read exactly once."""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from duetime.errors import NotFound
from duetime.ids import show
from duetime.model.attempt import Run
from duetime.model.job import Job
from duetime.store.protocol.store import Counts
from duetime.store.rules.job_rows import MOST_ATTEMPTS, attempts_each, ended_run, live_run, one_off, stored_job
from duetime.store.shared.transaction import Row, SharedRole, Transaction, found


class ReadingRole(SharedRole):
    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        reading = self.transactions.reading(tenant_id)
        return (await reading.run(lambda transaction: find_job(transaction, tenant_id, job_id)))[0]

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        reading = self.transactions.reading(tenant_id)
        return await reading.run(lambda transaction: find_run(transaction, tenant_id, run_id))

    async def runs_of_job(self, tenant_id: int, job_id: UUID, limit: int = 100) -> list[Run]:
        reading = self.transactions.reading(tenant_id)
        runs = await reading.run(lambda transaction: runs_of_job(transaction, tenant_id, job_id, limit))
        return [run for run, _, _ in runs]

    async def counts(self) -> Counts:
        row = found(await self.transactions.row("counts"))
        return Counts(row["jobs"], row["runs"], row["history"], row["dead_letters"])


async def find_job(transaction: Transaction, tenant_id: int, job_id: UUID) -> tuple[Job, bool | None]:
    """A job from any home; and whether it is recurring, while it is in the table `jobs`."""
    row = await transaction.row("find_job", tenant_id=tenant_id, job_id=job_id)
    if row is not None:
        waiting = await transaction.value("next_live_run", tenant_id=tenant_id, job_id=job_id)
        return stored_job(row, waiting), row["recurring"]
    # The same statements for a deleted job, another tenant's job and one that never existed.
    runs = await runs_of_job(transaction, tenant_id, job_id, 1)
    if not runs or await transaction.value("is_deleted", tenant_id=tenant_id, job_id=job_id):
        raise NotFound(f"there is no job {show('job', job_id)}")
    return one_off(*runs[0]), None


async def find_run(transaction: Transaction, tenant_id: int, run_id: UUID) -> Run:
    live = await transaction.row("find_live_runs", tenant_id=tenant_id, run_id=run_id, job_id=None, limit=1)
    attempts = (await _attempts(transaction, tenant_id, [run_id], MOST_ATTEMPTS + 1))[run_id]
    if live is not None:
        return live_run(live, attempts, MOST_ATTEMPTS)
    if not attempts:
        raise NotFound(f"there is no run {show('run', run_id)}")
    return ended_run(attempts, MOST_ATTEMPTS)


async def runs_of_job(
    transaction: Transaction, tenant_id: int, job_id: UUID, limit: int
) -> list[tuple[Run, bytes | None, int | None]]:
    wanted = {"tenant_id": tenant_id, "run_id": None, "job_id": job_id, "limit": limit}
    live = await transaction.rows("find_live_runs", **wanted)
    ended = [row["run_id"] for row in await transaction.rows("ended_runs_of_job", **wanted)]
    run_ids = [row["id"] for row in live] + ended
    most = attempts_each(len(run_ids))
    attempts = await _attempts(transaction, tenant_id, run_ids, most + 1)
    runs = [(live_run(row, attempts[row["id"]], most), row["options"], row["timeout_ms"]) for row in live]
    for run_id in ended:
        last = attempts[run_id][-1]
        runs.append((ended_run(attempts[run_id], most), last["options"], last["timeout_ms"]))
    runs.sort(key=lambda item: item[0].id, reverse=True)
    return runs[:limit]


async def _attempts(
    transaction: Transaction, tenant_id: int, run_ids: Sequence[UUID], most: int
) -> defaultdict[UUID, list[Row]]:
    """The newest attempts of each run, oldest first."""
    attempts: defaultdict[UUID, list[Row]] = defaultdict(list)
    for row in await transaction.rows("find_attempts", tenant_id=tenant_id, ids=run_ids, most=most):
        attempts[row["run_id"]].append(row)
    for of_run in attempts.values():
        of_run.sort(key=lambda row: (row["fence"], row["end_state"] is not None, row["finished_at"]))
    return attempts
