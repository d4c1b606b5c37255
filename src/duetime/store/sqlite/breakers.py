"""Breakers: what attempts came to is counted for all workers together."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

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
from duetime.store.protocol.store import Hint
from duetime.store.rules.limit_scopes import LEFT_AT_ONCE, Stepped
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.limiting import unpark
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import maybe_moment, maybe_stamp, microseconds, moment

_CAP = 200_000
Decide = Callable[[Breaker, datetime, int], Step | None]


class BreakerRole(Role):
    async def report_attempts(self, tallies: Sequence[Tally], policy: BreakerPolicy) -> list[Breaker]:
        def decide(breaker: Breaker, now: datetime, waiting: int) -> Step | None:
            return after_attempts(breaker, policy, now, waiting)

        def work(connection: Connection, now: int) -> tuple[list[Breaker], list[Stepped | None]]:
            found: list[Breaker] = []
            stepped: list[Stepped | None] = []
            for item in tallies:
                of = {"tenant_id": item.tenant_id, "target": item.target, "now": now}
                counts = {"tried": item.tried, "failed": item.failed, "retried": item.retried}
                connection.execute("add_attempts", {**of, **counts})
                if policy.enabled and decide(_breaker(connection, of), moment(now), 0) is not None:
                    stepped.append(_step(connection, of, decide))
                found.append(_breaker(connection, of))
            return found, stepped

        found, stepped = await self.database.run(work)
        await self._let_go(*stepped)
        return found

    async def tend_breakers(self) -> int:
        def tend_one(connection: Connection, now: int) -> Stepped | None:
            due = connection.row("due_breaker", {"now": now})
            if due is None:
                return None
            return _step(connection, {"tenant_id": due[0], "target": due[1], "now": now}, after_time)

        def prune(connection: Connection, now: int) -> None:
            connection.execute("prune_attempts", {"now": now, "age": microseconds(WINDOW * 2)})

        count = 0
        while (stepped := await self.database.run(tend_one)) is not None:
            await self._let_go(stepped)
            count += 1
        await self.database.run(prune)
        return count

    async def _let_go(self, *stepped: Stepped | None) -> None:
        """After the step: who waited may start, also those of a line that is too long for one transaction."""
        if any(stepped):
            self.hints.give(Hint.READY)
        for step in stepped:
            while step is not None and step.has_more:
                step = step._replace(left=await self._leave_line(step.limit_id))

    async def _leave_line(self, limit_id: int) -> int:
        return await self.database.run(lambda connection, now: _leave(connection, now, limit_id))

    async def breakers(self, tenant_id: int) -> list[Breaker]:
        def work(connection: Connection, now: int) -> list[Breaker]:
            of = {"tenant_id": tenant_id, "now": now}
            rows = connection.rows("list_breakers", {**of, "window": microseconds(WINDOW)})
            return [_breaker(connection, {**of, "target": row[0]}) for row in rows]

        return await self.database.run(work)

    async def reset_breaker(self, tenant_id: int, target: str) -> Breaker:
        def work(connection: Connection, now: int) -> tuple[Breaker, Stepped | None]:
            of = {"tenant_id": tenant_id, "target": target, "now": now}
            stepped = None
            if connection.value("is_breaker_known", of):
                stepped = _step(connection, of, lambda _held, _now, _waiting: CLOSE)
            else:  # no row for a name that a caller has made up
                connection.execute("forget_attempts", of)
            return _breaker(connection, of), stepped

        found, stepped = await self.database.run(work)
        await self._let_go(stepped)
        return found


def _breaker(connection: Connection, of: dict[str, Any]) -> Breaker:
    state, since, until, trips, tried, failed, retried, flow = connection.rows(
        "sum_attempts", {**of, "window": microseconds(WINDOW)}
    )[0]
    return Breaker(
        of["tenant_id"],
        of["target"],
        BreakerState(state),
        moment(since),
        maybe_moment(until),
        trips,
        tried,
        failed,
        retried,
        flow,
    )


def _step(connection: Connection, of: dict[str, Any], decide: Decide) -> Stepped | None:
    connection.execute("hold_breaker", of)
    waiting: int = connection.value("waiting_at", {**of, "cap": _CAP})
    step = decide(_breaker(connection, of), moment(of["now"]), waiting)
    if step is None:
        return None
    words = {"state": step.state, "until": maybe_stamp(step.until), "trips": step.trips}
    connection.execute("set_breaker", {**of, **words})
    rate = step.rate
    limits = {
        "running": step.running,
        "rate": rate and rate.count,
        "period": rate and microseconds(rate.period),
    }
    limit_id = connection.value("set_target_limit", {**of, **limits})
    connection.execute("forget_attempts", of)
    left = _leave(connection, of["now"], limit_id)
    unpark(connection, of["now"], [limit_id])
    return Stepped(limit_id, left, has_rate=rate is not None)


def _leave(connection: Connection, now: int, limit_id: int) -> int:
    return connection.execute("leave_lines", {"id": limit_id, "now": now, "limit": LEFT_AT_ONCE})
