"""Handing over: runs that go on without their worker, in the hands of the receiver that it called."""

from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from duetime.model.attempt import Completion
from duetime.store.protocol.service import JudgeLost
from duetime.store.rules.lost_runs import handed_over
from duetime.store.shared.transaction import Row, Rows, SharedRole, Transaction


class Complete(Protocol):
    async def __call__(
        self,
        transaction: Transaction,
        worker_id: UUID,
        completions: Sequence[Completion],
        lanes: Mapping[UUID, int] | None = None,
        /,
    ) -> Collection[int]:
        """Apply completions of a worker inside a transaction; runs that wait again go to these lanes. Returns the
        limits that may have room after the commit."""


class HandOverRole(SharedRole):
    apply_judged: Complete
    free_limits: Callable[[Collection[int]], Coroutine[Any, Any, None]]

    async def finish(self, run_id: UUID, fence: int, judge: JudgeLost) -> bool:
        async def work(transaction: Transaction) -> tuple[int, set[int]]:
            rows = await transaction.rows("running_run", run_id=run_id, fence=fence)
            return len(rows), await _judge(transaction, self.apply_judged, rows, judge)

        count, freed = await self.transactions.run(work)
        await self.free_limits(freed)
        self.ready.announce(count)
        return bool(count)


async def reap_late(transaction: Transaction, complete: Complete, limit: int, judge: JudgeLost) -> tuple[int, set[int]]:
    """End what receivers have not finished in time, or what is to be cancelled: how many, and the limits that may have
    room."""
    rows = await transaction.rows("late_handovers", limit=limit)
    return len(rows), await _judge(transaction, complete, rows, judge)


async def _judge(transaction: Transaction, complete: Complete, rows: Rows, judge: JudgeLost) -> set[int]:
    freed: set[int] = set()
    by_worker: dict[UUID, list[Row]] = defaultdict(list)
    for row in rows:
        by_worker[row["worker_id"]].append(row)
    for worker_id, held in by_worker.items():
        freed.update(await complete(transaction, worker_id, judge(handed_over(held))))
    if rows:
        await transaction.execute("forget_handovers", ids=[row["id"] for row in rows])
    return freed
