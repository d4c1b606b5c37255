"""Intake: each batch of jobs is stored in one transaction, each job directly in its home."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from duetime.model.edit import changes_for
from duetime.model.firing import LOOK_AHEAD
from duetime.model.job import NewJob, Submitted
from duetime.model.lane import LaneKey
from duetime.model.schedule import After, Once, encode_schedule
from duetime.store.postgres.database import SQL, Connection, LaneGone, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.lanes import LANE_TRIES
from duetime.store.postgres.role import Role
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.rules.caller_keys import (
    IDEMPOTENCY,
    KEY,
    Editable,
    Known,
    LiveRun,
    Standing,
    answer_again,
    is_plain,
    key_rows,
    keys_of,
    meet,
    waves,
)
from duetime.store.rules.edits import answer_edit, check_replaced, must_not_be_waited_for
from duetime.store.rules.labels import label_rows, payload_rows
from duetime.store.rules.placement import NO_OCCURRENCE, Placed, calendars_of, first_fire, leaves_out_days, past_note
from duetime.store.shared.answers import try_lock_keys
from duetime.store.shared.calendars import hold_calendars, use_calendars
from duetime.store.shared.dependent_intake import insert_dependents, insert_follower, refollow
from duetime.store.shared.edits import JobEdit
from duetime.store.shared.label_rows import put_labels, put_labels_of


class IntakeRole(Role):
    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        if not jobs:
            return []
        if all(is_plain(job) for job in jobs):
            answers = await self._insert_plain(tenant_id, jobs)
        else:
            await self.lane_book.ids({job.lane for job in jobs})
            answers = await self._insert_any(tenant_id, jobs)
        self.ready.announce()
        return answers

    async def known_keys(self, tenant_id: int, keys: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        rows = await self.database.fetch("known_keys", tenant_id, *columns(list(keys), 2))
        return frozenset((kind, key) for kind, key in rows)

    async def _insert_plain(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        keys = {job.lane for job in jobs}
        for _ in range(LANE_TRIES - 1):
            lanes = await self.lane_book.ids(keys)
            try:
                return await self._insert_ready(tenant_id, jobs, lanes)
            except LaneGone:  # nothing was stored
                await self.lane_book.doubt(lanes.values())
        return await self._insert_ready(tenant_id, jobs, await self.lane_book.ids(keys))

    async def _insert_ready(self, tenant_id: int, jobs: Sequence[NewJob], lanes: dict[LaneKey, int]) -> list[Submitted]:
        run_ids = [job.first_run_id() for job in jobs]
        arguments = (
            tenant_id,
            [job.id for job in jobs],
            run_ids,
            [lanes[job.lane] for job in jobs],
            [job.args for job in jobs],
            [job.options for job in jobs],
            [job.timeout_ms for job in jobs],
            *self.lane_book.stamped(lanes.values()),
        )
        labels, refs = label_rows(jobs), payload_rows(jobs)
        if labels or refs:
            async with self.database.transaction() as connection:
                due_at = await connection.fetchval(SQL["insert_ready"], *arguments)
                await put_labels(PostgresTransaction(connection), tenant_id, labels, refs)
        else:
            due_at = await self.database.fetchval("insert_ready", *arguments)
        return [Submitted(job.id, due_at, run_id) for job, run_id in zip(jobs, run_ids, strict=True)]

    @retry_on_deadlock
    async def _insert_any(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        answers: dict[UUID, Submitted] = {}
        async with self.database.transaction() as connection:
            await try_lock_keys(PostgresTransaction(connection), tenant_id, keys_of(jobs))
            lanes = await self.lane_book.ids_within(connection, {job.lane for job in jobs})
            for wave in waves(jobs):
                answers |= await self._insert(connection, tenant_id, wave, lanes)
        return [answers[job.id] for job in jobs]

    async def _insert(
        self, connection: Connection, tenant_id: int, jobs: Sequence[NewJob], lanes: Mapping[LaneKey, int]
    ) -> dict[UUID, Submitted]:
        answers: dict[UUID, Submitted] = {}
        known = await _find_keys(connection, tenant_id, jobs)
        placed: dict[UUID, Placed] = {}
        edited: set[UUID] = set()
        for job in jobs:
            first = known.get((IDEMPOTENCY, job.idempotency_key))
            if first is not None:
                answers[job.id] = answer_again(job, first)
                continue
            named = known.get((KEY, job.key))
            met = None if named is None else await _meet(connection, tenant_id, job, named)
            if isinstance(met, Submitted):
                answers[job.id] = met
            elif isinstance(met, Editable):
                answers[job.id] = await self._edit_named(connection, tenant_id, met, job)
                edited.add(job.id)
            else:
                placed[job.id] = met or Placed(job)
        answers |= await _place(connection, tenant_id, placed, lanes)
        keys = key_rows(jobs, known, answers, edited.union(placed))
        if keys:
            await connection.execute(SQL["put_keys"], tenant_id, *columns(keys, 6))
        stored = [place.job for place in placed.values()]
        await put_labels_of(PostgresTransaction(connection), tenant_id, stored)
        return answers

    async def _edit_named(self, connection: Connection, tenant_id: int, met: Editable, job: NewJob) -> Submitted:
        """Apply the request as an edit of the job that its key names."""
        row, runs = met.standing
        assert row is not None
        edit = JobEdit(PostgresTransaction(connection), self.run_maker, tenant_id, met.job_id)
        return answer_edit(met.job_id, job, await edit.apply(row, runs, changes_for(job)), row, runs)


async def _place(
    connection: Connection, tenant_id: int, placed: Mapping[UUID, Placed], lanes: Mapping[LaneKey, int]
) -> dict[UUID, Submitted]:
    """Store jobs in their homes; answers by the requested id."""
    alone = {asked_id: place for asked_id, place in placed.items() if place.job.depends_on is None}
    answers = await _insert_once(connection, tenant_id, alone, lanes)
    for asked_id, place in alone.items():
        if isinstance(place.job.schedule, After):
            answers[asked_id] = await insert_follower(PostgresTransaction(connection), tenant_id, place)
        elif not isinstance(place.job.schedule, Once):
            answers[asked_id] = await _insert_recurring(connection, tenant_id, place)
    if len(alone) < len(placed):
        rest = {asked_id: place for asked_id, place in placed.items() if asked_id not in alone}
        answers |= await insert_dependents(PostgresTransaction(connection), tenant_id, rest, lanes)
    replaced = [place.job.id for place in placed.values() if not place.created]
    await refollow(PostgresTransaction(connection), tenant_id, replaced)
    return answers


async def _insert_once(
    connection: Connection, tenant_id: int, placed: Mapping[UUID, Placed], lanes: Mapping[LaneKey, int]
) -> dict[UUID, Submitted]:
    once = {asked_id: place for asked_id, place in placed.items() if isinstance(place.job.schedule, Once)}
    if not once:
        return {}
    rows = [_once_row(place, lanes) for place in once.values()]
    found = await connection.fetch(SQL["insert_once"], tenant_id, *columns(rows, 13), LOOK_AHEAD)
    stored = {job_id: (due_at, soon) for job_id, due_at, soon in found}
    answers = {}
    for asked_id, (job, _, created) in once.items():
        assert isinstance(job.schedule, Once)
        due_at, soon = stored[job.id]
        note = past_note(job.schedule.at, due_at)
        answers[asked_id] = Submitted(job.id, due_at, job.first_run_id() if soon else None, created, note)
    return answers


def _once_row(placed: Placed, lanes: Mapping[LaneKey, int]) -> tuple[object, ...]:
    job = placed.job
    assert isinstance(job.schedule, Once)
    # A job that is due after the look-ahead has no run yet, so it needs no run id.
    is_later = job.schedule.delay is not None and job.schedule.delay > LOOK_AHEAD
    return (
        job.id,
        None if is_later else job.first_run_id(),
        lanes[job.lane],
        job.lane.task,
        job.lane.queue,
        job.lane.tier,
        job.schedule.at,
        job.schedule.delay,
        job.args,
        job.options,
        job.timeout_ms,
        encode_schedule(job.schedule),
        placed.version,
    )


async def _insert_recurring(connection: Connection, tenant_id: int, placed: Placed) -> Submitted:
    job = placed.job
    transaction = PostgresTransaction(connection)
    calendars = await hold_calendars(transaction, tenant_id, calendars_of(job))
    now = await transaction.now()
    if leaves_out_days(job.schedule):
        first = await asyncio.to_thread(first_fire, placed, now, calendars)
    else:
        first = first_fire(placed, now)
    if first is None:
        return Submitted(job.id, None, created=placed.created, note=NO_OCCURRENCE)
    await transaction.execute(
        "insert_recurring",
        id=job.id,
        tenant_id=tenant_id,
        task=job.lane.task,
        queue=job.lane.queue,
        tier=job.lane.tier,
        schedule=first.schedule,
        args=job.args,
        options=job.options,
        timeout_ms=job.timeout_ms,
        version=placed.version,
        scan_at=first.scan_at,
        next_fire_at=first.next_fire_at,
        exact=first.exact,
    )
    if calendars:
        await use_calendars(transaction, tenant_id, job.id, calendars)
    return Submitted(job.id, first.next_fire_at, created=placed.created)


async def _find_keys(
    connection: Connection, tenant_id: int, jobs: Sequence[NewJob]
) -> dict[tuple[str, str | None], Known]:
    wanted = keys_of(jobs)
    if not wanted:
        return {}
    rows = await connection.fetch(SQL["find_keys"], tenant_id, *columns(wanted, 2))
    return {(kind, key): Known(*rest) for kind, key, *rest in rows}


async def _meet(
    connection: Connection, tenant_id: int, job: NewJob, known: Known
) -> Submitted | Placed | Editable | None:
    """What a submission with the key of an earlier job does. The waiting run of a replaced job is withdrawn."""
    of_job = (tenant_id, known.job_id)
    # First without locks: a claim that skips a locked run moves its mark past it, so a submission that changes nothing
    # must not lock runs.
    row = await connection.fetchrow(SQL["see_live_job"], *of_job)
    runs = await connection.fetch(SQL["see_live_runs"], *of_job)
    met = meet(job, known, Standing(row, [LiveRun(run["id"], run["unclaimed"], run["due_at"]) for run in runs]))
    if isinstance(met, Submitted):
        return met
    # The cursor first: a scanner that fires this job finishes before its home is read.
    await connection.fetchval(SQL["lock_cursor"], known.job_id)
    row = await connection.fetchrow(SQL["lock_schedule"], *of_job)
    runs = await connection.fetch(SQL["lock_live_runs"], *of_job)
    met = meet(job, known, Standing(row, [LiveRun(run["id"], run["unclaimed"], run["due_at"]) for run in runs]))
    if isinstance(met, Placed):
        if must_not_be_waited_for(job):
            check_replaced(job, known.job_id, await connection.fetchval(SQL["is_waited_for"], *of_job))
        await connection.execute(SQL["withdraw_runs"], *of_job)
        await connection.execute(SQL["restamp_runs"], *of_job)
        await connection.execute(SQL["drop_labels"], *of_job)
    return met
