"""Tokens that a node takes ahead: no caller waits under load, and all nodes together keep to the rate."""

import asyncio
from collections.abc import Iterator, Sequence
from uuid import UUID

import pytest

from duetime.clock import monotonic_from
from duetime.engine.token_leases import Bucket, Taken, TokenLeases
from duetime.errors import StoreUnavailable
from duetime.model.token_bucket import HELD, TokenAsk, TokenGrant, take


class Shared:
    """One bucket in memory, by the same rule as the stores', and a clock."""

    def __init__(self) -> None:
        self.now = 100.0
        self.level: float | None = None
        self.filled_at = self.now
        self.asks: list[TokenAsk] = []
        self.broken = False

    async def take_tokens(self, asks: Sequence[TokenAsk]) -> list[TokenGrant]:
        await asyncio.sleep(0)
        if self.broken:
            raise StoreUnavailable("it is away")
        self.asks += asks
        return [self._taken(ask) for ask in asks]

    def _taken(self, ask: TokenAsk) -> TokenGrant:
        grant = take(ask, ask.size if self.level is None else self.level, self.now - self.filled_at)
        self.level, self.filled_at = grant.level, self.now
        return grant


@pytest.fixture
def shared() -> Iterator[Shared]:
    found = Shared()
    with monotonic_from(lambda: found.now):
        yield found


def bucket(rate: float = 100.0, size: float = 150.0, key: UUID | None = None) -> Bucket:
    return Bucket(1, key, rate, size)


async def given(leases: TokenLeases, of: Bucket, need: int = 1) -> bool:
    return (await leases.take(of, need)).wait == 0


async def test_two_nodes_together_keep_to_the_rate(shared: Shared) -> None:
    nodes = [TokenLeases(shared), TokenLeases(shared)]
    used: list[float] = []
    for _ in range(500):  # 5 s, in which each node is asked for 200 a second
        shared.now += 0.01
        for node in nodes:
            for _ in range(2):
                if await given(node, bucket()):
                    used.append(shared.now)
        await asyncio.sleep(0)
    assert 600 <= len(used) <= 5 * 100 + 150
    most = max(sum(start <= moment <= start + 1 for moment in used) for start in used)
    assert most <= 100 * (1 + HELD) + 150, "in any second"
    assert len(shared.asks) <= 2 * 5 / 0.1 + 20, "a few statements a second, however many ask"


async def test_under_load_no_caller_waits(shared: Shared) -> None:
    node = TokenLeases(shared)
    waited = 0
    for step in range(200):
        shared.now += 0.01
        for _ in range(5):
            taking = asyncio.ensure_future(node.take(bucket(rate=10_000.0, size=15_000.0), 1))
            await asyncio.sleep(0)
            waited += not taking.done() and step > 50
            assert (await taking).wait == 0
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert waited == 0
    assert len(shared.asks) < 60


async def test_many_who_wait_are_served_by_one_statement(shared: Shared) -> None:
    node = TokenLeases(shared)
    answers = await asyncio.gather(*(node.take(bucket(), 1) for _ in range(100)))
    assert all(answer.wait == 0 for answer in answers)
    assert len(shared.asks) <= 3


async def test_an_empty_bucket_is_left_alone_until_it_can_have_filled(shared: Shared) -> None:
    node = TokenLeases(shared)
    slow = bucket(rate=0.1, size=1.0)
    assert await given(node, slow)
    answers = [await node.take(slow, 1) for _ in range(50)]
    assert all(9 <= answer.wait <= 10 and answer.left == 0 for answer in answers)
    assert len(shared.asks) <= 2
    shared.now += 10.1
    assert await given(node, slow)


async def test_more_than_a_bucket_holds_waits_for_a_full_one(shared: Shared) -> None:
    node = TokenLeases(shared)
    small = bucket(rate=10.0, size=20.0)
    assert await given(node, small, 5)
    assert (await node.take(small, 100)).wait == pytest.approx(0.5)
    shared.now += 0.5
    assert await given(node, small, 100)
    assert (await node.take(small, 1)).wait == pytest.approx(8.1)


async def test_what_is_not_used_goes_back(shared: Shared) -> None:
    node, other = TokenLeases(shared), TokenLeases(shared)
    for _ in range(10):
        shared.now += 0.05
        for _ in range(5):
            assert await given(node, bucket())
        await asyncio.sleep(0)
    shared.now += 2 * HELD
    await node.give_back()
    await node.give_back()
    assert await given(other, bucket(), 150), "the bucket is full again"


async def test_tokens_are_not_used_after_their_time(shared: Shared) -> None:
    node = TokenLeases(shared)
    few = bucket(rate=0.001, size=10.0)
    await asyncio.gather(*(node.take(few, 1) for _ in range(5)))
    node.put_back(few, 2)
    shared.now += HELD + 0.1
    asked = len(shared.asks)
    assert await given(node, few)
    assert len(shared.asks) == asked + 1
    assert shared.asks[-1].back >= 2


async def test_a_store_that_is_away_is_told_to_the_caller(shared: Shared) -> None:
    node = TokenLeases(shared)
    shared.broken = True
    with pytest.raises(StoreUnavailable):
        await node.take(bucket(), 1)
    shared.broken = False
    assert await node.take(bucket(), 1) == Taken(149)


async def test_a_limit_that_was_raised_counts_at_once(shared: Shared) -> None:
    node = TokenLeases(shared)
    assert await given(node, bucket(0.001, 1.0))
    assert not await given(node, bucket(0.001, 1.0))
    shared.now += 0.1
    assert await given(node, bucket(1000.0, 1500.0))
