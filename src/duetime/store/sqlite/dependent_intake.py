"""Intake of jobs that depend on others. A file has one writer, so no parent can end while it is looked at."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from duetime.model.dependency import Fate, decide
from duetime.model.job import NewJob, Submitted
from duetime.model.lane import LaneKey
from duetime.model.run import RunState
from duetime.model.schedule import After, Once, encode_schedule
from duetime.store.rules.dependents import (
    WANTED,
    Dependent,
    Standing,
    check_followed,
    dependent_rows,
    plan_dependent,
    why_cancelled_at_once,
)
from duetime.store.rules.placement import Placed, past_note
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.settling import cancel_blocked
from duetime.store.sqlite.values import moment, stamp


def hold_parents(connection: Connection, tenant_id: int, jobs: Iterable[UUID]) -> Standing:
    """How these jobs stand; those that are not over are followed from now on."""
    live, recurring, ended = set(), set(), {}
    for job_id in sorted(set(jobs)):
        this = {"tenant_id": tenant_id, "job_id": job_id.bytes}
        if connection.value("is_deleted", this):
            continue
        stored = connection.value("follow_jobs", this)
        if stored:
            recurring.add(job_id)
        if connection.rows("follow_runs", this) or stored == 0:
            live.add(job_id)
        state = connection.value("ends_of_jobs", this)
        if state is not None:
            ended[job_id] = RunState(state)
    return Standing(frozenset(live - recurring), frozenset(recurring), ended)


def insert_dependents(
    connection: Connection, now: int, tenant_id: int, placed: Mapping[UUID, Placed], lanes: Mapping[LaneKey, int]
) -> dict[UUID, Submitted]:
    """Store one-off jobs that wait for others, straight as their runs; answers by the id that was asked with."""
    jobs = [place.job for place in placed.values()]
    depends_on = {job.id: job.depends_on for job in jobs if job.depends_on is not None}
    standing = hold_parents(connection, tenant_id, [p for on in depends_on.values() for p in on.parents])
    dependents = {job.id: plan_dependent(job, job.first_run_id(), standing) for job in jobs}
    for place in placed.values():
        if not place.created:
            connection.execute("drop_edges", {"tenant_id": tenant_id, "job_id": place.job.id.bytes})
    due = insert_runs(connection, now, tenant_id, jobs, lanes, dependents)
    put_edges(
        connection,
        tenant_id,
        [
            (parent, child, None if parent in standing.live else standing.ended[parent])
            for child, on in depends_on.items()
            for parent in on.parents
        ],
    )
    put_dependents(connection, tenant_id, dependents.values())
    fates = {job_id: decide(item.rule, item.tally) for job_id, item in dependents.items()}
    reasons = {
        job_id: why_cancelled_at_once(depends_on[job_id], standing)
        for job_id, fate in fates.items()
        if fate is Fate.CANCEL
    }
    cancel_blocked(connection, now, [(dependents[job_id].run_id, reason) for job_id, reason in reasons.items()])
    answers = {}
    for asked_id, (job, _, created) in placed.items():
        assert isinstance(job.schedule, Once)
        due_at = due[job.id]
        note = reasons.get(job.id) or past_note(job.schedule.at, due_at)
        next_run = due_at if fates[job.id] is Fate.RUN else None
        answers[asked_id] = Submitted(job.id, next_run, dependents[job.id].run_id, created, note)
    return answers


def put_edges(connection: Connection, tenant_id: int, edges: Iterable[tuple[UUID, UUID, int | None]]) -> None:
    rows = [(tenant_id, parent.bytes, child.bytes, state) for parent, child, state in edges]
    connection.many("put_edges", rows)


def put_dependents(connection: Connection, tenant_id: int, dependents: Iterable[Dependent]) -> None:
    rows = [(tenant_id, job_id.bytes, run_id.bytes, *rest) for job_id, run_id, *rest in dependent_rows(dependents)]
    connection.many("put_dependents", rows)


def insert_runs(
    connection: Connection,
    now: int,
    tenant_id: int,
    jobs: Sequence[NewJob],
    lanes: Mapping[LaneKey, int],
    dependents: Mapping[UUID, Dependent],
    *,
    followed: bool = False,
) -> dict[UUID, datetime]:
    """Store one-off jobs as their runs; returns when each is due."""
    due = {job.id: _due_at(job, moment(now)) for job in jobs}
    rows = []
    for job in jobs:
        item = dependents.get(job.id)
        rows.append(
            {
                "run_id": job.first_run_id().bytes,
                "job_id": job.id.bytes,
                "tenant_id": tenant_id,
                "lane_id": lanes[job.lane],
                "blocked": item is not None and decide(item.rule, item.tally) is not Fate.RUN,
                "due_at": stamp(due[job.id]),
                "args": job.args,
                "options": job.options,
                "timeout_ms": job.timeout_ms,
                "followed": followed,
                "manual": False,
                "now": now,
            }
        )
    connection.many("insert_dependents", rows)
    return due


def insert_follower(connection: Connection, now: int, tenant_id: int, placed: Placed) -> Submitted:
    """Store a job that runs after another."""
    job = placed.job
    assert isinstance(job.schedule, After)
    check_followed(job.schedule, hold_parents(connection, tenant_id, [job.schedule.job]))
    connection.execute(
        "insert_follower",
        {
            "id": job.id.bytes,
            "tenant_id": tenant_id,
            "task": job.lane.task,
            "queue": job.lane.queue,
            "tier": job.lane.tier,
            "schedule": encode_schedule(job.schedule),
            "args": job.args,
            "options": job.options,
            "timeout_ms": job.timeout_ms,
            "version": placed.version,
            "now": now,
            "parent_id": job.schedule.job.bytes,
            "wanted": WANTED[job.schedule.on],
        },
    )
    return Submitted(job.id, None, created=placed.created)


def _due_at(job: NewJob, now: datetime) -> datetime:
    schedule = job.schedule
    assert isinstance(schedule, Once)
    if schedule.at is not None:
        return max(schedule.at, now)
    return now if schedule.delay is None else now + schedule.delay
