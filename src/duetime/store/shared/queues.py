"""Queues: pause, resume, limits and counts up to a cap; the tasks of live workers and their defaults."""

from collections.abc import Sequence
from datetime import datetime

from duetime.model.defaults import Defaults
from duetime.model.limits import QueueLimits
from duetime.model.tenant import Queue, QueueHead, TaskInfo
from duetime.process.slices import Slices, collected
from duetime.store.protocol.store import Claims
from duetime.store.rules.stream_limits import are_set, streamed_queue
from duetime.store.shared.queue_rows import stored_queues, task_infos
from duetime.store.shared.transaction import SharedContext, SharedRole, Statements, Transaction

_CAP = 10_000
_MOST_TASKS = 50_000
"""Rows of tasks that are read at once: workers may register as many as they like."""


class QueueRole(SharedRole):
    def __init__(self, context: SharedContext, claims: Claims) -> None:
        super().__init__(context)
        self._claims = claims

    async def pause_queue(self, tenant_id: int, queue: str) -> Queue:
        await self.transactions.of(tenant_id).execute("pause_queue", tenant_id=tenant_id, name=queue)
        return await self.queue(tenant_id, queue)

    async def resume_queue(self, tenant_id: int, queue: str) -> Queue:
        await self.transactions.of(tenant_id).execute("resume_queue", tenant_id=tenant_id, name=queue)
        self.ready.announce()
        return await self.queue(tenant_id, queue)

    async def limit_queue(self, tenant_id: int, queue: str, limits: QueueLimits) -> Queue:
        rate = limits.rate
        words = {"running": limits.running, "rate": rate and rate.count, "period": rate and rate.period}

        async def work(transaction: Transaction) -> None:
            await transaction.lock("lock_queue", tenant_id=tenant_id, queue=queue)
            if are_set(limits) and await transaction.value("is_streamed", tenant_id=tenant_id, queue=queue):
                raise streamed_queue(limits)
            limit_id = await transaction.value("set_queue_limits", tenant_id=tenant_id, name=queue, **words)
            if limits.running is not None:
                await transaction.execute("hold_running", limit_id=limit_id)

        await self.transactions.of(tenant_id).run(work)
        await self._claims.rules()
        self.ready.announce()
        return await self.queue(tenant_id, queue)

    async def queue(self, tenant_id: int, queue: str, cap: int = _CAP) -> Queue:
        found = await self._queues(tenant_id, queue, cap)
        return found[0] if found else Queue(tenant_id, queue)

    async def queues(self, tenant_id: int, cap: int = _CAP) -> list[Queue]:
        return await self._queues(tenant_id, None, cap)

    async def queue_heads(self, tenant_id: int, since: datetime, queue: str | None = None) -> dict[str, QueueHead]:
        reading = self.transactions.reading(tenant_id)
        found: dict[str, QueueHead] = {}
        slices = Slices()
        for row in await reading.rows("queue_heads", tenant_id=tenant_id, name=queue, since=since, cap=_CAP):
            await slices.yield_if_due()
            if row["ready_at"] is not None:
                before = found.get(row["queue"], QueueHead(row["ready_at"], 0))
                oldest = min(before.oldest, row["ready_at"])
                found[row["queue"]] = QueueHead(oldest, before.arrived + row["arrived"])
        return found

    async def tasks(self, tenant_id: int, name: str | None = None) -> list[TaskInfo]:
        reading = self.transactions.reading(tenant_id)
        return await collected(
            task_infos(await reading.rows("list_tasks", tenant_id=tenant_id, name=name, most=_MOST_TASKS))
        )

    async def task_names(self, tenant_id: int) -> frozenset[str]:
        reading = self.transactions.reading(tenant_id)
        rows = await reading.rows("task_names", tenant_id=tenant_id, most=_MOST_TASKS)
        return frozenset(row["name"] for row in rows)

    async def task_defaults(self, tenant_id: int) -> dict[str, Defaults]:
        rows = await self.transactions.reading(tenant_id).rows("list_task_defaults", tenant_id=tenant_id)
        return {row["name"]: row["said"] for row in rows}

    async def task_schemas(self, tenant_id: int, name: str | None = None) -> dict[str, str]:
        reading = self.transactions.reading(tenant_id)
        rows = await reading.rows("list_task_schemas", tenant_id=tenant_id, name=name)
        return {row["name"]: row["digest"] for row in rows}

    async def schemas(self, tenant_id: int, digests: Sequence[str]) -> dict[str, bytes]:
        wanted = {"tenant_id": tenant_id, "digests": list(digests)}
        rows = await self.transactions.reading(tenant_id).rows("task_schemas", **wanted)
        return {row["digest"]: row["arguments"] for row in rows}

    async def _queues(self, tenant_id: int, name: str | None, cap: int) -> list[Queue]:
        reading = self.transactions.reading(tenant_id)
        rows = await reading.rows("list_queues", tenant_id=tenant_id, name=name, cap=cap)
        return await collected(stored_queues(rows, tenant_id, cap))


async def paused_lanes(statements: Statements) -> frozenset[int]:
    return frozenset([row["id"] for row in await statements.rows("paused_lanes")])
