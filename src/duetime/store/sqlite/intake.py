"""Intake: each batch of jobs is stored in one transaction, each job directly in its home."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from duetime.model.edit import changes_for
from duetime.model.event import EventKind
from duetime.model.firing import LOOK_AHEAD, scan_time
from duetime.model.job import NewJob, Submitted
from duetime.model.lane import LaneKey
from duetime.model.schedule import After, Once, encode_schedule
from duetime.store.rules.caller_keys import (
    IDEMPOTENCY,
    KEY,
    Editable,
    Known,
    Standing,
    answer_again,
    is_plain,
    key_rows,
    keys_of,
    meet,
    waves,
)
from duetime.store.rules.edits import answer_edit, check_replaced, must_not_be_waited_for
from duetime.store.rules.placement import NO_OCCURRENCE, Placed, calendars_of, first_fire, past_note
from duetime.store.shared.calendars import hold_calendars, use_calendars
from duetime.store.shared.dependent_intake import insert_dependents, insert_follower, refollow
from duetime.store.shared.edits import JobEdit, lock_live_runs
from duetime.store.shared.label_rows import put_labels_of
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.event_log import tell
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.transaction import SqliteTransaction, at_once
from duetime.store.sqlite.values import identity, maybe_bytes, maybe_moment, maybe_stamp, moment, stamp


class IntakeRole(Role):
    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        if not jobs:
            return []

        def work(connection: Connection, now: int) -> list[Submitted]:
            lanes = self.lane_book.ids(connection, {job.lane for job in jobs}, new_work=True)
            if all(is_plain(job) for job in jobs):
                return _insert_ready(connection, now, tenant_id, jobs, lanes)
            answers: dict[UUID, Submitted] = {}
            for wave in waves(jobs):
                answers |= self._insert(connection, now, tenant_id, wave, lanes)
            return [answers[job.id] for job in jobs]

        answers = await self.database.run(work)
        self.ready.announce()
        return answers

    async def known_keys(self, tenant_id: int, keys: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        def work(connection: Connection, _now: int) -> frozenset[tuple[str, str]]:
            of_tenant = {"tenant_id": tenant_id}
            return frozenset(
                (kind, key)
                for kind, key in keys
                if connection.value("known_keys", {**of_tenant, "kind": kind, "key": key})
            )

        return await self.database.run(work)

    def _insert(
        self, connection: Connection, now: int, tenant_id: int, jobs: Sequence[NewJob], lanes: dict[LaneKey, int]
    ) -> dict[UUID, Submitted]:
        answers: dict[UUID, Submitted] = {}
        known = _find_keys(connection, tenant_id, jobs)
        placed: dict[UUID, Placed] = {}
        edited: set[UUID] = set()
        for job in jobs:
            first = known.get((IDEMPOTENCY, job.idempotency_key))
            if first is not None:
                answers[job.id] = answer_again(job, first)
                continue
            named = known.get((KEY, job.key))
            met = None if named is None else _meet(connection, now, tenant_id, job, named)
            if isinstance(met, Submitted):
                answers[job.id] = met
            elif isinstance(met, Editable):
                answers[job.id] = self._edit_named(connection, now, tenant_id, met, job)
                edited.add(job.id)
            else:
                placed[job.id] = met or Placed(job)
        at = moment(now)
        straight, later = [], []
        for asked_id, place in placed.items():
            if place.job.depends_on is not None:
                continue
            if isinstance(place.job.schedule, After):
                answers[asked_id] = at_once(insert_follower(SqliteTransaction(connection, now), tenant_id, place))
                continue
            if not isinstance(place.job.schedule, Once):
                answers[asked_id] = _insert_recurring(connection, now, tenant_id, place)
                continue
            due_at = _due_at(place.job.schedule, at)
            if due_at <= at + LOOK_AHEAD:
                run_id = place.job.first_run_id()
                straight.append(_run_row(tenant_id, place.job, run_id, lanes[place.job.lane], due_at))
                answers[asked_id] = _submitted(place, due_at, run_id)
            else:
                later.append(_job_row(tenant_id, now, place, due_at))
                answers[asked_id] = _submitted(place, due_at, None)
        if straight:
            connection.many("insert_ready", straight)
        if later:
            connection.many("insert_once", later)
        answers |= _depend(connection, now, tenant_id, placed, lanes)
        keys = key_rows(jobs, known, answers, edited.union(placed))
        if keys:
            connection.many(
                "put_keys",
                [
                    (
                        tenant_id,
                        row.kind,
                        row.key,
                        row.job_id.bytes,
                        maybe_bytes(row.run_id),
                        row.fingerprint,
                        maybe_stamp(row.next_run),
                        now,
                    )
                    for row in keys
                ],
            )
        stored = [place.job for place in placed.values()]
        at_once(put_labels_of(SqliteTransaction(connection, now), tenant_id, stored))
        alone = [job.id for job in stored if job.depends_on is None and not isinstance(job.schedule, After)]
        tell(connection, now, EventKind.SUBMITTED, tenant_id, alone)
        return answers

    def _edit_named(self, connection: Connection, now: int, tenant_id: int, met: Editable, job: NewJob) -> Submitted:
        """Apply the request as an edit of the job that its key names."""
        row, runs = met.standing
        assert row is not None
        edit = JobEdit(SqliteTransaction(connection, now), self.run_maker, tenant_id, met.job_id)
        return answer_edit(met.job_id, job, at_once(edit.apply(row, runs, changes_for(job))), row, runs)


def _insert_ready(
    connection: Connection, now: int, tenant_id: int, jobs: Sequence[NewJob], lanes: dict[LaneKey, int]
) -> list[Submitted]:
    run_ids = [job.first_run_id() for job in jobs]
    connection.many(
        "insert_ready",
        [
            (run_id.bytes, job.id.bytes, tenant_id, lanes[job.lane], now, job.args, job.options, job.timeout_ms)
            for job, run_id in zip(jobs, run_ids, strict=True)
        ],
    )
    at_once(put_labels_of(SqliteTransaction(connection, now), tenant_id, jobs))
    tell(connection, now, EventKind.SUBMITTED, tenant_id, [job.id for job in jobs])
    due_at = moment(now)
    return [Submitted(job.id, due_at, run_id) for job, run_id in zip(jobs, run_ids, strict=True)]


def _depend(
    connection: Connection, now: int, tenant_id: int, placed: dict[UUID, Placed], lanes: dict[LaneKey, int]
) -> dict[UUID, Submitted]:
    """Store the jobs that depend on others, and keep the dependents of replaced jobs."""
    dependents = {asked_id: place for asked_id, place in placed.items() if place.job.depends_on is not None}
    answers: dict[UUID, Submitted] = {}
    if dependents:
        answers = at_once(insert_dependents(SqliteTransaction(connection, now), tenant_id, dependents, lanes))
    replaced = [place.job.id for place in placed.values() if not place.created]
    at_once(refollow(SqliteTransaction(connection, now), tenant_id, replaced))
    return answers


def _due_at(schedule: Once, now: datetime) -> datetime:
    if schedule.at is not None:
        return max(schedule.at, now)
    return now if schedule.delay is None else now + schedule.delay


def _submitted(placed: Placed, due_at: datetime, run_id: UUID | None) -> Submitted:
    schedule = placed.job.schedule
    asked = schedule.at if isinstance(schedule, Once) else None
    return Submitted(placed.job.id, due_at, run_id, placed.created, past_note(asked, due_at))


def _run_row(tenant_id: int, job: NewJob, run_id: UUID, lane_id: int, due_at: datetime) -> tuple[Any, ...]:
    return (
        run_id.bytes,
        job.id.bytes,
        tenant_id,
        lane_id,
        stamp(due_at),
        job.args,
        job.options,
        job.timeout_ms,
    )


def _job_row(tenant_id: int, now: int, placed: Placed, due_at: datetime) -> dict[str, Any]:
    return {
        **_columns(tenant_id, now, placed),
        "schedule": encode_schedule(placed.job.schedule),
        "scan_at": stamp(scan_time(due_at)),
        "due_at": stamp(due_at),
    }


def _columns(tenant_id: int, now: int, placed: Placed) -> dict[str, Any]:
    job = placed.job
    return {
        "id": job.id.bytes,
        "tenant_id": tenant_id,
        "task": job.lane.task,
        "queue": job.lane.queue,
        "tier": job.lane.tier,
        "args": job.args,
        "options": job.options,
        "timeout_ms": job.timeout_ms,
        "version": placed.version,
        "now": now,
    }


def _insert_recurring(connection: Connection, now: int, tenant_id: int, placed: Placed) -> Submitted:
    named = calendars_of(placed.job)
    calendars = at_once(hold_calendars(SqliteTransaction(connection, now), tenant_id, named)) if named else []
    first = first_fire(placed, moment(now), calendars)
    if first is None:
        return Submitted(placed.job.id, None, created=placed.created, note=NO_OCCURRENCE)
    connection.execute(
        "insert_recurring",
        {
            **_columns(tenant_id, now, placed),
            "schedule": first.schedule,
            "scan_at": stamp(first.scan_at),
            "next_fire_at": stamp(first.next_fire_at),
            "exact": first.exact,
        },
    )
    if calendars:
        at_once(use_calendars(SqliteTransaction(connection, now), tenant_id, placed.job.id, calendars))
    return Submitted(placed.job.id, first.next_fire_at, created=placed.created)


def _find_keys(connection: Connection, tenant_id: int, jobs: Sequence[NewJob]) -> dict[tuple[str, str | None], Known]:
    found: dict[tuple[str, str | None], Known] = {}
    for kind, key in keys_of(jobs):
        row = connection.row("find_keys", {"tenant_id": tenant_id, "kind": kind, "key": key})
        if row is not None:
            job_id, run_id, fingerprint, next_run = row
            found[kind, key] = Known(
                identity(job_id), None if run_id is None else identity(run_id), fingerprint, maybe_moment(next_run)
            )
    return found


def _meet(
    connection: Connection, now: int, tenant_id: int, job: NewJob, known: Known
) -> Submitted | Placed | Editable | None:
    """What a submission with the key of an earlier job does. The waiting run of a replaced job is withdrawn."""
    of_job = {"tenant_id": tenant_id, "job_id": known.job_id.bytes}
    rows = connection.records("lock_schedule", of_job)
    runs = at_once(lock_live_runs(SqliteTransaction(connection, now), tenant_id, known.job_id))
    met = meet(job, known, Standing(rows[0] if rows else None, runs))
    if isinstance(met, Placed):
        if must_not_be_waited_for(job):
            check_replaced(job, known.job_id, connection.value("is_waited_for", of_job))
        connection.rows("withdraw_runs", of_job)
        connection.execute("drop_labels", of_job)
    return met
