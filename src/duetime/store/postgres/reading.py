"""Reading: the homes merged in one snapshot, so that a row that moves is neither missed nor seen twice."""

from collections import defaultdict
from uuid import UUID

from duetime.errors import NotFound
from duetime.ids import show, time_of
from duetime.model.attempt import Attempt, AttemptState, Run
from duetime.model.failure import FailureClass
from duetime.model.job import Job, JobState, decode_options
from duetime.model.lane import Tier
from duetime.model.run import RunState, live_state
from duetime.model.schedule import Once, decode_schedule
from duetime.store.postgres.database import SQL, Connection, Row
from duetime.store.postgres.role import Role
from duetime.store.protocol import Counts


class ReadingRole(Role):
    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        async with self.database.transaction("repeatable_read", readonly=True) as connection:
            row = await connection.fetchrow(SQL["find_job"], tenant_id, job_id)
            if row is not None:
                return await _stored_job(connection, tenant_id, row)
            runs = await _runs_of_job(connection, tenant_id, job_id, 1)
        if not runs:
            raise NotFound(f"there is no job {show('job', job_id)}")
        return one_off(*runs[0])

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        async with self.database.transaction("repeatable_read", readonly=True) as connection:
            live = await connection.fetch(SQL["find_live_runs"], tenant_id, run_id, None, 1)
            attempts = await connection.fetch(SQL["find_attempts"], tenant_id, [run_id])
        if live:
            return _live_run(live[0], attempts)
        if not attempts:
            raise NotFound(f"there is no run {show('run', run_id)}")
        return _ended_run(attempts)

    async def runs_of_job(self, tenant_id: int, job_id: UUID, limit: int = 100) -> list[Run]:
        async with self.database.transaction("repeatable_read", readonly=True) as connection:
            return [run for run, _, _ in await _runs_of_job(connection, tenant_id, job_id, limit)]

    async def counts(self) -> Counts:
        row = await self.database.fetchrow("counts")
        assert row is not None
        return Counts(*row)


async def _stored_job(connection: Connection, tenant_id: int, row: Row) -> Job:
    next_run = row["next_fire_at"]
    waiting = await connection.fetchval(SQL["next_live_run"], tenant_id, row["id"])
    if waiting is not None:
        next_run = waiting if next_run is None else min(next_run, waiting)
    return Job(
        row["id"],
        row["tenant_id"],
        row["task"],
        row["queue"],
        Tier(row["tier"]),
        decode_schedule(row["schedule"]),
        JobState(row["state"]),
        next_run,
        row["args"],
        decode_options(row["options"]),
        row["timeout_ms"],
        row["version"],
        row["created_at"],
        row["problem"],
    )


def one_off(run: Run, options: bytes | None, timeout_ms: int | None) -> Job:
    """A one-off job that has become its run: the run carries all that is known of it."""
    state = JobState.ACTIVE
    if run.state.is_end:
        state = JobState.CANCELLED if run.state is RunState.CANCELLED else JobState.ENDED
    return Job(
        run.job_id,
        run.tenant_id,
        run.task,
        run.queue,
        run.tier,
        Once(at=run.due_at),
        state,
        None if run.state.is_end or run.state is RunState.RUNNING else run.ready_at,
        run.args,
        decode_options(options),
        timeout_ms,
        1,
        time_of(run.job_id),
    )


async def _runs_of_job(
    connection: Connection, tenant_id: int, job_id: UUID, limit: int
) -> list[tuple[Run, bytes | None, int | None]]:
    live = await connection.fetch(SQL["find_live_runs"], tenant_id, None, job_id, limit)
    ended = await connection.fetch(SQL["ended_runs_of_job"], tenant_id, job_id, limit)
    wanted = [row["id"] for row in live] + [row["run_id"] for row in ended]
    attempts: dict[UUID, list[Row]] = defaultdict(list)
    for row in await connection.fetch(SQL["find_attempts"], tenant_id, wanted):
        attempts[row["run_id"]].append(row)
    found = [(_live_run(row, attempts[row["id"]]), row["options"], row["timeout_ms"]) for row in live]
    for row in ended:
        last = attempts[row["run_id"]][-1]
        found.append((_ended_run(attempts[row["run_id"]]), last["options"], last["timeout_ms"]))
    found.sort(key=lambda item: item[0].id, reverse=True)
    return found[:limit]


def _live_run(row: Row, attempts: list[Row]) -> Run:
    claimed = row["worker_id"] is not None
    state = live_state(claimed=claimed, has_lane=row["lane_id"] is not None, attempt=row["attempt"], lost=row["lost"])
    last = attempts[-1] if attempts else None
    return Run(
        row["id"],
        row["job_id"],
        row["tenant_id"],
        row["task"],
        row["queue"],
        Tier(row["tier"]),
        state,
        row["attempt"],
        row["lost"],
        row["fence"],
        row["due_at"],
        row["ready_at"],
        row["started_at"] if claimed else None,
        None,
        row["worker_id"],
        row["lease_until"],
        row["args"],
        None,
        _failure(last),
        last["error"] if last else None,
        row["progress"],
        row["message"],
        tuple(_attempt(item) for item in attempts),
    )


def _ended_run(attempts: list[Row]) -> Run:
    last = attempts[-1]
    return Run(
        last["run_id"],
        last["job_id"],
        last["tenant_id"],
        last["task"],
        last["queue"],
        Tier(last["tier"]),
        RunState(last["end_state"]),
        last["attempt"],
        last["lost"],
        last["fence"],
        last["due_at"],
        last["ready_at"],
        last["started_at"],
        last["finished_at"],
        last["worker_id"],
        None,
        last["args"] or b"{}",
        last["result"],
        _failure(last),
        last["error"],
        None,
        None,
        tuple(_attempt(item) for item in attempts if item["started_at"] is not None),
    )


def _attempt(row: Row) -> Attempt:
    return Attempt(
        row["attempt"],
        row["fence"],
        AttemptState(row["attempt_state"]),
        row["worker_id"],
        row["started_at"],
        row["finished_at"],
        _failure(row),
        row["error"],
        row["logs"],
    )


def _failure(row: Row | None) -> FailureClass | None:
    return None if row is None or row["failure"] is None else FailureClass(row["failure"])
