"""Completing: fenced, batched, and the only way out of `runs`."""

from collections.abc import Sequence
from uuid import UUID

from duetime.model.attempt import AttemptState, Completion, RunNote
from duetime.model.failure import FailureClass
from duetime.model.retry import Verdict
from duetime.model.run import Event, RunState, after
from duetime.store.postgres.database import SQL, Connection, columns
from duetime.store.postgres.role import Role
from duetime.store.protocol import Completed, Hint

_CANCELLED = Verdict(Event.CANCEL)


class CompletingRole(Role):
    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        closed = list(closed_claims)
        plain = [item for item in completions if _is_plain(item)]
        if len(plain) == len(completions):
            accepted = await self.database.fetchval(
                "succeed_runs",
                [item.run_id for item in plain],
                [item.fence for item in plain],
                worker_id,
                closed,
            )
            if len(accepted or ()) == len(plain):
                return Completed()
            return Completed(frozenset(item.run_id for item in plain) - frozenset(accepted or ()))
        async with self.database.transaction() as connection:
            accepted = await apply(connection, worker_id, completions, closed)
        if any(item.verdict.delay is not None for item in completions):
            self.hints.give(Hint.READY)
        return Completed(frozenset(item.run_id for item in completions) - accepted)

    async def hand_back(self, worker_id: UUID, runs: Sequence[tuple[UUID, int]]) -> int:
        if not runs:
            return 0
        count = await self.database.execute("hand_back", worker_id, *columns(runs, 2))
        self.hints.give(Hint.READY)
        return count

    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed:
        rows = [(note.run_id, note.fence, note.progress, note.message, note.checkpoint) for note in notes]
        if not rows:
            return Completed()
        found = await self.database.fetch("note_runs", worker_id, *columns(rows, 5))
        return Completed(frozenset(note.run_id for note in notes) - {row[0] for row in found})


async def apply(
    connection: Connection,
    worker_id: UUID,
    completions: Sequence[Completion],
    closed: Sequence[int] = (),
    lanes: dict[UUID, int] | None = None,
) -> frozenset[UUID]:
    """Apply completions of any kind inside a transaction; returns the runs that were accepted."""
    ends = [item for item in completions if item.verdict.delay is None]
    again = [item for item in completions if item.verdict.delay is not None]
    accepted = await _end(connection, worker_id, ends, closed)
    if again:
        waiting = await _retry(connection, worker_id, again, closed, lanes or {})
        # What was not made to wait is either not ours any more, or somebody asked for it to be cancelled.
        rest = [_as_cancelled(item) for item in again if item.run_id not in waiting]
        accepted |= waiting | await _end(connection, worker_id, rest, ())
    return accepted


async def _end(
    connection: Connection, worker_id: UUID, items: Sequence[Completion], closed: Sequence[int]
) -> frozenset[UUID]:
    if not items and not closed:
        return frozenset()
    rows = [
        (
            item.attempt_state,
            after(RunState.RUNNING, item.verdict.event),
            item.failure,
            item.error,
            item.result,
            item.logs,
        )
        for item in items
    ]
    ids, fences = [item.run_id for item in items], [item.fence for item in items]
    found = await connection.fetchval(SQL["end_runs"], ids, fences, worker_id, list(closed), *columns(rows, 6))
    return frozenset(found or ())


async def _retry(
    connection: Connection,
    worker_id: UUID,
    items: Sequence[Completion],
    closed: Sequence[int],
    lanes: dict[UUID, int],
) -> frozenset[UUID]:
    rows = []
    for item in items:
        after(RunState.RUNNING, item.verdict.event)
        rows.append(
            (
                item.attempt_state,
                item.failure,
                item.error,
                item.logs,
                item.verdict.delay,
                item.verdict.spent,
                lanes.get(item.run_id),
            )
        )
    ids, fences = [item.run_id for item in items], [item.fence for item in items]
    found = await connection.fetchval(SQL["retry_runs"], ids, fences, worker_id, list(closed), *columns(rows, 7))
    return frozenset(found or ())


def _is_plain(item: Completion) -> bool:
    return item.verdict.event is Event.SUCCEED and item.result is None and item.logs is None


def _as_cancelled(item: Completion) -> Completion:
    return Completion(
        item.run_id,
        item.fence,
        _CANCELLED,
        AttemptState.CANCELLED,
        FailureClass.CANCELLED,
        item.error,
        None,
        item.logs,
    )
