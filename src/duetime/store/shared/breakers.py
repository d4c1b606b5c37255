"""Breakers: the results of attempts are counted for all nodes together, and one node makes each step."""

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec.structs import asdict

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
from duetime.store.rules.limit_scopes import RELEASED_AT_ONCE, Stepped
from duetime.store.shared.transaction import SharedRole, Transaction

_CAP = 200_000
Decide = Callable[[Breaker, datetime, int], Step | None]
Target = tuple[int, str]
"""A tenant, and the name of a target."""


class BreakerRole(SharedRole):
    async def report_attempts(self, tallies: Sequence[Tally], policy: BreakerPolicy) -> list[Breaker]:
        # In the same order on all nodes, so that they cannot deadlock.
        ordered = sorted(tallies, key=lambda item: (item.tenant_id, item.target))
        targets = [(item.tenant_id, item.target) for item in ordered]

        def decide(breaker: Breaker, now: datetime, waiting: int) -> Step | None:
            return after_attempts(breaker, policy, now, waiting)

        async def work(transaction: Transaction) -> tuple[list[Breaker], list[Stepped | None]]:
            second = (await transaction.now()).replace(microsecond=0)
            await transaction.many("add_attempts", [{**asdict(item), "second": second} for item in ordered])
            found = await _breakers(transaction, targets)
            stepped = [
                await _step(transaction, (breaker.tenant_id, breaker.target), decide)
                for breaker in found
                if policy.enabled and decide(breaker, breaker.since, 0) is not None
            ]
            return await _breakers(transaction, targets) if any(stepped) else found, stepped

        found, stepped = await self.transactions.run(work)
        await self._let_go(*stepped)
        return found

    async def advance_breakers(self) -> int:
        async def advance_one(transaction: Transaction) -> Stepped | None:
            """In its own transaction, so that other nodes do not wait for its writes."""
            due = await transaction.row("due_breaker")
            return None if due is None else await _step(transaction, (due["tenant_id"], due["target"]), after_time)

        count = 0
        while (stepped := await self.transactions.run(advance_one)) is not None:
            await self._let_go(stepped)
            count += 1
        await self.transactions.execute("prune_attempts", age=WINDOW * 2)
        return count

    async def _let_go(self, *stepped: Stepped | None) -> None:
        """After the step, release waiting runs, also those of a wait queue that is too long for one transaction."""
        self.ready.announce(any(stepped))
        for step in stepped:
            while step is not None and step.has_more:
                left = await self.transactions.value("release_rate_queue", id=step.limit_id, limit=RELEASED_AT_ONCE)
                step = step._replace(left=left)

    async def breakers(self, tenant_id: int) -> list[Breaker]:
        async def work(transaction: Transaction) -> list[Breaker]:
            rows = await transaction.rows("list_breakers", tenant_id=tenant_id, window=WINDOW)
            return await _breakers(transaction, [(tenant_id, row["target"]) for row in rows])

        return await self.transactions.reading(tenant_id).run(work)

    async def reset_breaker(self, tenant_id: int, target: str) -> Breaker:
        async def work(transaction: Transaction) -> tuple[Breaker, Stepped | None]:
            stepped = None
            if await transaction.value("is_breaker_known", tenant_id=tenant_id, target=target):
                stepped = await _step(transaction, (tenant_id, target), lambda _held, _now, _waiting: CLOSE)
            else:  # a caller may send any name: store no row for it
                await transaction.execute("forget_attempts", tenant_id=tenant_id, target=target)
            (found,) = await _breakers(transaction, [(tenant_id, target)])
            return found, stepped

        found, stepped = await self.transactions.run(work)
        await self._let_go(stepped)
        return found


async def _breakers(transaction: Transaction, targets: Sequence[Target]) -> list[Breaker]:
    rows = await transaction.rows(
        "sum_attempts",
        tenant_ids=[tenant_id for tenant_id, _ in targets],
        targets=[target for _, target in targets],
        window=WINDOW,
    )
    return [
        Breaker(
            tenant_id=row["tenant_id"],
            target=row["target"],
            state=BreakerState(row["state"]),
            since=row["since"],
            until=row["until"],
            trips=row["trips"],
            tried=row["tried"],
            failed=row["failed"],
            retried=row["retried"],
            flow=row["flow"],
        )
        for row in rows
    ]


async def _step(transaction: Transaction, target: Target, decide: Decide) -> Stepped | None:
    """Lock a breaker, read it again, and make its next step; None when another node has made it."""
    of = {"tenant_id": target[0], "target": target[1]}
    await transaction.execute("hold_breaker", **of)
    (breaker,) = await _breakers(transaction, [target])
    waiting: int = await transaction.value("waiting_at", **of, cap=_CAP)
    step = decide(breaker, await transaction.now(), waiting)
    if step is None:
        return None
    await transaction.execute("set_breaker", **of, state=step.state, until=step.until, trips=step.trips)
    rate = step.rate
    limits = {"running": step.running, "rate": rate and rate.count, "period": rate and rate.period}
    limit_id: int = await transaction.value("set_target_limit", **of, **limits)
    await transaction.execute("forget_attempts", **of)
    left = await transaction.value("release_rate_queue", id=limit_id, limit=RELEASED_AT_ONCE)
    await transaction.execute("unpark", id=limit_id, ids=[limit_id])
    return Stepped(limit_id, left, has_rate=rate is not None)
