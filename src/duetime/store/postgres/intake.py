"""Intake: each batch of jobs is stored in one transaction, each job directly in its home."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from duetime.model.firing import LOOK_AHEAD
from duetime.model.job import NewJob, Submitted
from duetime.model.schedule import Once, encode_schedule
from duetime.process.slices import batches
from duetime.store.postgres.database import SQL, LaneGone
from duetime.store.postgres.lanes import LANE_TRIES
from duetime.store.postgres.role import Role
from duetime.store.postgres.transaction import PostgresTransaction, is_one_statement
from duetime.store.rules.caller_keys import MOST_IN_A_WAVE, is_free, is_plain
from duetime.store.rules.labels import label_rows, payload_rows
from duetime.store.rules.placement import Placed, past_note
from duetime.store.rules.tenant_states import submitters
from duetime.store.shared.keyed_intake import KeyedIntake, Lanes
from duetime.store.shared.label_rows import put_labels_of
from duetime.store.shared.transaction import AT_ONCE, BYTES_AT_ONCE, Rows, Table, Transaction

T = TypeVar("T")

_ONCE = (
    *("id", "run_id", "lane_id", "task", "queue", "tier", "at", "delay"),
    *("args", "options", "timeout_ms", "schedule", "version"),
)
"""What `insert_once` needs of each job."""


class IntakeRole(Role, KeyedIntake):
    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        if not jobs:
            return []
        if all(is_plain(job) for job in jobs):
            answers = await self._in_lanes(jobs, lambda lanes: self._insert_ready(tenant_id, jobs, lanes))
        elif len(jobs) <= MOST_IN_A_WAVE and all(_is_free_once(job) for job in jobs) and not _has_more(jobs):
            answers = await self._in_lanes(jobs, lambda lanes: self._insert_free(tenant_id, jobs, lanes))
        else:
            await self.lane_book.ids({job.lane for job in jobs})
            answers = await self.transactions.run(lambda within: self.insert_any(within, tenant_id, jobs))
        self.ready.announce()
        return answers

    async def _in_lanes(self, jobs: Sequence[NewJob], insert: Callable[[Lanes], Awaitable[T]]) -> T:
        """Store jobs with statements that check their lanes."""
        tries = 0
        while True:
            tries += 1
            lanes = await self.lane_book.ids({job.lane for job in jobs})
            try:
                return await insert(lanes)
            except LaneGone:  # nothing was stored
                if tries == LANE_TRIES:
                    raise
                await self.lane_book.doubt(lanes.values())

    async def _insert_ready(self, tenant_id: int, jobs: Sequence[NewJob], lanes: Lanes) -> list[Submitted]:
        """Store jobs that are due now with one statement, or with several in a transaction."""
        stamped = self.lane_book.stamped(lanes.values())
        is_small = len(jobs) <= AT_ONCE and sum([len(job.args) for job in jobs if job.args]) <= BYTES_AT_ONCE
        if is_small and not _has_more(jobs):
            part = _ReadyPart(jobs, lanes)
            due_at = await self.database.fetchval("insert_ready", tenant_id, *part.columns, *stamped, _submitter(lanes))
            return part.answers(due_at)
        answers: list[Submitted] = []
        async with self.database.transaction() as connection:
            for some in batches(jobs, AT_ONCE, BYTES_AT_ONCE, lambda job: len(job.args or b"")):
                part = _ReadyPart(some, lanes)
                due_at = await connection.fetchval(
                    SQL["insert_ready"], tenant_id, *part.columns, *stamped, _submitter(lanes)
                )
                await put_labels_of(PostgresTransaction(connection), tenant_id, some)
                answers += part.answers(due_at)
        return answers

    async def _insert_free(self, tenant_id: int, jobs: Sequence[NewJob], lanes: Lanes) -> list[Submitted]:
        """Store one-off jobs with one statement, or with several in a transaction."""
        places = [Placed(job) for job in jobs]
        rows = [_once_row(place, lanes) for place in places]
        stamped = self.lane_book.stamped(lanes.values())
        scope = self.database.connection() if is_one_statement(rows) else self.database.transaction()
        async with scope as connection:
            found = await _put_once(PostgresTransaction(connection), tenant_id, rows, *stamped, _submitter(lanes))
        answers = _once_answers({place.job.id: place for place in places}, found)
        return [answers[job.id] for job in jobs]

    async def _insert_once(
        self, transaction: Transaction, tenant_id: int, placed: Mapping[UUID, Placed], lanes: Lanes
    ) -> dict[UUID, Submitted]:
        rows = [_once_row(place, lanes) for place in placed.values()]
        # The transaction has checked the lanes and the tenant.
        return _once_answers(placed, await _put_once(transaction, tenant_id, rows, [], [], None))


def _is_free_once(job: NewJob) -> bool:
    return isinstance(job.schedule, Once) and is_free(job)


def _has_more(jobs: Sequence[NewJob]) -> bool:
    """Whether rows of other tables belong to these jobs."""
    return bool(label_rows(jobs) or payload_rows(jobs))


class _ReadyPart:
    """The jobs of one `insert_ready`."""

    def __init__(self, jobs: Sequence[NewJob], lanes: Lanes) -> None:
        self._ids = [(job.id, job.first_run_id()) for job in jobs]
        self.columns = (
            [job_id for job_id, _ in self._ids],
            [run_id for _, run_id in self._ids],
            [lanes[job.lane] for job in jobs],
            [job.args for job in jobs],
            [job.options for job in jobs],
            [job.timeout_ms for job in jobs],
        )

    def answers(self, due_at: datetime) -> list[Submitted]:
        return [Submitted(job_id, due_at, run_id) for job_id, run_id in self._ids]


async def _put_once(
    transaction: Transaction,
    tenant_id: int,
    rows: Table,
    lanes: Sequence[int],
    nonces: Sequence[int],
    submitter: int | None,
) -> Rows:
    """`lanes`: those that are to be checked, with their nonces; `submitter`: the tenant that is to be checked."""
    checks = {"lanes": lanes, "nonces": nonces, "submitter": submitter}
    return await transaction.each("insert_once", _ONCE, rows, tenant_id=tenant_id, look_ahead=LOOK_AHEAD, **checks)


def _submitter(lanes: Lanes) -> int | None:
    """The tenant that submits what goes to these lanes."""
    return next(iter(submitters(lanes)), None)


def _once_answers(placed: Mapping[UUID, Placed], rows: Rows) -> dict[UUID, Submitted]:
    stored = {row["id"]: row for row in rows}
    answers = {}
    for asked_id, (job, _, created) in placed.items():
        assert isinstance(job.schedule, Once)
        due_at = stored[job.id]["due_at"]
        run_id = job.first_run_id() if stored[job.id]["soon"] else None
        answers[asked_id] = Submitted(job.id, due_at, run_id, created, past_note(job.schedule.at, due_at))
    return answers


def _once_row(placed: Placed, lanes: Lanes) -> tuple[object, ...]:
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
