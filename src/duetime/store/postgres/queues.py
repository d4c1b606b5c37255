"""Queues: paused and resumed, counted up to a cap; the tasks that live workers have, and what tasks say."""

from duetime.model.defaults import Defaults, decode_defaults
from duetime.model.limits import QueueLimits
from duetime.model.tenant import Queue, TaskInfo
from duetime.store.postgres.database import SQL
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.limiting import LimitingRole
from duetime.store.protocol.store import Hint
from duetime.store.shared.queue_rows import stored_queues, task_infos

_CAP = 10_000


class QueueRole(LimitingRole):
    async def pause_queue(self, tenant_id: int, queue: str) -> Queue:
        async with self.database.acting_for(tenant_id) as connection:
            await connection.execute(SQL["pause_queue"], tenant_id, queue)
        return await self.queue(tenant_id, queue)

    async def resume_queue(self, tenant_id: int, queue: str) -> Queue:
        async with self.database.acting_for(tenant_id) as connection:
            await connection.execute(SQL["resume_queue"], tenant_id, queue)
        self.hints.give(Hint.READY)
        return await self.queue(tenant_id, queue)

    @retry_on_deadlock
    async def limit_queue(self, tenant_id: int, queue: str, limits: QueueLimits) -> Queue:
        rate = limits.rate
        async with self.database.acting_for(tenant_id) as connection:
            words = (limits.running, rate and rate.count, rate and rate.period)
            limit_id = await connection.fetchval(SQL["set_queue_limits"], tenant_id, queue, *words)
            if limits.running is not None:
                await connection.execute(SQL["hold_running"], limit_id)
        await self.rules()
        self.hints.give(Hint.READY)
        return await self.queue(tenant_id, queue)

    async def queue(self, tenant_id: int, queue: str, cap: int = _CAP) -> Queue:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            rows = await connection.fetch(SQL["list_queues"], tenant_id, queue, cap)
        found = stored_queues(rows, tenant_id, cap)
        return found[0] if found else Queue(tenant_id, queue)

    async def queues(self, tenant_id: int, cap: int = _CAP) -> list[Queue]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            return stored_queues(await connection.fetch(SQL["list_queues"], tenant_id, None, cap), tenant_id, cap)

    async def paused_lanes(self) -> frozenset[int]:
        return frozenset(row[0] for row in await self.database.fetch("paused_lanes"))

    async def tasks(self, tenant_id: int) -> list[TaskInfo]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            return task_infos((row[0], row[1]) for row in await connection.fetch(SQL["list_tasks"], tenant_id))

    async def task_defaults(self, tenant_id: int) -> dict[str, Defaults]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            rows = await connection.fetch(SQL["list_task_defaults"], tenant_id)
        return {row[0]: decode_defaults(row[1]) for row in rows}
