"""Settling: the ends of runs are handed on to those who wait for them, a batch in one transaction."""

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from duetime.model.event import EventKind
from duetime.model.job import lane_of
from duetime.store.rules.dependents import Ended, Settlement, following, is_paused, settle, wanted_follows
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.event_log import is_heard, tell, tell_of_runs
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity, maybe_moment, maybe_stamp, moment, stamp


class SettlingRole(Role):
    async def settle(self, limit: int) -> int:
        def work(connection: Connection, now: int) -> int:
            return self.hand_on(connection, now, connection.rows("take_ended", {"limit": limit}))

        count = await self.database.run(work)
        self.ready.announce(count)
        return count

    def hand_on(self, connection: Connection, now: int, rows: Sequence[tuple[Any, ...]]) -> int:
        """Tell those who wait for these ends; how many there were."""
        ended = [_ended(row) for row in rows]
        if ended:
            connection.many("drop_ended", [{"run_id": item.run_id.bytes} for item in ended])
            self._follow(connection, now, ended)
            _settle_children(connection, now, ended)
            _end_nodes(connection, now, ended)
        return len(ended)

    def _follow(self, connection: Connection, now: int, ended: Sequence[Ended]) -> None:
        """Make the runs of jobs that run after these."""
        found: list[tuple[UUID, UUID, int]] = []
        for job_id in sorted({item.job_id for item in ended}):
            rows = connection.rows("find_followers", {"job_id": job_id.bytes})
            found += [(identity(parent), identity(job), wanted) for parent, job, wanted in rows]
        for job_id, causes in wanted_follows(found, ended).items():
            for row in connection.records("hold_followers", {"job_id": job_id.bytes}):
                self._make(connection, now, row, [] if is_paused(row) else causes)
                made, missed = (0, len(causes)) if is_paused(row) else (len(causes), 0)
                connection.execute("count_follows", {"job_id": job_id.bytes, "made": made, "missed": missed})

    def _make(self, connection: Connection, now: int, row: dict[str, Any], causes: Sequence[Ended]) -> None:
        key = lane_of(row["tenant_id"], row["queue"], row["tier"], row["task"], row["options"])
        lane_id = self.lane_book.ids(connection, [key])[key]
        runs = [following(row, lane_id, cause) for cause in causes]
        connection.many(
            "make_followers",
            [
                {
                    **run._asdict(),
                    "run_id": run.run_id.bytes,
                    "job_id": run.job_id.bytes,
                    "due_at": stamp(run.due_at),
                    "now": now,
                }
                for run in runs
            ],
        )
        tell(connection, now, EventKind.FIRED, row["tenant_id"], [run.run_id for run in runs])


def note_ends(connection: Connection, now: int, ids: bytes, states: str) -> None:
    """Record the ends of those of these runs that have dependents, while their rows exist."""
    if connection.value("any_followed", {}):
        connection.ends_noted |= connection.execute("note_ends", {"ids": ids, "states": states, "now": now}) > 0


def _settle_children(connection: Connection, now: int, ended: Sequence[Ended]) -> None:
    counted = []
    for item in ended:
        rows = connection.rows("count_ends", {"job_id": item.job_id.bytes, "state": item.state})
        counted += [(identity(child), identity(parent), state) for child, parent, state in rows]
    dependents = []
    for child in sorted({child for child, _, _ in counted}):
        dependents += connection.records("hold_dependents", {"job_id": child.bytes})
    apply_settlement(connection, now, settle(counted, dependents))


def apply_settlement(connection: Connection, now: int, done: Settlement) -> None:
    connection.many("put_tallies", [(job_id.bytes, *rest) for job_id, *rest in done.tallies])
    connection.many("free_blocked", [{"run_id": run_id.bytes, "now": now} for run_id in done.freed])
    cancel_blocked(connection, now, done.cancelled)


def cancel_blocked(connection: Connection, now: int, cancelled: Sequence[tuple[UUID, str]]) -> None:
    if cancelled and is_heard(connection, now):
        tell_of_runs(connection, now, EventKind.CANCELLED, [run_id for run_id, _ in cancelled])
    rows = [{"run_id": run_id.bytes, "reason": reason, "now": now} for run_id, reason in cancelled]
    connection.many("cancel_blocked", rows)


def _end_nodes(connection: Connection, now: int, ended: Sequence[Ended]) -> None:
    first: Counter[bytes] = Counter()
    for item in {item.job_id: item for item in ended}.values():
        row = connection.row("which_graph", {"job_id": item.job_id.bytes})
        if row is not None:
            first[row[0]] += row[1]
            connection.execute(
                "end_nodes",
                {
                    "job_id": item.job_id.bytes,
                    "run_id": item.run_id.bytes,
                    "state": item.state,
                    "started_at": maybe_stamp(item.started_at),
                    "finished_at": stamp(item.finished_at),
                },
            )
    for graph_id, count in first.items():
        if connection.value("count_nodes", {"id": graph_id, "first": count, "now": now}) == 0:
            connection.execute("end_graphs", {"id": graph_id})


def _ended(row: tuple[Any, ...]) -> Ended:
    run_id, job_id, tenant_id, state, started_at, finished_at = row
    return Ended(identity(run_id), identity(job_id), tenant_id, state, maybe_moment(started_at), moment(finished_at))
