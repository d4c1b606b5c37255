"""Token buckets: what many processes take together never exceeds the rate and one bucket."""

import asyncio
import random
from datetime import timedelta
from uuid import uuid4

import pytest

from duetime.model.token_bucket import TokenAsk, TokenGrant
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT
from tests.contract.worlds import Time


def ask(need: int = 1, want: int = 0, *, back: int = 0, rate: float = 10.0, size: float = 20.0) -> TokenAsk:
    return TokenAsk(TENANT, None, rate, size, need, max(need, want), back)


async def taken(store: Store, *asks: TokenAsk) -> list[int]:
    return [grant.given for grant in await store.allowances.take_tokens(asks)]


async def test_a_bucket_begins_full_and_fills_at_its_rate(store: Store, time: Time) -> None:
    assert await store.allowances.take_tokens([ask(1, 100)]) == [TokenGrant(20, 0.0)]
    assert await taken(store, ask()) == [0]
    time.advance(seconds=0.1)
    assert await taken(store, ask(), ask()) == [1, 0]
    time.advance(seconds=0.5)
    assert await taken(store, ask(6)) == [0], "all that is needed, or none"
    assert await taken(store, ask(5)) == [5]
    time.advance(hours=1)
    assert await taken(store, ask(1, 100)) == [20], "it holds no more than its size"


async def test_what_is_not_used_is_given_back(store: Store, time: Time) -> None:
    assert await taken(store, ask(1, 20)) == [20]
    assert await taken(store, ask(0, back=15)) == [0]
    assert await taken(store, ask(1, 100)) == [15]
    time.advance(hours=1)
    assert await taken(store, ask(0, back=20)) == [0]
    assert await taken(store, ask(1, 100)) == [20], "a full bucket takes nothing back"


async def test_more_than_a_bucket_holds_is_paid_for_after_it(store: Store, time: Time) -> None:
    assert await store.allowances.take_tokens([ask(120)]) == [TokenGrant(120, -100.0)]
    time.advance(seconds=10)
    assert await taken(store, ask()) == [0]
    time.advance(seconds=0.1)
    assert await taken(store, ask()) == [1]
    assert await taken(store, ask(120)) == [0], "only a full bucket owes"


async def test_buckets_are_kept_apart(store: Store) -> None:
    key = uuid4()
    asks = [
        ask(1, 20),
        ask(1, 20)._replace(tenant_id=STRANGER),
        ask(1, 20)._replace(key_id=key),
        ask(1, 20)._replace(key_id=uuid4()),
        ask(1, 20)._replace(key_id=key),
    ]
    assert await taken(store, *asks) == [20, 20, 20, 20, 0]


async def test_another_rate_counts_from_now_on(store: Store, time: Time) -> None:
    assert await taken(store, ask(1, 1, rate=0.001, size=1)) == [1]
    time.advance(seconds=1)
    assert await taken(store, ask(1, 5000, rate=1000.0, size=2000)) == [1000]


@pytest.mark.parametrize("step", [-3600, 3600])
async def test_a_step_of_the_clock_gives_one_bucket_at_most(store: Store, time: Time, step: float) -> None:
    assert await taken(store, ask(1, 20)) == [20]
    time.advance(seconds=step)
    first = await taken(store, ask(1, 100))
    assert first == [20 if step > 0 else 0]
    time.advance(seconds=1)
    assert await taken(store, ask(1, 100)) == [10], "and from then on it fills as before"


async def test_many_at_once_never_take_more_than_the_rate_and_one_bucket(
    store: Store, other: Store, time: Time
) -> None:
    """Lessees on two nodes that ask at random, use some and give some back, over a simulated clock."""
    chance = random.Random(1)
    rate, size = 50.0, 30.0
    held = [0] * 8
    used, begin = 0, time.now

    async def lessee(number: int) -> None:
        nonlocal used
        back = held[number] if chance.random() < 0.3 else 0
        wish = TokenAsk(TENANT, None, rate, size, 1, chance.randint(1, 12), back)
        held[number] -= back
        (grant,) = await (store, other)[number % 2].allowances.take_tokens([wish])
        spent = chance.randint(0, held[number] + grant.given)
        held[number] += grant.given - spent
        used += spent

    for _ in range(40):
        time.advance(seconds=chance.choice((0, 0.01, 0.05, 0.3)))
        await asyncio.gather(*(lessee(number) for number in range(len(held))))
        elapsed = (time.now - begin).total_seconds()
        assert used + sum(held) <= rate * elapsed + size + 1e-3
    elapsed = (time.now - begin).total_seconds()
    assert used + sum(held) >= 0.6 * (rate * elapsed + size), "and it is not refused what it may have"


async def test_full_buckets_are_removed(store: Store, time: Time) -> None:
    year = timedelta(days=365)
    await taken(store, ask(20))
    assert await store.pruning.prune(year, year) == 0
    time.advance(seconds=3)
    assert await store.pruning.prune(year, year) == 1
    assert await taken(store, ask(1, 100)) == [20]
