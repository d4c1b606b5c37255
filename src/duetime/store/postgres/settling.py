"""Settling: the ends of runs are handed on to those who wait for them, a batch in one transaction.

Settling locks in this order: ends, edges, jobs, dependents, runs, nodes, graphs; each of them by id. What is
cancelled here has ended too, and is handed on by a transaction of its own: a level of a graph at a time, so that no two
nodes wait for each other.
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from duetime.model.job import lane_of
from duetime.store.postgres.database import SQL, Connection, Row, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.role import Role
from duetime.store.rules.dependents import Ended, Settlement, following, is_paused, settle, wanted_follows

_MANY = 1000
"""Edges of a graph that are not counted on the event loop."""


class SettlingRole(Role):
    @retry_on_deadlock
    async def settle(self, limit: int) -> int:
        async with self.database.transaction() as connection:
            count = await self._hand_on(connection, await connection.fetch(SQL["take_ended"], limit))
        self.ready.announce(count)
        return count

    async def settle_graph(self, tenant_id: int, graph_id: UUID) -> None:
        """Hand on the ends of a graph's nodes, or wait until others have who are about to."""
        async with self.database.transaction() as connection:
            await self._hand_on(connection, await connection.fetch(SQL["take_ends_of_graph"], tenant_id, graph_id))

    async def _hand_on(self, connection: Connection, rows: Sequence[Row]) -> int:
        """Tell those who wait for these ends; how many there were."""
        ended = sorted(Ended(*row) for row in rows)
        if ended:
            await self._follow(connection, ended)
            await _settle_children(connection, ended)
            await _end_nodes(connection, ended)
        return len(ended)

    async def _follow(self, connection: Connection, ended: Sequence[Ended]) -> None:
        """Make the runs of jobs that run after these."""
        found = await connection.fetch(SQL["find_followers"], list({item.job_id for item in ended}))
        causes = wanted_follows([tuple(row) for row in found], ended)
        if not causes:
            return
        jobs = await connection.fetch(SQL["hold_followers"], list(causes))
        keys = {
            row["id"]: lane_of(row["tenant_id"], row["queue"], row["tier"], row["task"], row["options"]) for row in jobs
        }
        lanes = await self.lane_book.ids_within(connection, set(keys.values()))
        active = [row for row in jobs if not is_paused(row)]
        runs = [following(row, lanes[keys[row["id"]]], cause) for row in active for cause in causes[row["id"]]]
        counts = [_counted(row, len(causes[row["id"]])) for row in jobs]
        await connection.execute(SQL["make_followers"], *columns(runs, 9))
        await connection.execute(SQL["count_follows"], *columns(counts, 3))


def _counted(row: Row, ends: int) -> tuple[UUID, int, int]:
    """How many runs of a job were made, and how many would have been."""
    return (row["id"], 0, ends) if is_paused(row) else (row["id"], ends, 0)


async def _settle_children(connection: Connection, ended: Sequence[Ended]) -> None:
    ends: dict[UUID, int] = {}
    for item in ended:
        ends.setdefault(item.job_id, item.state)
    counted = await connection.fetch(SQL["count_ends"], list(ends), list(ends.values()))
    if counted:
        rows = await connection.fetch(SQL["hold_dependents"], list({row["child_id"] for row in counted}))
        ends_of = [tuple(row) for row in counted]
        many = len(ends_of) > _MANY
        await apply_settlement(
            connection, await asyncio.to_thread(settle, ends_of, rows) if many else settle(ends_of, rows)
        )


async def apply_settlement(connection: Connection, done: Settlement) -> None:
    await connection.execute(SQL["put_tallies"], *columns(done.tallies, 5))
    touched = [*done.freed, *(run_id for run_id, _ in done.cancelled)]
    if touched:
        await connection.execute(SQL["hold_blocked"], touched)
    if done.freed:
        await connection.execute(SQL["free_blocked"], done.freed)
    if done.cancelled:
        await connection.execute(SQL["cancel_blocked"], *columns(done.cancelled, 2))


async def _end_nodes(connection: Connection, ended: Sequence[Ended]) -> None:
    newest = {item.job_id: item for item in ended}
    rows = [(item.job_id, item.run_id, item.state, item.started_at, item.finished_at) for item in newest.values()]
    graphs = await connection.fetch(SQL["end_nodes"], *columns(rows, 5))
    if graphs:
        counted = await connection.fetch(SQL["count_nodes"], *columns([tuple(row) for row in graphs], 2))
        over = [row["id"] for row in counted if row["unended"] == 0]
        if over:
            await connection.execute(SQL["end_graphs"], over)
