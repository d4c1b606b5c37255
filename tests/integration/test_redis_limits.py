"""Submission limits in Redis: exact across servers."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from duetime import ids
from duetime.engine.redis_buckets import RedisBuckets
from duetime.engine.token_leases import Bucket
from duetime.errors import SettingsError, StoreUnavailable
from duetime.model.access import Role
from duetime.model.tenant import TenantLimits
from duetime.settings import load
from tests.support.redis_server import RedisServer
from tests.support.served import served


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
async def buckets(redis: RedisServer) -> AsyncIterator[list[RedisBuckets]]:
    """Those of two servers."""
    made = [RedisBuckets(redis.address) for _ in range(2)]
    yield made
    for each in made:
        await each.close()


def bucket(rate: float, size: float) -> Bucket:
    return Bucket(1, ids.new_id(), rate, size)


async def test_servers_share_a_bucket_exactly(buckets: list[RedisBuckets]) -> None:
    of = bucket(0.001, 50.0)
    taken = await asyncio.gather(*(buckets[number % 2].take(of, 1) for number in range(200)))
    assert sum(not each.wait for each in taken) == 50
    assert {each.left for each in taken} == set(range(50))
    refused = await buckets[0].take(of, 1)
    assert refused.wait == pytest.approx(1000, rel=0.01)


async def test_a_bucket_fills_at_its_rate(buckets: list[RedisBuckets]) -> None:
    slow, quick = bucket(0.1, 10.0), bucket(100.0, 10.0)
    for of in (slow, quick):
        assert not (await buckets[0].take(of, 10)).wait
    assert 50 < (await buckets[1].take(slow, 10)).wait <= 100
    await asyncio.sleep(0.15)
    assert not (await buckets[1].take(quick, 10)).wait


async def test_more_than_the_size_is_a_debt_of_a_full_bucket(buckets: list[RedisBuckets]) -> None:
    of = bucket(1.0, 10.0)
    assert not (await buckets[0].take(of, 100)).wait
    assert (await buckets[1].take(of, 1)).wait == pytest.approx(91, abs=1)


async def test_what_is_put_back_can_be_taken_again(buckets: list[RedisBuckets]) -> None:
    of = bucket(0.001, 5.0)
    await buckets[0].take(of, 5)
    buckets[0].put_back(of, 3)
    await asyncio.sleep(0.05)
    assert [not (await buckets[1].take(of, 1)).wait for _ in range(4)] == [True, True, True, False]


async def test_servers_refuse_what_exceeds_the_limit(database_url: str, redis: RedisServer) -> None:
    async with served(database_url, limits_url=redis.address) as api:
        tenant = await api.tenant("acme", limits=TenantLimits(submissions_per_second=0.5))
        key = await api.key(Role.SUBMITTER, tenant.id)
        first = await api.post("/v1/jobs", {"task": "a"}, key=key)
        second = await api.post("/v1/jobs", {"task": "a"}, key=key)
        assert (first.status, second.status, second.code) == (201, 429, "rate_limited")
        assert int(second.headers["Retry-After"]) == 2


async def test_submissions_of_limited_tenants_wait_for_redis(database_url: str, own_redis: RedisServer) -> None:
    async with served(database_url, limits_url=own_redis.address) as api:
        tenant = await api.tenant("acme", limits=TenantLimits(submissions_per_second=100))
        key = await api.key(Role.SUBMITTER, tenant.id)
        assert (await api.post("/v1/jobs", {"task": "a"}, key=key)).status == 201
        own_redis.stop()
        assert (await api.post("/v1/jobs", {"task": "a"}, key=key)).status == 503
        assert (await api.post("/v1/jobs", {"task": "a"})).status == 201, "the tenant `default` has no limit"
        own_redis.start()
        assert (await api.post("/v1/jobs", {"task": "a"}, key=key)).status == 201


async def test_an_address_that_is_no_redis_is_refused() -> None:
    for wrong in ("http://host", "redis://", "redis://host/x", "redis://host:port"):
        with pytest.raises(SettingsError) as refused:
            load(None, {}, {"limits_url": wrong})
        assert refused.value.field == "limits_url"
    shown = repr(load(None, {}, {"limits_url": "redis://name:hush-hush@host/0"}))
    assert "hush-hush" not in shown
    away = RedisBuckets("redis://127.0.0.1:1/0")
    with pytest.raises(StoreUnavailable):
        await away.take(bucket(1.0, 1.0), 1)
    await away.close()
