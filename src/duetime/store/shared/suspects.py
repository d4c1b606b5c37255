"""Suspects: jobs and tasks whose runs were there when workers died."""

from collections.abc import Sequence
from uuid import UUID

from duetime.model.suspicion import FORGET_JOBS, FORGET_TASKS, LostRun
from duetime.store.rules.deaths import deaths_of_jobs, trial_lanes, worst_of_tasks
from duetime.store.shared.transaction import RunMaker, Transaction


async def suspect(transaction: Transaction, run_maker: RunMaker, losses: Sequence[LostRun]) -> dict[UUID, int]:
    """Count what these runs were lost for, of their jobs and tasks; returns the trial lane of each run."""
    if not losses:
        return {}
    deaths = [(*job, *died) for job, died in deaths_of_jobs(losses).items()]
    rows = await transaction.each("suspect_jobs", ("tenant_id", "task", "job_id", "losses", "died_at"), deaths)
    in_a_row = {row["job_id"]: row["losses"] for row in rows}
    worst = [(*task, *died) for task, died in worst_of_tasks(losses, in_a_row).items()]
    await transaction.put("suspect_tasks", ("tenant_id", "task", "losses", "started_at", "died_at"), worst)
    keys = trial_lanes(losses, in_a_row)
    lanes = await run_maker.lanes(transaction, set(keys.values()))
    return {run_id: lanes[key] for run_id, key in keys.items()}


async def reassess_suspects(transaction: Transaction) -> None:
    """Clear those that have proved harmless, and put waiting runs where their own losses and their jobs' say."""
    if await transaction.value("has_suspects"):
        cleared = await transaction.rows("clear_suspects", forget_jobs=FORGET_JOBS, forget_tasks=FORGET_TASKS)
        jobs = sorted((row["tenant_id"], row["job_id"]) for row in cleared)  # of a task, there are no runs
        await transaction.put("take_off_trial", ("tenant_id", "job_id"), jobs)
        await put_on_trial(transaction)


async def put_on_trial(transaction: Transaction, job_ids: Sequence[UUID] | None = None) -> None:
    """Waiting runs of these jobs, or of all, go where their jobs' standing says."""
    await transaction.execute("put_on_trial", job_ids=None if job_ids is None else list(job_ids))
