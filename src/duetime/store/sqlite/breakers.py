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
from duetime.store.protocol import Hint
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

        def work(connection: Connection, now: int) -> tuple[list[Breaker], bool]:
            found, stepped = [], False
            for item in tallies:
                of = {"tenant_id": item.tenant_id, "target": item.target, "now": now}
                counts = {"tried": item.tried, "failed": item.failed, "retried": item.retried}
                connection.execute("add_attempts", {**of, **counts})
                if policy.enabled and decide(_breaker(connection, of), moment(now), 0) is not None:
                    stepped |= _step(connection, of, decide)
                found.append(_breaker(connection, of))
            return found, stepped

        found, stepped = await self.database.run(work)
        if stepped:
            self.hints.give(Hint.READY)
        return found

    async def tend_breakers(self) -> int:
        def work(connection: Connection, now: int) -> int:
            stepped = 0
            for tenant_id, target in connection.rows("due_breakers", {"now": now}):
                of = {"tenant_id": tenant_id, "target": target, "now": now}
                stepped += _step(connection, of, after_time)
            connection.execute("prune_attempts", {"now": now, "age": microseconds(WINDOW * 2)})
            return stepped

        stepped = await self.database.run(work)
        if stepped:
            self.hints.give(Hint.READY)
        return stepped

    async def breakers(self, tenant_id: int) -> list[Breaker]:
        def work(connection: Connection, now: int) -> list[Breaker]:
            of = {"tenant_id": tenant_id, "now": now}
            rows = connection.rows("list_breakers", {**of, "window": microseconds(WINDOW)})
            return [_breaker(connection, {**of, "target": row[0]}) for row in rows]

        return await self.database.run(work)

    async def reset_breaker(self, tenant_id: int, target: str) -> Breaker:
        def work(connection: Connection, now: int) -> Breaker:
            of = {"tenant_id": tenant_id, "target": target, "now": now}
            _step(connection, of, lambda _held, _now, _waiting: CLOSE)
            return _breaker(connection, of)

        found = await self.database.run(work)
        self.hints.give(Hint.READY)
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


def _step(connection: Connection, of: dict[str, Any], decide: Decide) -> bool:
    connection.execute("hold_breaker", of)
    waiting: int = connection.value("waiting_at", {**of, "cap": _CAP})
    step = decide(_breaker(connection, of), moment(of["now"]), waiting)
    if step is None:
        return False
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
    connection.execute("leave_lines", {"id": limit_id, "now": of["now"]})
    unpark(connection, of["now"], [limit_id])
    return True
