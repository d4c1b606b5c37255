"""Completing: fenced and batched. Runs leave the table `runs` only by this module's statements."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from duetime.model.attempt import Completion, RunNote
from duetime.model.event import EventKind
from duetime.model.fingerprint import fingerprint
from duetime.model.run import Event, RunState
from duetime.store.protocol.store import Completed
from duetime.store.rules.completions import as_cancelled, end_state, is_handed_over, logs_before_last, waits_again
from duetime.store.shared.control import say_replaced
from duetime.store.shared.transaction import Transaction
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.event_log import append_run_events, is_heard
from duetime.store.sqlite.freed_runs import end_freed
from duetime.store.sqlite.limiting import free_holds
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.transaction import SqliteTransaction, at_once
from duetime.store.sqlite.values import Texts, identity, listed, microseconds, packed, places


class CompletingRole(Role):
    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        plain = _Plain.of(worker_id, completions)
        closing = {"worker_id": worker_id.bytes, "closed": listed(closed_claims)}

        def work(connection: Connection, now: int) -> Completed:
            refused: frozenset[UUID] = frozenset()
            if plain is None or not plain.apply(connection, now):
                refused = apply(connection, now, worker_id, completions)
            if closed_claims:
                connection.execute("close_claims", closing)
            return Completed(refused, _over(connection, refused)) if refused else Completed()

        answer = await self.database.run(work)
        self.ready.announce(self.lane_book.has_limits or any(waits_again(item) for item in completions))
        return answer

    async def complete_many(
        self, reports: Sequence[tuple[UUID, Sequence[Completion], Sequence[int]]]
    ) -> list[frozenset[UUID]]:
        def work(connection: Connection, now: int) -> list[frozenset[UUID]]:
            answers = []
            for worker_id, completions, closed in reports:
                answers.append(apply(connection, now, worker_id, completions))
                if closed:
                    connection.execute("close_claims", {"worker_id": worker_id.bytes, "closed": listed(closed)})
            return answers

        answers = await self.database.run(work)
        waits = any(item.verdict.delay is not None for _, completions, _ in reports for item in completions)
        self.ready.announce(self.lane_book.has_limits or waits)
        return answers

    async def hand_back(self, worker_id: UUID, runs: Sequence[tuple[UUID, int]]) -> int:
        pairs = {
            "worker_id": worker_id.bytes,
            "ids": packed(run_id for run_id, _ in runs),
            "fences": listed([fence for _, fence in runs]),
        }

        def work(connection: Connection, now: int) -> int:
            rows = connection.rows("hand_back", {**pairs, "now": now})
            end_freed(connection, now, self.run_maker, rows)
            return len(rows)

        count = await self.database.run(work)
        self.ready.announce(count)
        return count

    async def apply_judged(
        self,
        transaction: Transaction,
        worker_id: UUID,
        completions: Sequence[Completion],
        lanes: Mapping[UUID, int] | None = None,
        /,
    ) -> Collection[int]:
        assert isinstance(transaction, SqliteTransaction)
        apply(transaction.connection, transaction.at, worker_id, completions, lanes)
        return ()

    async def free_limits(self, limit_ids: Collection[int]) -> None:
        """Nothing: `apply` has freed what waited for them."""

    async def held_in_transactions(self, run_ids: Sequence[UUID]) -> frozenset[UUID]:
        return frozenset()  # the file belongs to one process, so no other transaction is open

    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed:
        def work(connection: Connection, now: int) -> frozenset[UUID]:
            return frozenset(note.run_id for note in notes if not _note(connection, now, worker_id, note))

        return Completed(await self.database.run(work))


class _Plain:
    """Completions of the usual kind: runs with one fence that have succeeded, with at most a result.

    The caller's thread prepares them: what the store's thread computes delays all other callers. There, a statement for
    all of them checks that the worker holds them. If it does not hold one, nothing has happened, and `apply` looks at
    each.
    """

    def __init__(self, worker_id: UUID, ids: Sequence[bytes], fence: int, completions: Sequence[Completion]) -> None:
        texts = Texts()
        results = [None if item.result is None else texts.add(item.result) for item in completions]
        self._ids = ids
        self._parameters: dict[str, Any] = {
            "worker_id": worker_id.bytes,
            "ids": b"".join(ids),
            "fence": fence,
            "results": listed(results),
            "texts": texts.blob,
        }

    @classmethod
    def of(cls, worker_id: UUID, completions: Sequence[Completion]) -> "_Plain | None":
        """None if they are not of this kind."""
        fences = {item.fence for item in completions}
        ids = [item.run_id.bytes for item in completions]
        if len(fences) != 1 or len(set(ids)) < len(ids) or not all(map(_says_little, completions)):
            return None
        return cls(worker_id, ids, fences.pop(), completions)

    def apply(self, connection: Connection, now: int) -> bool:
        """Whether all of them have ended."""
        if is_heard(connection, now) or connection.value("any_followed", {}):
            return False
        this = {**self._parameters, "now": now}
        connection.raw.execute("savepoint plain")
        ended = connection.execute("succeed_runs", this)
        if ended < len(self._ids):
            connection.raw.execute("rollback to plain")
            connection.raw.execute("release plain")
            return False
        connection.execute("remove_succeeded", this)
        connection.raw.execute("release plain")
        free_holds(connection, now, self._ids)
        return True


def apply(
    connection: Connection,
    now: int,
    worker_id: UUID,
    completions: Sequence[Completion],
    lanes: Mapping[UUID, int] | None = None,
) -> frozenset[UUID]:
    """Apply completions of any kind; returns the refused runs. Of two completions of a run, the first counts."""
    completions = at_once(say_replaced(SqliteTransaction(connection, now), completions))
    ids = [item.run_id.bytes for item in completions]
    if len(set(ids)) < len(ids):
        first = list({item.run_id: item for item in reversed(completions)}.values())
        return apply(connection, now, worker_id, first, lanes)
    fences = listed([item.fence for item in completions])
    pairs = {"worker_id": worker_id.bytes, "ids": b"".join(ids), "fences": fences}
    exceptions = connection.rows("exceptions", pairs)
    if not exceptions and all(_says_little(item) for item in completions):
        if is_heard(connection, now):
            _append_outcome_events(connection, now, completions, (), ())
        _succeed(connection, now, completions)
        free_holds(connection, now, ids)
        return frozenset()
    refused: set[UUID] = set()
    cancelled: set[UUID] = set()
    for place, is_cancelled in exceptions:
        (cancelled if is_cancelled else refused).add(completions[place].run_id)
    little, ends, again, over = [], [], [], []
    for item in completions:
        if item.run_id in refused:
            continue
        if _says_little(item):
            little.append(item)
        elif not waits_again(item) and not is_handed_over(item):
            ends.append(item)
        elif item.run_id in cancelled:
            ends.append(as_cancelled(item))
        elif is_handed_over(item):
            over.append(item)
        else:
            again.append(item)
    if is_heard(connection, now):
        _append_outcome_events(connection, now, little, ends, again)
    if little:
        _succeed(connection, now, little)
    if ends:
        _end(connection, now, ends)
    if again:
        _retry(connection, now, again, lanes or {})
    if over:
        waits = listed([microseconds(item.verdict.delay) for item in over if item.verdict.delay is not None])
        run_ids = packed(item.run_id for item in over)
        connection.execute("hand_over_runs", {"ids": run_ids, "waits": waits, "now": now})
    gone_on = refused | {item.run_id for item in over}
    free_holds(connection, now, [item.run_id.bytes for item in completions if item.run_id not in gone_on])
    return frozenset(refused)


def _over(connection: Connection, refused: frozenset[UUID]) -> frozenset[UUID]:
    """Those of these runs that have ended."""
    ids = packed(refused)
    rows = connection.rows("which_live", {"ids": ids, "places": places(ids)})
    return refused - {identity(row[0]) for row in rows}


def _append_outcome_events(
    connection: Connection,
    now: int,
    little: Sequence[Completion],
    ends: Sequence[Completion],
    again: Sequence[Completion],
) -> None:
    """Append events of these runs, while their rows still name the tenant."""
    kinds: dict[EventKind, list[UUID]] = defaultdict(list)
    kinds[EventKind.SUCCEEDED] = [item.run_id for item in little]
    for item in ends:
        kinds[EventKind(end_state(item))].append(item.run_id)
    kinds[EventKind.RETRYING] = [item.run_id for item in again]
    for kind, run_ids in kinds.items():
        if run_ids:
            append_run_events(connection, now, kind, run_ids)


def _says_little(item: Completion) -> bool:
    """Succeeded, with at most a result: the fast path."""
    return item.verdict.event is Event.SUCCEED and item.logs is None


def _succeed(connection: Connection, now: int, items: Sequence[Completion]) -> None:
    texts = Texts()
    results = listed([texts.add(item.result) for item in items])
    ids = packed(item.run_id for item in items)
    note_ends(connection, now, ids, [RunState.SUCCEEDED] * len(items))
    these = {"ids": ids, "results": results, "texts": texts.blob, "now": now, "worker_id": None, "fence": None}
    connection.execute("succeed_runs", these)
    connection.execute("remove_succeeded", these)


def _end(connection: Connection, now: int, items: Sequence[Completion]) -> None:
    texts = Texts()
    words = [
        (
            item.attempt_state,
            end_state(item),
            item.failure,
            item.error,
            texts.add(item.result),
            texts.add(item.logs),
            (item.fingerprint or fingerprint(item.failure, item.error)) if item.verdict.event is Event.FAIL else None,
        )
        for item in items
    ]
    ids = packed(item.run_id for item in items)
    note_ends(connection, now, ids, [end_state(item) for item in items])
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
                texts.add(logs_before_last(item)),
                microseconds(item.verdict.delay),
                item.verdict.spent,
                lanes.get(item.run_id),
            )
        )
    ids = packed(item.run_id for item in items)
    connection.execute("retry_runs", {"ids": ids, "words": listed(words), "texts": texts.blob, "now": now})


def _note(connection: Connection, now: int, worker_id: UUID, note: RunNote) -> bool:
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
    if touched and note.logs is not None:
        said = {"id": note.run_id.bytes, "fence": note.fence, "logs": note.logs, "now": now}
        connection.execute("keep_logs", said)
    return touched == 1


def note_ends(connection: Connection, now: int, ids: bytes, states: Sequence[RunState]) -> None:
    """Note the ends of those of these runs that jobs wait for, as long as their rows are there."""
    if connection.value("any_followed", {}):
        connection.ends_noted |= connection.execute("note_ends", {"ids": ids, "states": listed(states), "now": now}) > 0
