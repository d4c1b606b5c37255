"""Settling: the ends of runs are handed on to the jobs that wait for them, a batch in one transaction.

A transaction that settles locks in this order: ends, edges, jobs, dependents, runs, nodes, graphs; each of them by id.
What is cancelled here has ended too, and is handed on by a transaction of its own: a level of a graph at a time, so
that no two nodes wait for each other.
"""

from collections import Counter
from collections.abc import Sequence
from uuid import UUID

from duetime.model.event import EventKind
from duetime.model.job import lane_of
from duetime.store.rules.dependents import Ended, Following, Settlement, following, is_paused, settle, wanted_follows
from duetime.store.shared.events import append_run_events
from duetime.store.shared.transaction import Rows, RunMaker, SharedRole, Transaction

_MANY = 1000
"""Edges of a graph that are not counted on the event loop."""
_TALLY = ("job_id", "unended", "met", "unmet", "settled")


class SettlingRole(SharedRole):
    async def settle(self, limit: int) -> int:
        async def work(transaction: Transaction) -> int:
            return await hand_on(transaction, self.run_maker, await transaction.rows("take_ended", limit=limit))

        count = await self.transactions.run(work)
        self.ready.announce(count)
        return count


async def settle_graph(transaction: Transaction, run_maker: RunMaker, tenant_id: int, graph_id: UUID) -> None:
    """Pass the ends of a graph's nodes on to their children. Waits for transactions that are doing so now."""
    rows = await transaction.rows("take_ends_of_graph", tenant_id=tenant_id, graph_id=graph_id)
    await hand_on(transaction, run_maker, rows)


async def hand_on(transaction: Transaction, run_maker: RunMaker, rows: Rows) -> int:
    """Tell the jobs that wait for these ends; how many ends there were."""
    ended = sorted(
        Ended(row["run_id"], row["job_id"], row["tenant_id"], row["end_state"], row["started_at"], row["finished_at"])
        for row in rows
    )
    if ended:
        await _follow(transaction, run_maker, ended)
        await _settle_children(transaction, ended)
        await _end_nodes(transaction, ended)
    return len(ended)


async def _follow(transaction: Transaction, run_maker: RunMaker, ended: Sequence[Ended]) -> None:
    """Make the runs of jobs that run after these."""
    found = await transaction.rows("find_followers", ids=list({item.job_id for item in ended}))
    causes = wanted_follows([(row["parent_id"], row["job_id"], row["wanted"]) for row in found], ended)
    if not causes:
        return
    jobs = await transaction.rows("hold_followers", ids=list(causes))
    keys = {
        row["id"]: lane_of(row["tenant_id"], row["queue"], row["tier"], row["task"], row["options"]) for row in jobs
    }
    lanes = await run_maker.lanes(transaction, set(keys.values()))
    active = [row for row in jobs if not is_paused(row)]
    runs = [following(row, lanes[keys[row["id"]]], cause) for row in active for cause in causes[row["id"]]]
    made = await transaction.each("make_followers", Following._fields, runs)
    ends = [(row["id"], is_paused(row), len(causes[row["id"]])) for row in jobs]
    counts = [(job_id, 0, count) if paused else (job_id, count, 0) for job_id, paused, count in ends]
    await transaction.put("count_follows", ("job_id", "made", "missed"), counts)
    await append_run_events(transaction, EventKind.FIRED, made)


async def _settle_children(transaction: Transaction, ended: Sequence[Ended]) -> None:
    ends: dict[UUID, int] = {}
    for item in ended:
        ends.setdefault(item.job_id, item.state)
    counted = await transaction.each("count_ends", ("job_id", "state"), list(ends.items()))
    if counted:
        of_children = [(row["child_id"], row["parent_id"], row["state"]) for row in counted]
        rows = await transaction.rows("hold_dependents", ids=list({child for child, _, _ in of_children}))
        if len(of_children) > _MANY:
            await _apply(transaction, await transaction.compute(settle, of_children, rows))
        else:
            await _apply(transaction, settle(of_children, rows))


async def _apply(transaction: Transaction, done: Settlement) -> None:
    await transaction.put("put_tallies", _TALLY, done.tallies)
    touched = [*done.freed, *(run_id for run_id, _ in done.cancelled)]
    if touched:
        await transaction.lock("hold_blocked", ids=touched)
    if done.freed:
        await transaction.execute("free_blocked", ids=done.freed)
    await cancel_blocked(transaction, done.cancelled)


async def cancel_blocked(transaction: Transaction, cancelled: Sequence[tuple[UUID, str]]) -> None:
    """End runs whose parents did not end as they want, each with the reason."""
    ended = await transaction.each("cancel_blocked", ("run_id", "reason"), cancelled)
    await append_run_events(transaction, EventKind.CANCELLED, ended)


async def _end_nodes(transaction: Transaction, ended: Sequence[Ended]) -> None:
    newest = {item.job_id: item for item in ended}
    nodes = await transaction.rows("nodes_of_jobs", ids=list(newest))
    if not nodes:
        return
    ends = [newest[row["job_id"]] for row in nodes]
    rows = [(item.job_id, item.run_id, item.state, item.started_at, item.finished_at) for item in ends]
    await transaction.put("end_nodes", ("job_id", "run_id", "state", "started_at", "finished_at"), rows)
    first: Counter[UUID] = Counter()
    for row in nodes:
        first[row["graph_id"]] += row["open"]
    counted = await transaction.each("count_nodes", ("graph_id", "first"), sorted(first.items()))
    over = [row["id"] for row in counted if row["unended"] == 0]
    if over:
        await transaction.execute("end_graphs", ids=over)
