"""Runs that were created ahead of an outage and have not started: they are missed with the occurrences after them.

A run that a worker holds, or another transaction has locked, is left alone: it starts, or has started.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from duetime.model.firing import DueJob, Fire, PlannedRun, run_before
from duetime.store.shared.transaction import Transaction


async def with_runs_before(transaction: Transaction, due: Sequence[DueJob], now: datetime) -> list[DueJob]:
    """These jobs with the waiting runs that their plans decide about anew, held."""
    before = {job.job_id: run for job in due if (run := run_before(job, now)) is not None}
    if not before:
        return list(due)
    rows = await transaction.rows("hold_runs_before", ids=list(before.values()))
    held = {row["id"]: PlannedRun(row["id"], row["due_at"]) for row in rows}
    return [
        msgspec.structs.replace(job, ahead=held[run]) if (run := before.get(job.job_id)) in held else job
        for job in due
    ]


async def withdraw_runs_before(transaction: Transaction, fires: Sequence[Fire]) -> None:
    """Remove the runs that are recorded as skipped in the same transaction."""
    withdrawn = [fire.withdrawn for fire in fires if fire.withdrawn is not None]
    if withdrawn:
        await transaction.execute("withdraw_runs_before", ids=withdrawn)
