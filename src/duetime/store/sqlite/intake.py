"""Intake: each batch of jobs is stored in one transaction, each job directly in its home."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from duetime.model.event import EventKind
from duetime.model.firing import LOOK_AHEAD, scan_time
from duetime.model.job import NewJob, Submitted
from duetime.model.lane import LaneKey
from duetime.model.schedule import Once, encode_schedule
from duetime.store.rules.caller_keys import is_plain
from duetime.store.rules.placement import Placed, past_note
from duetime.store.shared.keyed_intake import KeyedIntake
from duetime.store.shared.label_rows import put_labels_of
from duetime.store.shared.transaction import Transaction
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.event_log import append_events
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.transaction import SqliteTransaction, at_once
from duetime.store.sqlite.values import moment, stamp


class IntakeRole(Role, KeyedIntake):
    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        if not jobs:
            return []

        def work(connection: Connection, now: int) -> list[Submitted]:
            if all(is_plain(job) for job in jobs):
                return self._insert_ready(connection, now, tenant_id, jobs)
            return at_once(self.insert_any(SqliteTransaction(connection, now), tenant_id, jobs))

        answers = await self.database.run(work)
        self.ready.announce()
        return answers

    def _insert_ready(
        self, connection: Connection, now: int, tenant_id: int, jobs: Sequence[NewJob]
    ) -> list[Submitted]:
        lanes = self.lane_book.ids(connection, {job.lane for job in jobs}, new_work=True)
        run_ids = [job.first_run_id() for job in jobs]
        rows = [
            _run_row(tenant_id, job, run_id, lanes[job.lane], now) for job, run_id in zip(jobs, run_ids, strict=True)
        ]
        connection.many("insert_ready", rows)
        at_once(put_labels_of(SqliteTransaction(connection, now), tenant_id, jobs))
        append_events(connection, now, EventKind.SUBMITTED, tenant_id, [job.id for job in jobs])
        due_at = moment(now)
        return [Submitted(job.id, due_at, run_id) for job, run_id in zip(jobs, run_ids, strict=True)]

    async def _insert_once(
        self, transaction: Transaction, tenant_id: int, placed: Mapping[UUID, Placed], lanes: Mapping[LaneKey, int]
    ) -> dict[UUID, Submitted]:
        assert isinstance(transaction, SqliteTransaction)
        connection, now = transaction.connection, transaction.at
        answers: dict[UUID, Submitted] = {}
        straight, later = [], []
        for asked_id, (job, version, created) in placed.items():
            assert isinstance(job.schedule, Once)
            due_at = _due_at(job.schedule, moment(now))
            run_id = job.first_run_id() if due_at <= moment(now) + LOOK_AHEAD else None
            if run_id is not None:
                straight.append(_run_row(tenant_id, job, run_id, lanes[job.lane], stamp(due_at)))
            else:
                later.append(_job_row(tenant_id, now, job, version, due_at))
            answers[asked_id] = Submitted(job.id, due_at, run_id, created, past_note(job.schedule.at, due_at))
        connection.many("insert_ready", straight)
        connection.many("insert_once", later)
        append_events(connection, now, EventKind.SUBMITTED, tenant_id, [place.job.id for place in placed.values()])
        return answers


def _due_at(schedule: Once, now: datetime) -> datetime:
    if schedule.at is not None:
        return max(schedule.at, now)
    return now if schedule.delay is None else now + schedule.delay


def _run_row(tenant_id: int, job: NewJob, run_id: UUID, lane_id: int, due: int) -> tuple[Any, ...]:
    return (run_id.bytes, job.id.bytes, tenant_id, lane_id, due, job.args, job.options, job.timeout_ms)


def _job_row(tenant_id: int, now: int, job: NewJob, version: int, due_at: datetime) -> dict[str, Any]:
    return {
        "id": job.id.bytes,
        "tenant_id": tenant_id,
        "task": job.lane.task,
        "queue": job.lane.queue,
        "tier": job.lane.tier,
        "schedule": encode_schedule(job.schedule),
        "args": job.args,
        "options": job.options,
        "timeout_ms": job.timeout_ms,
        "version": version,
        "now": now,
        "scan_at": stamp(scan_time(due_at)),
        "due_at": stamp(due_at),
    }
