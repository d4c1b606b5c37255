"""Intake of jobs with keys, schedules or parents: each batch in one transaction, each job directly in its home."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from duetime.errors import QueueChanged
from duetime.model.carried import why_stored
from duetime.model.edit import changes_for
from duetime.model.job import NewJob, Submitted
from duetime.model.lane import LaneKey
from duetime.model.schedule import After, Once
from duetime.store.rules.caller_keys import (
    IDEMPOTENCY,
    KEY,
    Editable,
    KeyRow,
    Known,
    LiveRun,
    Standing,
    answer_again,
    key_rows,
    keys_of,
    meet,
    waves,
)
from duetime.store.rules.edits import answer_edit, check_replaced, must_not_be_waited_for
from duetime.store.rules.placement import NO_OCCURRENCE, Placed, calendars_of, first_fire, leaves_out_days
from duetime.store.shared.answers import try_lock_keys
from duetime.store.shared.calendars import hold_calendars, use_calendars
from duetime.store.shared.dependent_intake import insert_dependents, insert_follower, refollow
from duetime.store.shared.edits import JobEdit, lock_live_runs
from duetime.store.shared.label_rows import put_labels_of
from duetime.store.shared.transaction import SharedRole, Transaction

Lanes = Mapping[LaneKey, int]


class KeyedIntake(SharedRole, ABC):
    @abstractmethod
    async def _insert_once(
        self, transaction: Transaction, tenant_id: int, placed: Mapping[UUID, Placed], lanes: Lanes
    ) -> dict[UUID, Submitted]:
        """Store one-off jobs: those due within the look-ahead as their runs, the others with a cursor. Answers by the
        requested id."""

    def note_carried(self, count: int, seconds: float) -> None:
        return

    async def known_keys(
        self, tenant_id: int, keys: Collection[tuple[str, str]], *, certain: bool = False
    ) -> frozenset[tuple[str, str]]:
        async def work(transaction: Transaction) -> frozenset[tuple[str, str]]:
            if certain:
                await try_lock_keys(transaction, tenant_id, sorted(keys))
            rows = await transaction.each("known_keys", ("kind", "key"), list(keys), tenant_id=tenant_id)
            return frozenset((row["kind"], row["key"]) for row in rows)

        return await self.transactions.run(work)

    async def insert_any(self, transaction: Transaction, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        await try_lock_keys(transaction, tenant_id, keys_of(jobs))
        lanes = await self.run_maker.lanes(transaction, {job.lane for job in jobs}, new_work=True)
        answers: dict[UUID, Submitted] = {}
        for wave in waves(jobs):
            answers |= await self._insert(transaction, tenant_id, wave, lanes)
        return [answers[job.id] for job in jobs]

    async def _insert(
        self, transaction: Transaction, tenant_id: int, jobs: Sequence[NewJob], lanes: Lanes
    ) -> dict[UUID, Submitted]:
        answers: dict[UUID, Submitted] = {}
        known, streamed = await _find_keys(transaction, tenant_id, jobs)
        placed: dict[UUID, Placed] = {}
        edited: set[UUID] = set()
        for job in jobs:
            first = known.get((IDEMPOTENCY, job.idempotency_key))
            if first is not None:
                answers[job.id] = answer_again(job, first)
                continue
            named = known.get((KEY, job.key))
            met = None if named is None else await _meet(transaction, tenant_id, job, named)
            if isinstance(met, Submitted):
                answers[job.id] = met
            elif isinstance(met, Editable):
                answers[job.id] = await self._edit_named(transaction, tenant_id, met, job)
                edited.add(job.id)
            else:
                placed[job.id] = met or Placed(job)
        if streamed:
            _check_kinds(placed.values(), streamed)
        answers |= await _land(transaction, placed)
        answers |= await self._place(transaction, tenant_id, placed, lanes)
        keys = key_rows(jobs, known, answers, edited.union(placed))
        await transaction.put("put_keys", KeyRow._fields, keys, tenant_id=tenant_id)
        await put_labels_of(transaction, tenant_id, [place.job for place in placed.values()])
        return answers

    async def _edit_named(self, transaction: Transaction, tenant_id: int, met: Editable, job: NewJob) -> Submitted:
        """Apply the request as an edit of the job that its key names."""
        row, runs = met.standing
        assert row is not None
        edit = JobEdit(transaction, self.run_maker, tenant_id, met.job_id)
        return answer_edit(met.job_id, job, await edit.apply(row, runs, changes_for(job)), row, runs)

    async def _place(
        self, transaction: Transaction, tenant_id: int, placed: Mapping[UUID, Placed], lanes: Lanes
    ) -> dict[UUID, Submitted]:
        """Store jobs in their homes; answers by the requested id."""
        answers: dict[UUID, Submitted] = {}
        once: dict[UUID, Placed] = {}
        dependents: dict[UUID, Placed] = {}
        for asked_id, place in placed.items():
            if place.job.depends_on is not None:
                dependents[asked_id] = place
            elif isinstance(place.job.schedule, Once):
                once[asked_id] = place
            elif isinstance(place.job.schedule, After):
                answers[asked_id] = await insert_follower(transaction, tenant_id, place)
            else:
                answers[asked_id] = await _insert_recurring(transaction, tenant_id, place)
        if once:
            answers |= await self._insert_once(transaction, tenant_id, once, lanes)
        if dependents:
            answers |= await insert_dependents(transaction, tenant_id, dependents, lanes)
        await refollow(transaction, tenant_id, [place.job.id for place in placed.values() if not place.created])
        return answers


async def _land(transaction: Transaction, placed: dict[UUID, Placed]) -> dict[UUID, Submitted]:
    """Spend the ids of runs that may be in a stream. Those that have ended or landed before are not placed."""
    landing = {place.job.first_run_id(): asked_id for asked_id, place in placed.items() if place.job.lands}
    if not landing:
        return {}
    rows = await transaction.each("spend_ids", ("run_id",), [(run_id,) for run_id in sorted(landing)])
    over = landing.keys() - {row["run_id"] for row in rows}
    now = await transaction.now() if over else None
    answers = {landing[run_id]: Submitted(landing[run_id], now, run_id) for run_id in over}
    for asked_id in answers:
        del placed[asked_id]
    return answers


async def _insert_recurring(transaction: Transaction, tenant_id: int, placed: Placed) -> Submitted:
    job = placed.job
    calendars = await hold_calendars(transaction, tenant_id, calendars_of(job))
    now = await transaction.now()
    if leaves_out_days(job.schedule):
        first = await transaction.compute(first_fire, placed, now, calendars)
    else:
        first = first_fire(placed, now)
    if first is None:
        return Submitted(job.id, None, created=False, note=NO_OCCURRENCE)
    await transaction.execute(
        "insert_recurring",
        id=job.id,
        tenant_id=tenant_id,
        task=job.lane.task,
        queue=job.lane.queue,
        tier=job.lane.tier,
        args=job.args,
        options=job.options,
        timeout_ms=job.timeout_ms,
        version=placed.version,
        **first._asdict(),
    )
    if calendars:
        await use_calendars(transaction, tenant_id, job.id, calendars)
    return Submitted(job.id, first.next_fire_at, created=placed.created)


async def _find_keys(
    transaction: Transaction, tenant_id: int, jobs: Sequence[NewJob]
) -> tuple[dict[tuple[str, str | None], Known], frozenset[str]]:
    """What the keys of these jobs lead to; and which queues of requests that may be repeated ones have a stream."""
    queues = {job.idempotency_key: job.lane.queue for job in jobs if job.by_nonce and not job.lands}
    asked = [(kind, key, queues.get(key, "") if kind == IDEMPOTENCY else "") for kind, key in keys_of(jobs)]
    rows = await transaction.each("find_keys", ("kind", "key", "queue"), asked, tenant_id=tenant_id)
    known = {
        (row["kind"], row["key"]): Known(*(row[field] for field in Known._fields))
        for row in rows
        if row["job_id"] is not None
    }
    return known, frozenset(row["queue"] for row in rows if row["queue"] is not None)


def _check_kinds(placed: Iterable[Placed], streamed: Collection[str]) -> None:
    """Refuse requests that another server may have published meanwhile: this one was told of an earlier kind of the
    queue. It holds the keys of the requests, and before a server publishes a request it looks whether its key is
    held."""
    for place in placed:
        job = place.job
        if job.by_nonce and not job.lands and job.lane.queue in streamed and why_stored(job) is None:
            raise QueueChanged(f"the queue {job.lane.queue!r} goes through a stream now")


async def _meet(
    transaction: Transaction, tenant_id: int, job: NewJob, known: Known
) -> Submitted | Placed | Editable | None:
    """What a submission with the key of an earlier job does. The waiting run of a replaced job is withdrawn."""
    of_job = {"tenant_id": tenant_id, "job_id": known.job_id}
    # First without locks: a claim that skips a locked run moves its mark past it, so a submission that changes nothing
    # must not lock runs.
    row = await transaction.row("see_live_job", **of_job)
    runs = await transaction.rows("see_live_runs", **of_job)
    seen = [LiveRun(run["id"], run["unclaimed"], run["due_at"]) for run in runs]
    met = meet(job, known, Standing(row, seen))
    if isinstance(met, Submitted):
        return met
    # The cursor first: a scanner that fires this job finishes before its home is read.
    await transaction.lock("lock_cursor", job_id=known.job_id)
    row = await transaction.row("lock_schedule", **of_job)
    met = meet(job, known, Standing(row, await lock_live_runs(transaction, tenant_id, known.job_id)))
    if isinstance(met, Placed):
        if must_not_be_waited_for(job):
            check_replaced(job, known.job_id, await transaction.value("is_waited_for", **of_job))
        await transaction.rows("withdraw_runs", **of_job)
        await transaction.lock("restamp_runs", **of_job)
        await transaction.execute("drop_labels", **of_job)
    return met
