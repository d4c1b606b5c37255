"""Completing: fenced and batched. Runs leave the table `runs` only by this module's statements."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from duetime.errors import StoreError
from duetime.model.attempt import Completion, RunNote
from duetime.model.fingerprint import fingerprint
from duetime.model.run import Event
from duetime.store.postgres.database import SQL, Connection, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.freed_runs import end_freed
from duetime.store.postgres.limiting import Limits
from duetime.store.postgres.role import Context, Role
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.protocol.store import Completed
from duetime.store.rules.completions import (
    as_cancelled,
    end_state,
    is_handed_over,
    is_plain,
    logs_before_last,
    waits_again,
)
from duetime.store.shared.control import say_replaced
from duetime.store.shared.transaction import Transaction


def _by_run(item: Completion) -> bytes:
    """All code locks runs in the order of their ids, so that deadlocks cannot happen."""
    return item.run_id.bytes


def short_road(items: Sequence[Completion], worker_id: UUID, closed: Sequence[int]) -> tuple[Any, ...] | None:
    """The values of `succeed_runs`; None if it cannot complete these."""
    if not items or not all(is_plain(item) for item in items):
        return None
    ids = [item.run_id for item in items]
    usual = min(item.fence for item in items)  # the fence of a first claim
    others = [item for item in items if item.fence != usual]
    if not others:
        return ids, usual, None, None, worker_id, list(closed)
    if len(set(ids)) < len(ids):
        return None  # a run with two completions: `succeed_runs` finds the fence by the run
    return ids, usual, [item.run_id for item in others], [item.fence for item in others], worker_id, list(closed)


class Applied(NamedTuple):
    accepted: frozenset[UUID]
    freed: frozenset[int]
    """The limits that may have room now, for `parking.free` after the commit."""


class CompletingRole(Role):
    def __init__(self, context: Context, limits: Limits) -> None:
        super().__init__(context)
        self._limits = limits

    @retry_on_deadlock
    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        completions = sorted(completions, key=_by_run)
        values = short_road(completions, worker_id, closed_claims)
        if values is not None:
            # Limits are locked last, just before the commit: no transaction that waits for a run holds one.
            row = await self.database.fetchrow("succeed_runs", *values, False)
            assert row is not None
            accepted, busy = row
            self.parking.free_later(busy or ())
            self.ready.announce(self._limits.has_limits)
            return Completed() if accepted is None else await self._refuse(frozenset(values[0]) - frozenset(accepted))
        async with self.database.transaction() as connection:
            applied = await apply(connection, worker_id, completions, closed_claims)
        await self.parking.free(applied.freed)
        self.ready.announce(self._limits.has_limits or any(waits_again(item) for item in completions))
        return await self._refuse(frozenset(item.run_id for item in completions) - applied.accepted)

    @retry_on_deadlock
    async def complete_many(
        self, reports: Sequence[tuple[UUID, Sequence[Completion], Sequence[int]]]
    ) -> list[frozenset[UUID]]:
        answers = []
        freed: set[int] = set()
        async with self.database.transaction() as connection:
            for worker_id, completions, closed in reports:
                ids = [item.run_id for item in completions]
                values = short_road(completions, worker_id, closed)
                if values is not None:
                    row = await connection.fetchrow(SQL["succeed_runs"], *values, True)
                    assert row is not None
                    accepted = frozenset(ids if row[0] is None else row[0])
                    freed.update(row[1] or ())
                else:
                    applied = await apply(connection, worker_id, completions, closed)
                    accepted = applied.accepted
                    freed |= applied.freed
                answers.append(frozenset(ids) - accepted)
        await self.parking.free(freed)
        waits = any(item.verdict.delay is not None for _, completions, _ in reports for item in completions)
        self.ready.announce(self._limits.has_limits or waits)
        return answers

    async def _refuse(self, refused: frozenset[UUID]) -> Completed:
        if not refused:
            return Completed()
        try:
            live = {row[0] for row in await self.database.fetch("which_live", list(refused))}
        except StoreError:
            return Completed(refused)  # the accepted ones are committed, and must not be reported again
        return Completed(refused, refused - live)

    @retry_on_deadlock
    async def hand_back(self, worker_id: UUID, runs: Sequence[tuple[UUID, int]]) -> int:
        if not runs:
            return 0
        async with self.database.transaction() as connection:
            rows = await connection.fetch(SQL["hand_back"], worker_id, *columns(runs, 2))
            freed = await end_freed(connection, self.run_maker, rows)
        await self.parking.free(freed)
        self.ready.announce(len(rows))
        return len(rows)

    async def apply_judged(
        self,
        transaction: Transaction,
        worker_id: UUID,
        completions: Sequence[Completion],
        lanes: Mapping[UUID, int] | None = None,
        /,
    ) -> Collection[int]:
        assert isinstance(transaction, PostgresTransaction)
        return (await apply(transaction.connection, worker_id, completions, lanes=lanes)).freed

    async def free_limits(self, limit_ids: Collection[int]) -> None:
        await self.parking.free(limit_ids)

    async def held_in_transactions(self, run_ids: Sequence[UUID]) -> frozenset[UUID]:
        return frozenset(row[0] for row in await self.database.fetch("held_in_transactions", list(run_ids)))

    @retry_on_deadlock
    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed:
        rows = [(note.run_id, note.fence, note.progress, note.message, note.checkpoint, note.logs) for note in notes]
        if not rows:
            return Completed()
        found = await self.database.fetch("note_runs", worker_id, *columns(rows, 6))
        return Completed(frozenset(note.run_id for note in notes) - {row[0] for row in found})


async def apply(
    connection: Connection,
    worker_id: UUID,
    completions: Sequence[Completion],
    closed: Sequence[int] = (),
    lanes: Mapping[UUID, int] | None = None,
) -> Applied:
    """Apply completions of any kind, in the order of their runs, inside a transaction."""
    completions = await say_replaced(PostgresTransaction(connection), completions)
    ends: list[Completion] = []
    again: list[Completion] = []
    over: list[Completion] = []
    for item in completions:
        (again if waits_again(item) else over if is_handed_over(item) else ends).append(item)
    if again or over:
        # Several statements follow: without this they would not lock the runs in order of their ids.
        await connection.execute(SQL["hold_runs"], worker_id, [item.run_id for item in completions])
    accepted = await _end(connection, worker_id, ends, closed)
    if again or over:
        going_on = await _retry(connection, worker_id, again, lanes or {}) if again else frozenset()
        going_on |= await _hand_over(connection, worker_id, over) if over else frozenset()
        # The others are not held by this worker any more, or their cancellation was requested.
        rest = [as_cancelled(item) for item in (*again, *over) if item.run_id not in going_on]
        accepted |= going_on | await _end(connection, worker_id, rest, ())
    # Of all runs, also refused ones: a run that was completed in a caller's transaction has not freed its limits.
    freed = await connection.fetchval(SQL["free_holds"], [item.run_id for item in completions])
    return Applied(accepted, frozenset(freed or ()))


async def _end(
    connection: Connection, worker_id: UUID, items: Sequence[Completion], closed: Sequence[int]
) -> frozenset[UUID]:
    if not items and not closed:
        return frozenset()
    rows = [(item.attempt_state, end_state(item), item.failure, item.error, item.result, item.logs) for item in items]
    ids, fences = [item.run_id for item in items], [item.fence for item in items]
    found = await connection.fetchval(SQL["end_runs"], ids, fences, worker_id, list(closed), *columns(rows, 6))
    accepted = frozenset(found or ())
    dead = [
        (item.run_id, item.fingerprint or fingerprint(item.failure, item.error))
        for item in items
        if item.verdict.event is Event.FAIL and item.run_id in accepted
    ]
    if dead:
        await connection.execute(SQL["mark_dead"], *columns(dead, 2))
    return accepted


async def _retry(
    connection: Connection, worker_id: UUID, items: Sequence[Completion], lanes: Mapping[UUID, int]
) -> frozenset[UUID]:
    rows = [
        (
            item.attempt_state,
            item.failure,
            item.error,
            logs_before_last(item),
            item.verdict.delay,
            item.verdict.spent,
            lanes.get(item.run_id),
        )
        for item in items
    ]
    ids, fences = [item.run_id for item in items], [item.fence for item in items]
    found = await connection.fetchval(SQL["retry_runs"], ids, fences, worker_id, *columns(rows, 7))
    return frozenset(found or ())


async def _hand_over(connection: Connection, worker_id: UUID, items: Sequence[Completion]) -> frozenset[UUID]:
    ids, fences = [item.run_id for item in items], [item.fence for item in items]
    waits = [item.verdict.delay for item in items]
    found = await connection.fetchval(SQL["hand_over_runs"], ids, fences, worker_id, waits)
    return frozenset(found or ())
