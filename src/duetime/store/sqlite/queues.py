"""Queues: paused and resumed, counted up to a cap; the tasks that live workers have, and what tasks say."""

from duetime.model.defaults import Defaults, decode_defaults
from duetime.model.limits import QueueLimits
from duetime.model.tenant import Queue, TaskInfo
from duetime.store.protocol.store import Hint
from duetime.store.shared.queue_rows import stored_queues, task_infos
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.limiting import hold_running
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import microseconds, names

_CAP = 10_000


class QueueRole(Role):
    async def pause_queue(self, tenant_id: int, queue: str) -> Queue:
        return await self._steer("pause_queue", tenant_id, queue)

    async def resume_queue(self, tenant_id: int, queue: str) -> Queue:
        found = await self._steer("resume_queue", tenant_id, queue)
        self.hints.give(Hint.READY)
        return found

    async def limit_queue(self, tenant_id: int, queue: str, limits: QueueLimits) -> Queue:
        rate = limits.rate
        words = {
            "running": limits.running,
            "rate": rate and rate.count,
            "period": rate and microseconds(rate.period),
        }

        def work(connection: Connection, now: int) -> Queue:
            limit_id = connection.value(
                "set_queue_limits", {"tenant_id": tenant_id, "name": queue, "now": now, **words}
            )
            if limits.running is not None:
                hold_running(connection, limit_id)
            return _queue(connection, tenant_id, queue, _CAP)

        found = await self.database.run(work)
        self.hints.give(Hint.READY)
        return found

    async def queue(self, tenant_id: int, queue: str, cap: int = _CAP) -> Queue:
        return await self.database.run(lambda connection, _: _queue(connection, tenant_id, queue, cap))

    async def queues(self, tenant_id: int, cap: int = _CAP) -> list[Queue]:
        wanted = {"tenant_id": tenant_id, "name": None, "cap": cap}
        rows = await self.database.run(lambda connection, _: connection.records("list_queues", wanted))
        return stored_queues(rows, tenant_id, cap)

    async def paused_lanes(self) -> frozenset[int]:
        rows = await self.database.run(lambda connection, _: connection.rows("paused_lanes", {}))
        return frozenset(row[0] for row in rows)

    async def tasks(self, tenant_id: int) -> list[TaskInfo]:
        def work(connection: Connection, now: int) -> list[TaskInfo]:
            rows = connection.rows("list_tasks", {"tenant_id": tenant_id, "now": now})
            return task_infos((name, names(queues)) for name, queues in rows)

        return await self.database.run(work)

    async def task_defaults(self, tenant_id: int) -> dict[str, Defaults]:
        wanted = {"tenant_id": tenant_id}
        rows = await self.database.run(lambda connection, _: connection.rows("list_task_defaults", wanted))
        return {name: decode_defaults(said) for name, said in rows}

    async def _steer(self, statement: str, tenant_id: int, queue: str) -> Queue:
        def work(connection: Connection, now: int) -> Queue:
            connection.execute(statement, {"tenant_id": tenant_id, "name": queue, "now": now})
            return _queue(connection, tenant_id, queue, _CAP)

        return await self.database.run(work)


def _queue(connection: Connection, tenant_id: int, queue: str, cap: int) -> Queue:
    rows = connection.records("list_queues", {"tenant_id": tenant_id, "name": queue, "cap": cap})
    found = stored_queues(rows, tenant_id, cap)
    return found[0] if found else Queue(tenant_id, queue)
