"""Replay: deleting jobs, trying runs again, repeating dead letters."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from duetime.model.attempt import Run
from duetime.model.event import EventKind
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import lane_of
from duetime.model.lists import DeadFilter, Replayed
from duetime.model.run import RunState
from duetime.store.postgres.control import ControlRole
from duetime.store.postgres.database import SQL, Connection, Row, columns
from duetime.store.postgres.role import Context, Role
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.protocol.store import Hint
from duetime.store.rules.caller_keys import Repeated
from duetime.store.rules.replays import Repeat, check_repeatable, deleted_meanwhile, nothing_said, repeat
from duetime.store.shared.answers import first_answer, keep_answer, keep_repeats, repeated_by
from duetime.store.shared.job_rows import Fields
from duetime.store.shared.reads import find_job, find_run


class ReplayRole(Role):
    def __init__(self, context: Context, control: ControlRole) -> None:
        super().__init__(context)
        self._control = control

    async def delete_job(self, tenant_id: int, job_id: UUID) -> None:
        async with self.database.acting_for(tenant_id) as connection:
            await self._control.stop_job(connection, tenant_id, job_id)
            job, _ = await find_job(PostgresTransaction(connection), tenant_id, job_id)
            if job.options.key is not None:
                await connection.execute(SQL["forget_key"], tenant_id, job_id, job.options.key)
            await connection.execute(SQL["mark_deleted"], tenant_id, job_id)
            await connection.execute(SQL["drop_labels"], tenant_id, job_id)
            await connection.execute(SQL["tell"], EventKind.DELETED, tenant_id, [job_id])
        self.hints.give(Hint.CANCEL)

    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        async with self.database.acting_for(tenant_id) as connection:
            made = await first_answer(PostgresTransaction(connection), tenant_id, request, UUID)
            if made is None:
                made = await self._retry(connection, tenant_id, run_id, nonce)
                await keep_answer(PostgresTransaction(connection), tenant_id, request, made)
            found = await find_run(PostgresTransaction(connection), tenant_id, made)
        self.ready.announce()
        return found

    async def _retry(self, connection: Connection, tenant_id: int, run_id: UUID, nonce: bytes) -> UUID:
        """The run that is tried now: this one, or the one that repeats it."""
        await connection.execute(SQL["lock_runs"], tenant_id, [run_id])
        old = await connection.fetchrow(SQL["lock_dead_letter"], tenant_id, run_id)
        if old is None:
            run = await find_run(PostgresTransaction(connection), tenant_id, run_id)
            if run.state is RunState.RETRYING:
                await connection.execute(SQL["ready_now"], tenant_id, run_id)
                return run_id
            check_repeatable(run_id, run.state)
            old = await connection.fetchrow(SQL["ended_run"], tenant_id, run_id)
            assert old is not None
        if await connection.fetchval(SQL["is_deleted"], tenant_id, old["job_id"]):
            raise deleted_meanwhile(old["job_id"])
        before = await repeated_by(PostgresTransaction(connection), tenant_id, run_id)
        if before is not None:
            return before
        said = old if old["args"] is not None else await self._said(connection, tenant_id, old["job_id"])
        lanes = await self.lane_book.awake_within(connection, [said["lane_id"]])
        new = _repeat(run_id, said, lanes, await connection.fetchval(SQL["clock"]), nonce)
        await _replace(connection, tenant_id, [run_id], [new])
        return new.run_id

    async def _said(self, connection: Connection, tenant_id: int, job_id: UUID) -> Fields:
        """What an occurrence that made no run is repeated with: what its job says now."""
        row = await connection.fetchrow(SQL["what_job_says"], tenant_id, job_id)
        if row is None:
            raise nothing_said(job_id)
        key = lane_of(tenant_id, row["queue"], row["tier"], row["task"], row["options"])
        return {**row, "lane_id": (await self.lane_book.ids_within(connection, [key]))[key]}

    async def replay_dead_letters(
        self,
        tenant_id: int,
        filter: DeadFilter,
        nonce: bytes,
        limit: int = 1000,
        rate: float = 100.0,
        delay: timedelta = timedelta(0),
        request: KeyedRequest | None = None,
    ) -> Replayed:
        async with self.database.acting_for(tenant_id) as connection:
            answer = await first_answer(PostgresTransaction(connection), tenant_id, request, Replayed)
            if answer is None:
                rows = await _lock_dead(connection, tenant_id, filter, limit + 1, also_deleted=False)
                now = await connection.fetchval(SQL["clock"])
                old = [row["run_id"] for row in rows[:limit]]
                lanes = await self.lane_book.awake_within(connection, [row["lane_id"] for row in rows[:limit]])
                new = [
                    _repeat(row["run_id"], row, lanes, now, nonce, delay + timedelta(seconds=place / rate))
                    for place, row in enumerate(rows[:limit])
                ]
                await _replace(connection, tenant_id, old, new)
                pairs = zip(old, [item.run_id for item in new], strict=True)
                answer = Replayed(tuple(pairs), more=len(rows) > limit)
                await keep_answer(PostgresTransaction(connection), tenant_id, request, answer)
        self.ready.announce()
        return answer

    async def discard_dead_letters(self, tenant_id: int, filter: DeadFilter, limit: int = 1000) -> int:
        async with self.database.acting_for(tenant_id) as connection:
            rows = await _lock_dead(connection, tenant_id, filter, limit, also_deleted=True)
            await connection.execute(SQL["remove_dead_letters"], tenant_id, [row["run_id"] for row in rows])
        return len(rows)


def _repeat(
    old: UUID, row: Fields, lanes: Mapping[int, int], now: datetime, nonce: bytes, delay: timedelta = timedelta(0)
) -> Repeat:
    return repeat(
        old,
        row["job_id"],
        lanes[row["lane_id"]],
        row["args"],
        row["options"],
        row["timeout_ms"],
        now=now,
        nonce=nonce,
        delay=delay,
    )


async def _replace(connection: Connection, tenant_id: int, old: Sequence[UUID], new: Sequence[Repeat]) -> None:
    await connection.execute(SQL["remove_dead_letters"], tenant_id, list(old))
    await connection.execute(SQL["repeat_runs"], tenant_id, *columns(new, 8))
    repeated = [Repeated(each, item.run_id) for each, item in zip(old, new, strict=True)]
    await keep_repeats(PostgresTransaction(connection), tenant_id, repeated)


async def _lock_dead(
    connection: Connection, tenant_id: int, filter: DeadFilter, limit: int, *, also_deleted: bool
) -> list[Row]:
    return await connection.fetch(
        SQL["lock_dead_letters"],
        tenant_id,
        filter.run_id,
        filter.job_id,
        filter.task,
        filter.queue,
        filter.failure,
        filter.died_from,
        filter.died_until,
        filter.error,
        limit,
        also_deleted,
        filter.fingerprint,
    )
