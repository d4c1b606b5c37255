"""Editing a job: by its id, or by a submission under its key. Both come here with everything held."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import UNSET

from duetime.model.edit import Changes
from duetime.model.event import EventKind
from duetime.model.job import Job, lane_of
from duetime.store.postgres.database import SQL, Connection, affected
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.label_rows import put_labels_again
from duetime.store.postgres.role import Context, Role
from duetime.store.postgres.transaction import PostgresTransaction
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
from duetime.store.shared.calendars import hold_calendars, use_other_calendars
from duetime.store.shared.job_rows import Fields
from duetime.store.shared.reads import ReadingRole


class EditingRole(Role):
    def __init__(self, context: Context, reads: ReadingRole) -> None:
        super().__init__(context)
        self._reads = reads

    @retry_on_deadlock
    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        async with self.database.acting_for(tenant_id) as connection:
            row = await lock(connection, tenant_id, job_id)
            check_version(job_id, row, version)
            runs = await connection.fetch(SQL["lock_live_runs"], tenant_id, job_id)
            await self.edit_within(connection, tenant_id, job_id, row, [LiveRun(*run) for run in runs], changes)
        self.ready.announce()
        return await self._reads.job(tenant_id, job_id)

    async def edit_within(
        self,
        connection: Connection,
        tenant_id: int,
        job_id: UUID,
        row: Fields,
        runs: Sequence[LiveRun],
        changes: Changes,
    ) -> Edit | None:
        """Edit a job that is held against firing, together with its live runs; None when nothing changes."""
        if comes_to_repeat(row, changes):
            check_no_dependents(job_id, await connection.fetchval(SQL["is_waited_for"], tenant_id, job_id))
        calendars = await hold_calendars(PostgresTransaction(connection), tenant_id, calendars_named(changes))
        # Read after every lock is held: a new cursor lies after this moment.
        now: datetime = await connection.fetchval(SQL["clock"])
        ended = None
        if changes_rhythm(changes):
            ended = await connection.fetchval(SQL["ended_runs_of_job"], tenant_id, job_id, 1)
        planned = (job_id, row, runs, changes, now, calendars, ended)
        is_long = changes.schedule is not UNSET and leaves_out_days(changes.schedule)
        edit = await asyncio.to_thread(plan_edit, *planned) if is_long else plan_edit(*planned)
        if edit is None:
            await connection.execute(SQL["restamp_runs"], tenant_id, job_id)
            return None
        withdrawn = 0
        if edit.starts_anew:
            withdrawn = len(await connection.fetch(SQL["withdraw_runs"], tenant_id, job_id))
        elif edit.withdraws is not None:
            withdrawn = affected(await connection.execute(SQL["withdraw_run"], tenant_id, edit.withdraws))
        written = (*edit.content, edit.schedule, edit.recurring, edit.starts_anew)
        await connection.execute(SQL["edit_job"], tenant_id, job_id, *written)
        if edit.cursor is not None:
            next_fire_at, scan_at, last_fire_at, exact = edit.cursor
            place = (scan_at, next_fire_at, last_fire_at, exact)
            await connection.execute(SQL["place_cursor"], job_id, *place, withdrawn, edit.starts_anew)
        if edit.starts_anew:
            await use_other_calendars(PostgresTransaction(connection), tenant_id, job_id, edit.calendars)
        content = edit.content
        key = lane_of(tenant_id, content.queue, content.tier, content.task, content.options)
        if edit.revises or key != lane_of(tenant_id, row["queue"], row["tier"], row["task"], row["options"]):
            lane_id = (await self.lane_book.ids_within(connection, [key], new_work=True))[key]
            if edit.revises:
                await connection.execute(SQL["revise_runs"], tenant_id, job_id, lane_id)
        await connection.execute(SQL["restamp_runs"], tenant_id, job_id)
        if edit.content.options != row["options"]:
            await put_labels_again(connection, tenant_id, job_id, row["options"], edit.content.options)
        await connection.execute(SQL["tell"], EventKind.CHANGED, tenant_id, [job_id])
        return edit


async def lock(connection: Connection, tenant_id: int, job_id: UUID) -> Fields:
    """A job that can be steered, with its cursor, held against firing and editing."""
    # The cursor first: a scanner that is firing this job finishes before we look where the row lives.
    await connection.fetchval(SQL["lock_cursor"], job_id)
    row = await connection.fetchrow(SQL["lock_schedule"], tenant_id, job_id)
    if row is not None or await connection.fetchval(SQL["is_deleted"], tenant_id, job_id):
        return check_steerable(row, job_id, has_runs=False, has_ended=False)
    runs = await connection.fetch(SQL["see_live_runs"], tenant_id, job_id)
    ended = await connection.fetch(SQL["ended_runs_of_job"], tenant_id, job_id, 1)
    return check_steerable(row, job_id, has_runs=bool(runs), has_ended=bool(ended))
