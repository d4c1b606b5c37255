"""Editing a job: by its id, or by a submission under its key. Both come here."""

from collections.abc import Sequence
from uuid import UUID

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
from duetime.store.shared.calendars import hold_calendars, use_other_calendars
from duetime.store.shared.job_rows import Fields
from duetime.store.shared.reads import find_job
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.event_log import tell
from duetime.store.sqlite.label_rows import put_labels_again
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.transaction import SqliteTransaction, at_once
from duetime.store.sqlite.values import identity, maybe_stamp, moment, stamp


class EditingRole(Role):
    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        def work(connection: Connection, now: int) -> Job:
            row = steerable(connection, tenant_id, job_id)
            check_version(job_id, row, version)
            runs = live_runs(connection, tenant_id, job_id)
            self.edit_within(connection, now, tenant_id, job_id, row, runs, changes)
            return at_once(find_job(SqliteTransaction(connection, now), tenant_id, job_id))[0]

        job = await self.database.run(work)
        self.ready.announce()
        return job

    def edit_within(
        self,
        connection: Connection,
        now: int,
        tenant_id: int,
        job_id: UUID,
        row: Fields,
        runs: Sequence[LiveRun],
        changes: Changes,
    ) -> Edit | None:
        """Edit a job; None when nothing changes."""
        calendars = at_once(hold_calendars(SqliteTransaction(connection, now), tenant_id, calendars_named(changes)))
        of_job = {"tenant_id": tenant_id, "job_id": job_id.bytes}
        if comes_to_repeat(row, changes):
            check_no_dependents(job_id, connection.value("is_waited_for", of_job))
        ended = connection.value("ended_runs_of_job", {**of_job, "limit": 1}) if changes_rhythm(changes) else None
        newest = None if ended is None else identity(ended)
        edit = plan_edit(job_id, row, runs, changes, moment(now), calendars, newest)
        if edit is None:
            return None
        withdrawn = 0
        if edit.starts_anew:
            withdrawn = len(connection.rows("withdraw_runs", of_job))
        elif edit.withdraws is not None:
            withdrawn = connection.execute("withdraw_run", {**of_job, "run_id": edit.withdraws.bytes})
        written = {"schedule": edit.schedule, "recurring": edit.recurring, "starts_anew": edit.starts_anew}
        connection.execute("edit_job", {**of_job, **edit.content._asdict(), **written})
        if edit.cursor is not None:
            place = {
                "next_fire_at": stamp(edit.cursor.next_fire_at),
                "scan_at": stamp(edit.cursor.scan_at),
                "last_fire_at": maybe_stamp(edit.cursor.last_fire_at),
                "exact": edit.cursor.exact,
            }
            anew = {"withdrawn": withdrawn, "starts_anew": edit.starts_anew}
            connection.execute("place_cursor", {**of_job, **place, **anew})
        if edit.starts_anew:
            at_once(use_other_calendars(SqliteTransaction(connection, now), tenant_id, job_id, edit.calendars))
        content = edit.content
        key = lane_of(tenant_id, content.queue, content.tier, content.task, content.options)
        if edit.revises or key != lane_of(tenant_id, row["queue"], row["tier"], row["task"], row["options"]):
            lane_id = self.lane_book.ids(connection, [key], new_work=True)[key]
            if edit.revises:
                connection.execute("revise_runs", {**of_job, "lane_id": lane_id, "now": now})
        if edit.content.options != row["options"]:
            put_labels_again(connection, tenant_id, job_id, row["options"], edit.content.options)
        tell(connection, now, EventKind.CHANGED, tenant_id, [job_id])
        return edit


def steerable(connection: Connection, tenant_id: int, job_id: UUID) -> Fields:
    """A job that can be steered, with its cursor."""
    of_job = {"tenant_id": tenant_id, "job_id": job_id.bytes}
    rows = connection.records("lock_schedule", of_job)
    if rows or connection.value("is_deleted", of_job):
        return check_steerable(rows[0] if rows else None, job_id, has_runs=False, has_ended=False)
    runs = connection.rows("lock_live_runs", of_job)
    ended = connection.rows("ended_runs_of_job", {**of_job, "limit": 1})
    return check_steerable(None, job_id, has_runs=bool(runs), has_ended=bool(ended))


def live_runs(connection: Connection, tenant_id: int, job_id: UUID) -> list[LiveRun]:
    rows = connection.rows("lock_live_runs", {"tenant_id": tenant_id, "job_id": job_id.bytes})
    return [LiveRun(identity(run_id), bool(unclaimed), moment(due_at)) for run_id, unclaimed, due_at in rows]
