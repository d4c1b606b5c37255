"""Intake of jobs that depend on others.

A parent may end at the very moment when a job is submitted that waits for it. So a submission locks the parent where
it lives: either its end comes later and finds the dependent, or it has come and is read from history. Neither way
a run waits for ever.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from duetime.model.dependency import Fate, decide
from duetime.model.job import NewJob, Submitted
from duetime.model.lane import LaneKey
from duetime.model.run import RunState
from duetime.model.schedule import After, Once, encode_schedule
from duetime.store.postgres.database import SQL, Connection, columns
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


async def hold_parents(connection: Connection, tenant_id: int, jobs: Iterable[UUID]) -> Standing:
    """How these jobs stand; those that are not over are held until the transaction ends, and followed from then on."""
    parents = sorted(set(jobs))
    # The cursors first: a scanner that is firing one of them finishes before we look where they live.
    await connection.execute(SQL["hold_cursors"], parents)
    stored = await connection.fetch(SQL["follow_jobs"], tenant_id, parents)
    held = [row["id"] for row in await connection.fetch(SQL["hold_parents"], tenant_id, parents)]
    running = {row["job_id"] for row in await connection.fetch(SQL["follow_runs"], tenant_id, held)} if held else set()
    ended = await connection.fetch(SQL["ends_of_jobs"], tenant_id, parents)
    deleted = {row["job_id"] for row in await connection.fetch(SQL["which_deleted"], tenant_id, parents)}
    recurring = frozenset(row["id"] for row in stored if row["recurring"]) - deleted
    live = frozenset(row["id"] for row in stored).union(running) - deleted - recurring
    over = {row["job_id"]: RunState(row["end_state"]) for row in ended if row["job_id"] not in deleted}
    return Standing(live, recurring, over)


async def insert_dependents(
    connection: Connection, tenant_id: int, placed: Mapping[UUID, Placed], lanes: Mapping[LaneKey, int]
) -> dict[UUID, Submitted]:
    """Store one-off jobs that wait for others, straight as their runs; answers by the id that was asked with."""
    jobs = [place.job for place in placed.values()]
    depends_on = {job.id: job.depends_on for job in jobs if job.depends_on is not None}
    standing = await hold_parents(connection, tenant_id, [p for on in depends_on.values() for p in on.parents])
    dependents = {job.id: plan_dependent(job, job.first_run_id(), standing) for job in jobs}
    replaced = [place.job.id for place in placed.values() if not place.created]
    if replaced:
        await connection.execute(SQL["drop_edges"], tenant_id, replaced)
    due = await insert_runs(connection, tenant_id, jobs, lanes, dependents)
    edges = [
        (parent, child, None if parent in standing.live else standing.ended[parent])
        for child, on in depends_on.items()
        for parent in on.parents
    ]
    await connection.execute(SQL["put_edges"], tenant_id, *columns(edges, 3))
    await connection.execute(SQL["put_dependents"], tenant_id, *columns(dependent_rows(dependents.values()), 9))
    fates = {job_id: decide(item.rule, item.tally) for job_id, item in dependents.items()}
    reasons = {
        job_id: why_cancelled_at_once(depends_on[job_id], standing)
        for job_id, fate in fates.items()
        if fate is Fate.CANCEL
    }
    if reasons:
        cancelled = [(dependents[job_id].run_id, reason) for job_id, reason in reasons.items()]
        await connection.execute(SQL["cancel_blocked"], *columns(cancelled, 2))
    answers = {}
    for asked_id, (job, _, created) in placed.items():
        assert isinstance(job.schedule, Once)
        due_at = due[job.id]
        note = reasons.get(job.id) or past_note(job.schedule.at, due_at)
        next_run = due_at if fates[job.id] is Fate.RUN else None
        answers[asked_id] = Submitted(job.id, next_run, dependents[job.id].run_id, created, note)
    return answers


async def insert_runs(
    connection: Connection,
    tenant_id: int,
    jobs: Sequence[NewJob],
    lanes: Mapping[LaneKey, int],
    dependents: Mapping[UUID, Dependent],
    *,
    followed: bool = False,
) -> dict[UUID, datetime]:
    """Store one-off jobs as their runs; returns when each is due."""
    rows = []
    for job in jobs:
        assert isinstance(job.schedule, Once)
        item = dependents.get(job.id)
        blocked = item is not None and decide(item.rule, item.tally) is not Fate.RUN
        timing = (job.schedule.at, job.schedule.delay)
        content = (job.args, job.options, job.timeout_ms)
        rows.append((job.id, job.first_run_id(), lanes[job.lane], *timing, *content, blocked, followed))
    found = await connection.fetch(SQL["insert_dependents"], tenant_id, *columns(rows, 10), False)
    return {row["id"]: row["due_at"] for row in found}


async def insert_follower(connection: Connection, tenant_id: int, placed: Placed) -> Submitted:
    """Store a job that runs after another."""
    job = placed.job
    assert isinstance(job.schedule, After)
    check_followed(job.schedule, await hold_parents(connection, tenant_id, [job.schedule.job]))
    await connection.execute(
        SQL["insert_follower"],
        job.id,
        tenant_id,
        job.lane.task,
        job.lane.queue,
        job.lane.tier,
        encode_schedule(job.schedule),
        job.args,
        job.options,
        job.timeout_ms,
        placed.version,
        job.schedule.job,
        WANTED[job.schedule.on],
    )
    return Submitted(job.id, None, created=placed.created)
