"""Replay: deleting jobs, trying runs again, repeating dead letters."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from msgspec.structs import asdict

from duetime.model.attempt import Run
from duetime.model.event import EventKind
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import lane_of
from duetime.model.lists import DeadFilter, Replayed
from duetime.model.run import RunState
from duetime.store.protocol.store import Hint
from duetime.store.rules.caller_keys import Repeated
from duetime.store.rules.replays import Repeat, check_repeatable, deleted_meanwhile, nothing_said, repeat
from duetime.store.shared.answers import first_answer, keep_answer, keep_repeats, repeated_by
from duetime.store.shared.reads import find_job, find_run
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.control import ControlRole
from duetime.store.sqlite.event_log import tell
from duetime.store.sqlite.role import Context, Role
from duetime.store.sqlite.transaction import SqliteTransaction, at_once
from duetime.store.sqlite.values import encoded, moment, stamp


class ReplayRole(Role):
    def __init__(self, context: Context, control: ControlRole) -> None:
        super().__init__(context)
        self._control = control

    async def delete_job(self, tenant_id: int, job_id: UUID) -> None:
        def work(connection: Connection, now: int) -> None:
            this = {"tenant_id": tenant_id, "job_id": job_id.bytes, "now": now}
            self._control.stop_job(connection, now, tenant_id, job_id)
            key = at_once(find_job(SqliteTransaction(connection, now), tenant_id, job_id))[0].options.key
            if key is not None:
                connection.execute("forget_key", {**this, "key": key})
            connection.execute("mark_deleted", this)
            connection.execute("drop_labels", this)
            tell(connection, now, EventKind.DELETED, tenant_id, [job_id])

        await self.database.run(work)
        self.hints.give(Hint.CANCEL)

    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        def work(connection: Connection, now: int) -> Run:
            made = at_once(first_answer(SqliteTransaction(connection, now), tenant_id, request, UUID))
            if made is None:
                made = self._retry(connection, now, tenant_id, run_id, nonce)
                at_once(keep_answer(SqliteTransaction(connection, now), tenant_id, request, made))
            return at_once(find_run(SqliteTransaction(connection, now), tenant_id, made))

        found = await self.database.run(work)
        self.ready.announce()
        return found

    def _retry(self, connection: Connection, now: int, tenant_id: int, run_id: UUID, nonce: bytes) -> UUID:
        """The run that is tried now: this one, or the one that repeats it."""
        this = {"tenant_id": tenant_id, "run_id": run_id.bytes, "now": now}
        old = connection.records("lock_dead_letter", this)
        if not old:
            run = at_once(find_run(SqliteTransaction(connection, now), tenant_id, run_id))
            if run.state is RunState.RETRYING:
                connection.execute("ready_now", this)
                return run_id
            check_repeatable(run_id, run.state)
            old = connection.records("ended_run", this)
        job_id = old[0]["job_id"]
        if connection.value("is_deleted", {"tenant_id": tenant_id, "job_id": job_id.bytes}):
            raise deleted_meanwhile(job_id)
        before = at_once(repeated_by(SqliteTransaction(connection, now), tenant_id, run_id))
        if before is not None:
            return before
        said = old[0] if old[0]["args"] is not None else self._said(connection, tenant_id, job_id)
        new = self._repeat(connection, run_id, said, moment(now), nonce)
        _replace(connection, now, tenant_id, [run_id], [new])
        return new.run_id

    def _said(self, connection: Connection, tenant_id: int, job_id: UUID) -> dict[str, Any]:
        """What an occurrence that made no run is repeated with: what its job says now."""
        rows = connection.records("what_job_says", {"tenant_id": tenant_id, "job_id": job_id.bytes})
        if not rows:
            raise nothing_said(job_id)
        (row,) = rows
        key = lane_of(tenant_id, row["queue"], row["tier"], row["task"], row["options"])
        return {**row, "lane_id": self.lane_book.ids(connection, [key])[key]}

    def _repeat(
        self,
        connection: Connection,
        old: UUID,
        row: dict[str, Any],
        now: datetime,
        nonce: bytes,
        delay: timedelta = timedelta(0),
    ) -> Repeat:
        return repeat(
            old,
            row["job_id"],
            self.lane_book.awake_again(connection, row["lane_id"]),
            row["args"],
            row["options"],
            row["timeout_ms"],
            now=now,
            nonce=nonce,
            delay=delay,
        )

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
        def work(connection: Connection, now: int) -> Replayed:
            before = at_once(first_answer(SqliteTransaction(connection, now), tenant_id, request, Replayed))
            if before is not None:
                return before
            rows = _matching(connection, tenant_id, filter, limit + 1, also_deleted=False)
            old = [row["run_id"] for row in rows[:limit]]
            new = [
                self._repeat(
                    connection, row["run_id"], row, moment(now), nonce, delay + timedelta(seconds=place / rate)
                )
                for place, row in enumerate(rows[:limit])
            ]
            _replace(connection, now, tenant_id, old, new)
            answer = Replayed(tuple(zip(old, [item.run_id for item in new], strict=True)), more=len(rows) > limit)
            at_once(keep_answer(SqliteTransaction(connection, now), tenant_id, request, answer))
            return answer

        replayed = await self.database.run(work)
        self.ready.announce()
        return replayed

    async def discard_dead_letters(self, tenant_id: int, filter: DeadFilter, limit: int = 1000) -> int:
        def work(connection: Connection, _now: int) -> int:
            rows = _matching(connection, tenant_id, filter, limit, also_deleted=True)
            _remove(connection, tenant_id, [row["run_id"] for row in rows])
            return len(rows)

        return await self.database.run(work)


def _matching(
    connection: Connection, tenant_id: int, filter: DeadFilter, limit: int, *, also_deleted: bool
) -> list[dict[str, Any]]:
    wanted = {**asdict(filter), "tenant_id": tenant_id, "limit": limit, "also_deleted": also_deleted}
    return connection.records("lock_dead_letters", encoded(wanted, 0))


def _remove(connection: Connection, tenant_id: int, run_ids: Sequence[UUID]) -> None:
    connection.many("remove_dead_letters", [{"tenant_id": tenant_id, "run_id": run_id.bytes} for run_id in run_ids])


def _replace(connection: Connection, now: int, tenant_id: int, old: Sequence[UUID], new: Sequence[Repeat]) -> None:
    _remove(connection, tenant_id, old)
    connection.many(
        "repeat_runs",
        [
            {
                "id": item.run_id.bytes,
                "job_id": item.job_id.bytes,
                "tenant_id": tenant_id,
                "lane_id": item.lane_id,
                "due_at": stamp(item.due_at),
                "ready_at": stamp(item.ready_at),
                "args": item.args,
                "options": item.options,
                "timeout_ms": item.timeout_ms,
            }
            for item in new
        ],
    )
    repeated = [Repeated(each, item.run_id) for each, item in zip(old, new, strict=True)]
    at_once(keep_repeats(SqliteTransaction(connection, now), tenant_id, repeated))
    tell(connection, now, EventKind.FIRED, tenant_id, [item.run_id for item in new])
