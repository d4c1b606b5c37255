"""Completing: fenced, batched, and the only way out of `runs`."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from duetime.model.attempt import Completion, RunNote
from duetime.store.completions import as_cancelled, end_state, is_plain, waits_again
from duetime.store.protocol import Completed, Hint
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.control import end_cancelled
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import Texts, listed, microseconds, packed


class CompletingRole(Role):
    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        def work(connection: Connection, now: int) -> frozenset[UUID]:
            refused = apply(connection, now, worker_id, completions)
            if closed_claims:
                connection.execute("close_claims", {"worker_id": worker_id.bytes, "closed": listed(closed_claims)})
            return refused

        refused = await self.database.run(work)
        if any(item.verdict.delay is not None for item in completions):
            self.hints.give(Hint.READY)
        return Completed(refused)

    async def hand_back(self, worker_id: UUID, runs: Sequence[tuple[UUID, int]]) -> int:
        pairs = _pairs(worker_id, [run_id for run_id, _ in runs], [fence for _, fence in runs])

        def work(connection: Connection, now: int) -> int:
            rows = connection.rows("hand_back", {**pairs, "now": now})
            end_cancelled(connection, now, rows)
            return len(rows)

        count = await self.database.run(work)
        if count:
            self.hints.give(Hint.READY)
        return count

    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed:
        def work(connection: Connection, _now: int) -> frozenset[UUID]:
            return frozenset(note.run_id for note in notes if not _note(connection, worker_id, note))

        return Completed(await self.database.run(work))


def apply(
    connection: Connection,
    now: int,
    worker_id: UUID,
    completions: Sequence[Completion],
    lanes: Mapping[UUID, int] | None = None,
) -> frozenset[UUID]:
    """Apply completions of any kind; returns the runs that were refused."""
    pairs = _pairs(worker_id, [item.run_id for item in completions], [item.fence for item in completions])
    refused: set[UUID] = set()
    cancelled: set[UUID] = set()
    for place, shall_be_cancelled in connection.rows("exceptions", pairs):
        (cancelled if shall_be_cancelled else refused).add(completions[place].run_id)
    plain, ends, again = [], [], []
    for item in completions:
        if item.run_id in refused:
            continue
        if is_plain(item):
            plain.append(item)
        elif not waits_again(item):
            ends.append(item)
        elif item.run_id in cancelled:
            ends.append(as_cancelled(item))
        else:
            again.append(item)
    if plain:
        _succeed(connection, now, plain)
    if ends:
        _end(connection, now, ends)
    if again:
        _retry(connection, now, again, lanes or {})
    return frozenset(refused)


def _succeed(connection: Connection, now: int, items: Sequence[Completion]) -> None:
    fences = listed([item.fence for item in items])
    connection.execute("succeed_runs", {"ids": packed(item.run_id for item in items), "fences": fences, "now": now})


def _end(connection: Connection, now: int, items: Sequence[Completion]) -> None:
    texts = Texts()
    words = [
        (
            item.attempt_state,
            end_state(item),
            item.failure,
            item.error,
            *texts.add(item.result),
            *texts.add(item.logs),
        )
        for item in items
    ]
    ids = packed(item.run_id for item in items)
    connection.execute("end_runs", {"ids": ids, "words": listed(words), "texts": texts.blob, "now": now})


def _retry(connection: Connection, now: int, items: Sequence[Completion], lanes: Mapping[UUID, int]) -> None:
    texts = Texts()
    words: list[tuple[Any, ...]] = []
    for item in items:
        assert item.verdict.delay is not None
        words.append(
            (
                item.attempt_state,
                item.failure,
                item.error,
                *texts.add(item.logs),
                microseconds(item.verdict.delay),
                item.verdict.spent,
                lanes.get(item.run_id),
            )
        )
    ids = packed(item.run_id for item in items)
    connection.execute("retry_runs", {"ids": ids, "words": listed(words), "texts": texts.blob, "now": now})


def _note(connection: Connection, worker_id: UUID, note: RunNote) -> bool:
    touched = connection.execute(
        "note_runs",
        {
            "id": note.run_id.bytes,
            "fence": note.fence,
            "worker_id": worker_id.bytes,
            "progress": note.progress,
            "message": note.message,
            "checkpoint": note.checkpoint,
        },
    )
    return touched == 1


def _pairs(worker_id: UUID, run_ids: Sequence[UUID], fences: Sequence[int]) -> dict[str, Any]:
    return {"worker_id": worker_id.bytes, "ids": packed(run_ids), "fences": listed(fences)}
