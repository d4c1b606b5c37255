"""Breakers: what attempts came to is counted for all nodes together, and each step is made by one of them."""

from collections.abc import Callable, Sequence
from datetime import datetime

from duetime.model.breaker import (
    CLOSE,
    WINDOW,
    Breaker,
    BreakerPolicy,
    BreakerState,
    Step,
    Tally,
    after_attempts,
    after_time,
)
from duetime.store.postgres.clashes import again_after_clash
from duetime.store.postgres.database import SQL, Connection, columns
from duetime.store.postgres.limiting import LimitingRole
from duetime.store.protocol import Hint

_CAP = 200_000
Decide = Callable[[Breaker, datetime, int], Step | None]


class BreakerRole(LimitingRole):
    @again_after_clash
    async def report_attempts(self, tallies: Sequence[Tally], policy: BreakerPolicy) -> list[Breaker]:
        rows = [(item.tenant_id, item.target, item.tried, item.failed, item.retried) for item in tallies]
        targets = [(item.tenant_id, item.target) for item in tallies]
        stepped = False
        async with self.database.transaction() as connection:
            await connection.execute(SQL["add_attempts"], *columns(rows, 5))
            found = await _breakers(connection, targets)
            for breaker in found:
                if policy.enabled and after_attempts(breaker, policy, breaker.since, 0) is not None:
                    stepped |= await _step(
                        connection,
                        (breaker.tenant_id, breaker.target),
                        lambda held, now, waiting: after_attempts(held, policy, now, waiting),
                    )
            if stepped:
                found = await _breakers(connection, targets)
        if stepped:
            self.hints.give(Hint.READY)
        return found

    @again_after_clash
    async def tend_breakers(self) -> int:
        stepped = 0
        async with self.database.transaction() as connection:
            for tenant_id, target in await connection.fetch(SQL["due_breakers"]):
                stepped += await _step(connection, (tenant_id, target), after_time)
            await connection.execute(SQL["prune_attempts"], WINDOW * 2)
        if stepped:
            self.hints.give(Hint.READY)
        return stepped

    async def breakers(self, tenant_id: int) -> list[Breaker]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            rows = await connection.fetch(SQL["list_breakers"], tenant_id, WINDOW)
            return await _breakers(connection, [(tenant_id, row[0]) for row in rows])

    @again_after_clash
    async def reset_breaker(self, tenant_id: int, target: str) -> Breaker:
        async with self.database.transaction() as connection:
            await _step(connection, (tenant_id, target), lambda _held, _now, _waiting: CLOSE)
            found = await _breakers(connection, [(tenant_id, target)])
        self.hints.give(Hint.READY)
        return found[0]


async def _breakers(connection: Connection, targets: Sequence[tuple[int, str]]) -> list[Breaker]:
    rows = await connection.fetch(SQL["sum_attempts"], *columns(targets, 2), WINDOW)
    return [Breaker(row[0], row[1], BreakerState(row[2]), *row[3:]) for row in rows]


async def _step(connection: Connection, of: tuple[int, str], decide: Decide) -> bool:
    """Hold a breaker, look again, and make the step that follows; false when another node has made it."""
    await connection.execute(SQL["hold_breaker"], *of)
    (breaker,) = await _breakers(connection, [of])
    waiting: int = await connection.fetchval(SQL["waiting_at"], *of, _CAP)
    step = decide(breaker, await connection.fetchval(SQL["clock"]), waiting)
    if step is None:
        return False
    await connection.execute(SQL["set_breaker"], *of, step.state, step.until, step.trips)
    rate = step.rate
    limits = (step.running, rate and rate.count, rate and rate.period)
    limit_id = await connection.fetchval(SQL["set_target_limit"], *of, *limits)
    await connection.execute(SQL["forget_attempts"], *of)
    await connection.fetchval(SQL["leave_lines"], limit_id)
    await connection.fetchval(SQL["unpark"], [limit_id])
    return True
