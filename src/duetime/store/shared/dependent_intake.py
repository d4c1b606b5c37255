"""Intake of jobs that depend on others.

A parent may end at the very moment when a job is submitted that waits for it. So a submission locks the parent where it
lives: either its end comes later and finds the job that waits, or it has come and is read from history. Neither way a
run waits for ever. In a file, which has one writer, no parent can end while it is looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from duetime.model.dependency import Fate, decide
from duetime.model.event import EventKind
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
from duetime.store.shared.events import append_events
from duetime.store.shared.settling import cancel_blocked
from duetime.store.shared.transaction import Table, Transaction

RUN = ("job_id", "run_id", "lane_id", "at", "delay", "args", "options", "timeout_ms", "blocked")
"""The parameters of `insert_dependents` for each run."""
_RULE = ("need", "wanted", "otherwise")
_TALLY = ("unended", "met", "unmet", "settled")


async def hold_parents(transaction: Transaction, tenant_id: int, jobs: Iterable[UUID]) -> Standing:
    """How these jobs stand; those that are not over are held until the transaction ends, and followed from then on."""
    parents = {"tenant_id": tenant_id, "ids": sorted(set(jobs))}
    # The cursors first: a scanner that is firing one of them finishes before we look where they live.
    await transaction.lock("hold_cursors", ids=parents["ids"])
    stored = await transaction.rows("follow_jobs", **parents)
    held = [row["id"] for row in await transaction.rows("hold_parents", **parents)]
    followed = await transaction.rows("follow_runs", tenant_id=tenant_id, ids=held) if held else []
    ended = await transaction.rows("ends_of_jobs", **parents)
    deleted = {row["job_id"] for row in ended if row["end_state"] is None}
    recurring = frozenset(row["id"] for row in stored if row["recurring"]) - deleted
    live = frozenset(row["id"] for row in stored).union(row["job_id"] for row in followed) - deleted - recurring
    over = {row["job_id"]: RunState(row["end_state"]) for row in ended if row["job_id"] not in deleted}
    return Standing(live, recurring, over)


async def insert_dependents(
    transaction: Transaction, tenant_id: int, placed: Mapping[UUID, Placed], lanes: Mapping[LaneKey, int]
) -> dict[UUID, Submitted]:
    """Store one-off jobs that wait for others, straight as their runs; answers by the id that was asked with."""
    jobs = [place.job for place in placed.values()]
    depends_on = {job.id: job.depends_on for job in jobs if job.depends_on is not None}
    standing = await hold_parents(transaction, tenant_id, [p for on in depends_on.values() for p in on.parents])
    dependents = {job.id: plan_dependent(job, job.first_run_id(), standing) for job in jobs}
    replaced = [place.job.id for place in placed.values() if not place.created]
    if replaced:
        await transaction.execute("drop_rules", tenant_id=tenant_id, ids=replaced)
        await transaction.execute("drop_edges", tenant_id=tenant_id, ids=replaced)
    due = await insert_runs(transaction, tenant_id, jobs, lanes, dependents)
    edges = [
        (parent, child, None if parent in standing.live else standing.ended[parent])
        for child, on in depends_on.items()
        for parent in on.parents
    ]
    await put_dependencies(transaction, tenant_id, dependents.values(), edges)
    await append_events(transaction, EventKind.SUBMITTED, tenant_id, [job.id for job in jobs])
    fates = {job_id: decide(item.rule, item.tally) for job_id, item in dependents.items()}
    reasons = {
        job_id: why_cancelled_at_once(depends_on[job_id], standing)
        for job_id, fate in fates.items()
        if fate is Fate.CANCEL
    }
    await cancel_blocked(transaction, [(dependents[job_id].run_id, reason) for job_id, reason in reasons.items()])
    answers = {}
    for asked_id, (job, _, created) in placed.items():
        assert isinstance(job.schedule, Once)
        due_at = due[job.id]
        note = reasons.get(job.id) or past_note(job.schedule.at, due_at)
        next_run = due_at if fates[job.id] is Fate.RUN else None
        answers[asked_id] = Submitted(job.id, next_run, dependents[job.id].run_id, created, note)
    return answers


async def insert_runs(
    transaction: Transaction,
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
        rows.append((job.id, job.first_run_id(), lanes[job.lane], *timing, *content, blocked))
    of_all = {"tenant_id": tenant_id, "followed": followed, "manual": False}
    return {row["id"]: row["due_at"] for row in await transaction.each("insert_dependents", RUN, rows, **of_all)}


async def put_dependencies(
    transaction: Transaction, tenant_id: int, dependents: Iterable[Dependent], edges: Table
) -> None:
    """Remember by which rule jobs wait, and what depends on what (parent, child, how the parent ended)."""
    fields = ("job_id", "run_id", *_RULE, *_TALLY)
    await transaction.put("put_dependents", fields, dependent_rows(dependents), tenant_id=tenant_id)
    await transaction.put("put_edges", ("parent_id", "child_id", "state"), edges, tenant_id=tenant_id)


async def insert_follower(transaction: Transaction, tenant_id: int, placed: Placed) -> Submitted:
    """Store a job that runs after another."""
    job = placed.job
    assert isinstance(job.schedule, After)
    check_followed(job.schedule, await hold_parents(transaction, tenant_id, [job.schedule.job]))
    of_job = {"tenant_id": tenant_id, "job_id": job.id}
    await transaction.execute(
        "insert_follower",
        **of_job,
        task=job.lane.task,
        queue=job.lane.queue,
        tier=job.lane.tier,
        schedule=encode_schedule(job.schedule),
        args=job.args,
        options=job.options,
        timeout_ms=job.timeout_ms,
        version=placed.version,
    )
    wanted = WANTED[job.schedule.on]
    await transaction.execute("put_follower", **of_job, parent_id=job.schedule.job, wanted=wanted)
    await append_events(transaction, EventKind.SUBMITTED, tenant_id, [job.id])
    return Submitted(job.id, None, created=placed.created)


async def refollow(transaction: Transaction, tenant_id: int, replaced: Sequence[UUID]) -> None:
    """Record again which jobs wait for jobs that were replaced."""
    if replaced:
        await transaction.execute("refollow_jobs", tenant_id=tenant_id, ids=list(replaced))
        await transaction.execute("refollow_runs", tenant_id=tenant_id, ids=list(replaced))
