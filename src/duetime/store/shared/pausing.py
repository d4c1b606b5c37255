"""Pausing: what has not started is withdrawn, and owed again.

A pause withdraws the runs that no worker holds. A run that a worker holds at that moment may come back unstarted: the
worker stops, or never learned of its claim. Then it is withdrawn in the transaction in which it comes back, by the same
rule, so that nothing begins while its job is paused.

That transaction holds the job against a pause that is under way, and waits for nothing while it holds runs: if another
transaction holds the job, it is repeated.
"""

from collections.abc import Sequence
from uuid import UUID

from duetime.errors import StoreUnavailable
from duetime.model.event import EventKind
from duetime.model.firing import Fire
from duetime.model.schedule import Once, UnusableSchedule, decode_schedule
from duetime.model.withdrawn_runs import Withdrawn
from duetime.store.rules.job_control import MISSED_BY_PAUSE, held_cursor
from duetime.store.shared.events import append_events
from duetime.store.shared.transaction import Row, RunMaker, Skipped, Transaction


class JobIsHeld(StoreUnavailable):
    """Another transaction pauses or changes the job of a run that comes back: to be repeated."""


async def withdraw_unstarted(
    transaction: Transaction, run_maker: RunMaker, tenant_id: int, job_id: UUID, row: Row
) -> None:
    """Withdraw what has not started and no worker holds, and hold the cursor with what is owed. `row` is the job with
    its cursor; the cursor is held against firing. What an earlier schedule has left of a job that runs once now is
    skipped: no cursor owes it."""
    found = await transaction.rows("withdraw_unstarted", tenant_id=tenant_id, job_id=job_id)
    withdrawn = [Withdrawn(run["id"], run["due_at"], run["fence"]) for run in found]
    skipped = found if row["next_fire_at"] is None or _runs_once(row) else []
    owed = [] if skipped else withdrawn
    held = held_cursor(job_id, row, owed)
    if held is not None:
        await transaction.execute("hold_cursor", job_id=job_id, **held._asdict(), withdrawn=len(owed))
    if skipped:
        of_job = (tenant_id, job_id)
        skips = [Skipped(*of_job, run["id"], run["home_lane"], run["due_at"], MISSED_BY_PAUSE) for run in skipped]
        await run_maker.skip(transaction, skips)
    if skipped and held is None:  # else the cursor counts
        counts = (job_id, -len(skipped), len(skipped))
        await transaction.put("count_follows", ("job_id", "made", "missed"), [counts])


def _runs_once(row: Row) -> bool:
    try:
        return isinstance(decode_schedule(row["schedule"]), Once)
    except (UnusableSchedule, OSError):
        return False


async def withdraw_returned(transaction: Transaction, run_maker: RunMaker, run_ids: Sequence[UUID]) -> None:
    """Of runs that wait again as if they had not been claimed, withdraw those whose jobs are paused."""
    these = {"ids": list(run_ids)}
    if await transaction.lock("hold_against_pauses", **these) is not None:
        raise JobIsHeld("the job of a run is being changed")
    paused = [row["id"] for row in await transaction.rows("paused_jobs", **these)]
    if not paused:
        return
    if await transaction.lock("hold_paused_cursors", ids=paused) is not None:
        raise JobIsHeld("the cursor of a run's job is being changed")
    for row in await transaction.rows("paused_jobs", **these):  # again: their cursors are held now
        await withdraw_unstarted(transaction, run_maker, row["tenant_id"], row["id"], row)
        await append_events(transaction, EventKind.CHANGED, row["tenant_id"], [row["id"]])


async def keep_fences(transaction: Transaction, fires: Sequence[Fire]) -> None:
    """Runs that were claimed before they were withdrawn go on with the fences that they had: a late report of that
    claim must not fit a new one."""
    fenced = [(run.run_id, run.fence) for fire in fires for run in fire.runs if run.fence]
    if fenced:
        await transaction.put("keep_fences", ("run_id", "fence"), fenced)
