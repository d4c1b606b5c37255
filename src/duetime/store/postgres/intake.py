"""Intake: jobs are written once, in one transaction for any batch, straight into the home where they belong."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from duetime.duration import format_duration
from duetime.errors import JobBusy, KeyInFlight, KeyReused
from duetime.model.firing import LOOK_AHEAD, scan_time
from duetime.model.job import NewJob, Submitted
from duetime.model.lane import LaneKey
from duetime.model.schedule import NOW, Every, Once, encode_schedule
from duetime.store.postgres.database import SQL, Connection, columns
from duetime.store.postgres.role import Role
from duetime.store.protocol import Hint

IDEMPOTENCY, KEY = "i", "k"


class _Placed(NamedTuple):
    """Where a job goes in its home: under which id, as which version, and after which fire."""

    job: NewJob
    version: int = 1
    after: datetime | None = None


class _Known(NamedTuple):
    job_id: UUID
    run_id: UUID | None
    fingerprint: bytes
    next_run: datetime | None


class IntakeRole(Role):
    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        if not jobs:
            return []
        lanes = await self.lane_book.ids({job.lane for job in jobs})
        keyed = [job for job in jobs if job.key is not None or job.idempotency_key is not None]
        if not keyed and all(job.schedule is NOW for job in jobs):
            answers = await self._insert_ready(tenant_id, jobs, lanes)
        else:
            async with self.database.transaction() as connection:
                answers = await self._insert(connection, tenant_id, jobs, keyed, lanes)
        self.hints.give(Hint.READY)
        return answers

    async def _insert_ready(self, tenant_id: int, jobs: Sequence[NewJob], lanes: dict[LaneKey, int]) -> list[Submitted]:
        run_ids = [job.first_run_id() for job in jobs]
        due_at = await self.database.fetchval(
            "insert_ready",
            tenant_id,
            [job.id for job in jobs],
            run_ids,
            [lanes[job.lane] for job in jobs],
            [job.args for job in jobs],
            [job.options for job in jobs],
            [job.timeout_ms for job in jobs],
        )
        return [Submitted(job.id, due_at, run_id) for job, run_id in zip(jobs, run_ids, strict=True)]

    async def _insert(
        self,
        connection: Connection,
        tenant_id: int,
        jobs: Sequence[NewJob],
        keyed: Sequence[NewJob],
        lanes: dict[LaneKey, int],
    ) -> list[Submitted]:
        answers: dict[UUID, Submitted] = {}
        known = await self._take_keys(connection, tenant_id, keyed)
        placed = []
        for job in jobs:
            first = known.get((IDEMPOTENCY, job.idempotency_key))
            if first is not None:
                answers[job.id] = _answer_again(job, first)
                continue
            named = known.get((KEY, job.key))
            replaced = None if named is None else await self._replace(connection, tenant_id, job, named)
            if isinstance(replaced, Submitted):
                answers[job.id] = replaced
            else:
                placed.append((job.id, replaced or _Placed(job)))
        once = [place for _, place in placed if isinstance(place.job.schedule, Once)]
        stored = await self._insert_once(connection, tenant_id, once, lanes)
        for asked_id, place in placed:
            if not isinstance(place.job.schedule, Once):
                answers[asked_id] = await self._insert_recurring(connection, tenant_id, place)
            else:
                answers[asked_id] = stored[place.job.id]
        await self._put_keys(connection, tenant_id, keyed, answers)
        return [answers[job.id] for job in jobs]

    async def _insert_once(
        self, connection: Connection, tenant_id: int, placed: Sequence[_Placed], lanes: dict[LaneKey, int]
    ) -> dict[UUID, Submitted]:
        rows = []
        for job, version, _ in placed:
            assert isinstance(job.schedule, Once)
            rows.append(
                (
                    job.id,
                    job.first_run_id(),
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
                    version,
                )
            )
        if not rows:
            return {}
        found = await connection.fetch(SQL["insert_once"], tenant_id, *columns(rows, 13), LOOK_AHEAD)
        run_ids = {row[0]: row[1] for row in rows}
        asked = {row[0]: row[6] for row in rows}
        return {
            job_id: Submitted(job_id, due_at, run_ids[job_id] if soon else None, note=past_note(asked[job_id], due_at))
            for job_id, due_at, soon in found
        }

    async def _insert_recurring(self, connection: Connection, tenant_id: int, placed: _Placed) -> Submitted:
        job, version, after = placed
        # Read after every lock is held: a new cursor lies after this moment, and after the last fire that was claimed.
        now: datetime = await connection.fetchval(SQL["clock"])
        schedule = job.schedule.anchored(now) if isinstance(job.schedule, Every) else job.schedule
        assert not isinstance(schedule, Once)
        next_fire_at = schedule.next_after(now if after is None else max(now, after))
        if next_fire_at is None:
            return Submitted(job.id, None, note="this schedule has no occurrence left: nothing was stored")
        await connection.execute(
            SQL["insert_recurring"],
            job.id,
            tenant_id,
            job.lane.task,
            job.lane.queue,
            job.lane.tier,
            encode_schedule(schedule),
            job.args,
            job.options,
            job.timeout_ms,
            version,
            scan_time(next_fire_at, after=after),
            next_fire_at,
            after,
        )
        return Submitted(job.id, next_fire_at)

    async def _take_keys(
        self, connection: Connection, tenant_id: int, keyed: Sequence[NewJob]
    ) -> dict[tuple[str, str | None], _Known]:
        """Lock every key without waiting, in one order for everybody, then read what they lead to."""
        wanted = sorted(
            {(KEY, job.key) for job in keyed if job.key is not None}
            | {(IDEMPOTENCY, job.idempotency_key) for job in keyed if job.idempotency_key is not None}
        )
        if not wanted:
            return {}
        kinds, keys = columns(wanted, 2)
        if not await connection.fetchval(SQL["try_lock_keys"], tenant_id, kinds, keys):
            raise KeyInFlight(
                "another request with this key has not finished", field="key", remedy="ask again in a moment"
            )
        rows = await connection.fetch(SQL["find_keys"], tenant_id, kinds, keys)
        return {(kind, key): _Known(*rest) for kind, key, *rest in rows}

    async def _replace(
        self, connection: Connection, tenant_id: int, job: NewJob, known: _Known
    ) -> Submitted | _Placed | None:
        """What a submission with the key of an earlier job does; None when that job is over."""
        # The cursor first: a scanner that is firing this job finishes before we look where the row lives.
        last_fire_at = await connection.fetchval(SQL["lock_cursor"], known.job_id)
        row = await connection.fetchrow(SQL["lock_live_job"], tenant_id, known.job_id)
        runs = await connection.fetch(SQL["lock_live_runs"], tenant_id, known.job_id)
        if row is None and not runs:
            return None
        if known.fingerprint == job.fingerprint:
            dues = [run["due_at"] for run in runs if run["unbegun"]]
            next_run = min(dues, default=row["next_fire_at"] if row else known.next_run)
            return Submitted(known.job_id, next_run, runs[-1]["id"] if runs else None, created=False)
        begun = [run for run in runs if not run["unbegun"]]
        if begun and (row is None or not row["recurring"]):
            raise JobBusy(
                f"the job with the key {job.key!r} has started and cannot be replaced",
                field="key",
                remedy="wait for its end, cancel it, or use another key",
            )
        await connection.execute(SQL["withdraw_runs"], tenant_id, known.job_id)
        await connection.execute(SQL["remove_job"], tenant_id, known.job_id)
        version = row["version"] + 1 if row else 2
        after = last_fire_at if len(begun) == len(runs) else None
        return _Placed(_under(job, known.job_id), version, after)

    async def _put_keys(
        self,
        connection: Connection,
        tenant_id: int,
        keyed: Sequence[NewJob],
        answers: dict[UUID, Submitted],
    ) -> None:
        rows = []
        for job in keyed:
            answer = answers[job.id]
            if not answer.created:
                continue
            for kind, key in ((KEY, job.key), (IDEMPOTENCY, job.idempotency_key)):
                if key is not None:
                    rows.append((kind, key, answer.job_id, answer.run_id, job.fingerprint, answer.next_run))
        if rows:
            await connection.execute(SQL["put_keys"], tenant_id, *columns(rows, 6))


def _under(job: NewJob, job_id: UUID) -> NewJob:
    return NewJob(
        job_id,
        job.lane,
        job.schedule,
        job.args,
        job.options,
        job.timeout_ms,
        job.key,
        job.idempotency_key,
        job.fingerprint,
    )


def _answer_again(job: NewJob, known: _Known) -> Submitted:
    if known.fingerprint != job.fingerprint:
        raise KeyReused(
            f"the idempotency key {job.idempotency_key!r} came with another request before",
            field="idempotency_key",
            remedy="use a new key for a new request",
        )
    return Submitted(known.job_id, known.next_run, known.run_id, created=False)


def past_note(asked: datetime | None, due_at: datetime) -> str | None:
    """What to tell a caller who asked for a time that is over."""
    if asked is None or asked >= due_at:
        return None
    return f"run_at lies {format_duration(due_at - asked)} in the past: it runs now"
