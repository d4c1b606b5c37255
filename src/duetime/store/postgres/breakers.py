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
from duetime.store.postgres.database import SQL, Connection, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.limiting import LimitingRole
from duetime.store.protocol.store import Hint
from duetime.store.rules.limit_scopes import LEFT_AT_ONCE, Stepped

_CAP = 200_000
Decide = Callable[[Breaker, datetime, int], Step | None]


class BreakerRole(LimitingRole):
    async def report_attempts(self, tallies: Sequence[Tally], policy: BreakerPolicy) -> list[Breaker]:
        found, stepped = await self._report_attempts(tallies, policy)
        await self._let_go(*stepped)
        return found

    @retry_on_deadlock
    async def _report_attempts(
        self, tallies: Sequence[Tally], policy: BreakerPolicy
    ) -> tuple[list[Breaker], list[Stepped | None]]:
        rows = [(item.tenant_id, item.target, item.tried, item.failed, item.retried) for item in tallies]
        targets = [(item.tenant_id, item.target) for item in tallies]
        stepped: list[Stepped | None] = []
        async with self.database.transaction() as connection:
            await connection.execute(SQL["add_attempts"], *columns(rows, 5))
            found = await _breakers(connection, targets)
            for breaker in found:
                if policy.enabled and after_attempts(breaker, policy, breaker.since, 0) is not None:
                    step = await _step(
                        connection,
                        (breaker.tenant_id, breaker.target),
                        lambda held, now, waiting: after_attempts(held, policy, now, waiting),
                    )
                    stepped.append(step)
            if any(stepped):
                found = await _breakers(connection, targets)
        return found, stepped

    async def tend_breakers(self) -> int:
        count = 0
        while (stepped := await self._tend_breaker()) is not None:
            await self._let_go(stepped)
            count += 1
        await self._prune_attempts()
        return count

    @retry_on_deadlock
    async def _tend_breaker(self) -> Stepped | None:
        """In a transaction of its own: none waits for what another has to write."""
        async with self.database.transaction() as connection:
            due = await connection.fetchrow(SQL["due_breaker"])
            return None if due is None else await _step(connection, (due[0], due[1]), after_time)

    @retry_on_deadlock
    async def _prune_attempts(self) -> None:
        await self.database.execute("prune_attempts", WINDOW * 2)

    async def _let_go(self, *stepped: Stepped | None) -> None:
        """After the step: who waited may start, also those of a line that is too long for one transaction."""
        if any(stepped):
            self.hints.give(Hint.READY)
        for step in stepped:
            while step is not None and step.has_more:
                step = await self._leave_line(step)

    @retry_on_deadlock
    async def _leave_line(self, step: Stepped) -> Stepped:
        return step._replace(left=await self.database.fetchval("leave_lines", step.limit_id, LEFT_AT_ONCE))

    async def breakers(self, tenant_id: int) -> list[Breaker]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            rows = await connection.fetch(SQL["list_breakers"], tenant_id, WINDOW)
            return await _breakers(connection, [(tenant_id, row[0]) for row in rows])

    async def reset_breaker(self, tenant_id: int, target: str) -> Breaker:
        found, stepped = await self._reset_breaker(tenant_id, target)
        await self._let_go(stepped)
        return found

    @retry_on_deadlock
    async def _reset_breaker(self, tenant_id: int, target: str) -> tuple[Breaker, Stepped | None]:
        async with self.database.transaction() as connection:
            stepped = None
            if await connection.fetchval(SQL["is_breaker_known"], tenant_id, target):
                stepped = await _step(connection, (tenant_id, target), lambda _held, _now, _waiting: CLOSE)
            else:  # no row for a name that a caller has made up
                await connection.execute(SQL["forget_attempts"], tenant_id, target)
            (found,) = await _breakers(connection, [(tenant_id, target)])
            return found, stepped


async def _breakers(connection: Connection, targets: Sequence[tuple[int, str]]) -> list[Breaker]:
    rows = await connection.fetch(SQL["sum_attempts"], *columns(targets, 2), WINDOW)
    return [Breaker(row[0], row[1], BreakerState(row[2]), *row[3:]) for row in rows]


async def _step(connection: Connection, of: tuple[int, str], decide: Decide) -> Stepped | None:
    """Hold a breaker, look again, and make the step that follows; None when another node has made it."""
    await connection.execute(SQL["hold_breaker"], *of)
    (breaker,) = await _breakers(connection, [of])
    waiting: int = await connection.fetchval(SQL["waiting_at"], *of, _CAP)
    step = decide(breaker, await connection.fetchval(SQL["clock"]), waiting)
    if step is None:
        return None
    await connection.execute(SQL["set_breaker"], *of, step.state, step.until, step.trips)
    rate = step.rate
    limits = (step.running, rate and rate.count, rate and rate.period)
    limit_id = await connection.fetchval(SQL["set_target_limit"], *of, *limits)
    await connection.execute(SQL["forget_attempts"], *of)
    left = await connection.fetchval(SQL["leave_lines"], limit_id, LEFT_AT_ONCE)
    await connection.execute(SQL["unpark"], [limit_id])
    return Stepped(limit_id, left, has_rate=rate is not None)
