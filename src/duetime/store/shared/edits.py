"""Editing a job: by its id, or by a submission under its key. Both come here with everything held."""

from collections.abc import Sequence
from uuid import UUID

from msgspec import UNSET

from duetime.model.edit import Changes
from duetime.model.event import EventKind
from duetime.model.job import Job, lane_of
from duetime.store.rules.caller_keys import LiveRun
from duetime.store.rules.edits import (
    Edit,
    calendars_named,
    changes_rhythm,
    check_no_dependents,
    check_version,
    comes_to_repeat,
    plan_edit,
)
from duetime.store.rules.job_control import check_steerable
from duetime.store.rules.placement import leaves_out_days
from duetime.store.shared.active_tenants import check_active
from duetime.store.shared.calendars import hold_calendars, use_other_calendars
from duetime.store.shared.events import append_events
from duetime.store.shared.label_rows import put_labels_again
from duetime.store.shared.reads import find_job
from duetime.store.shared.transaction import Row, RunMaker, SharedRole, Transaction


class EditingRole(SharedRole):
    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        async def work(transaction: Transaction) -> Job:
            await check_active(transaction, tenant_id)
            row = await steerable(transaction, tenant_id, job_id)
            check_version(job_id, row, version)
            runs = await lock_live_runs(transaction, tenant_id, job_id)
            await JobEdit(transaction, self.run_maker, tenant_id, job_id).apply(row, runs, changes)
            return (await find_job(transaction, tenant_id, job_id))[0]

        job = await self.transactions.of(tenant_id).run(work)
        self.ready.announce()
        return job


class JobEdit:
    """An edit of a job that is held against firing, together with its live runs."""

    def __init__(self, transaction: Transaction, run_maker: RunMaker, tenant_id: int, job_id: UUID) -> None:
        self._transaction = transaction
        self._run_maker = run_maker
        self._tenant_id = tenant_id
        self._job_id = job_id
        self._of_job = {"tenant_id": tenant_id, "job_id": job_id}

    async def apply(self, row: Row, runs: Sequence[LiveRun], changes: Changes) -> Edit | None:
        """Apply the changes. Returns the edit; None when nothing changes."""
        edit = await self._plan(row, runs, changes)
        if edit is not None:
            await self._write(edit)
            await self._revise(row, edit)
        await self._transaction.lock("restamp_runs", **self._of_job)
        if edit is not None:
            if edit.content.options != row["options"]:
                options = (row["options"], edit.content.options)
                await put_labels_again(self._transaction, self._tenant_id, self._job_id, *options)
            await append_events(self._transaction, EventKind.CHANGED, self._tenant_id, [self._job_id])
        return edit

    async def _plan(self, row: Row, runs: Sequence[LiveRun], changes: Changes) -> Edit | None:
        if comes_to_repeat(row, changes):
            check_no_dependents(self._job_id, await self._transaction.value("is_waited_for", **self._of_job))
        calendars = await hold_calendars(self._transaction, self._tenant_id, calendars_named(changes))
        # Read after every lock is held: a new cursor lies after this moment.
        now = await self._transaction.now()
        ended = None
        if changes_rhythm(changes):
            ended = await self._transaction.value("ended_runs_of_job", **self._of_job, limit=1)
        planned = (self._job_id, row, runs, changes, now, calendars, ended)
        if changes.schedule is not UNSET and leaves_out_days(changes.schedule):
            return await self._transaction.compute(plan_edit, *planned)
        return plan_edit(*planned)

    async def _write(self, edit: Edit) -> None:
        withdrawn = 0
        if edit.starts_anew:
            withdrawn = len(await self._transaction.rows("withdraw_runs", **self._of_job))
        elif edit.withdraws is not None:
            of_run = {"tenant_id": self._tenant_id, "run_id": edit.withdraws}
            withdrawn = await self._transaction.execute("withdraw_run", **of_run)
        written = {"schedule": edit.schedule, "recurring": edit.recurring, "starts_anew": edit.starts_anew}
        await self._transaction.execute("edit_job", **self._of_job, **edit.content._asdict(), **written)
        if edit.cursor is not None:
            counts = {"withdrawn": withdrawn, "starts_anew": edit.starts_anew}
            await self._transaction.execute("place_cursor", job_id=self._job_id, **edit.cursor._asdict(), **counts)
        if edit.starts_anew:
            await use_other_calendars(self._transaction, self._tenant_id, self._job_id, edit.calendars)

    async def _revise(self, row: Row, edit: Edit) -> None:
        """Give waiting runs the new content of the job, and move them to its lane."""
        content = edit.content
        key = lane_of(self._tenant_id, content.queue, content.tier, content.task, content.options)
        before = lane_of(self._tenant_id, row["queue"], row["tier"], row["task"], row["options"])
        if edit.revises or key != before:
            lanes = await self._run_maker.lanes(self._transaction, [key], new_work=True)
            if edit.revises:
                await self._transaction.execute("revise_runs", **self._of_job, lane_id=lanes[key])


async def steerable(transaction: Transaction, tenant_id: int, job_id: UUID) -> Row:
    """A job that can be steered, with its cursor, held against firing and editing."""
    of_job = {"tenant_id": tenant_id, "job_id": job_id}
    # The cursor first: a scanner that is firing this job finishes before we look where the row lives.
    await transaction.lock("lock_cursor", job_id=job_id)
    row = await transaction.row("lock_schedule", **of_job)
    if row is not None or await transaction.value("is_deleted", **of_job):
        return check_steerable(row, job_id, has_runs=False, has_ended=False)
    runs = await transaction.rows("see_live_runs", **of_job)
    ended = await transaction.rows("ended_runs_of_job", **of_job, limit=1)
    return check_steerable(row, job_id, has_runs=bool(runs), has_ended=bool(ended))


async def lock_live_runs(transaction: Transaction, tenant_id: int, job_id: UUID) -> list[LiveRun]:
    rows = await transaction.rows("lock_live_runs", tenant_id=tenant_id, job_id=job_id)
    return [LiveRun(row["id"], row["unclaimed"], row["due_at"]) for row in rows]
