"""The page that Prometheus reads: valid, cheap, without ids, and in agreement with what history says."""

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import aiohttp
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from duetime import App, GiveUp
from duetime.clock import ManualClock
from duetime.engine.canary import Canary
from duetime.engine.intake import prepare
from duetime.engine.reaper import judge
from duetime.engine.scanner import Scanner
from duetime.engine.surveyor import Surveyor
from duetime.engine.watcher import Watcher
from duetime.errors import StoreUnavailable
from duetime.ids import new_id
from duetime.model.completion import PLAIN, complete
from duetime.model.failure import Failure, FailureClass
from duetime.model.lists import JobFilter, RunFilter
from duetime.model.outcome import Failed
from duetime.model.schedule import make_schedule
from duetime.model.tenant import NewTenant
from duetime.model.worker import WorkerInfo
from duetime.node.assembly import Node
from duetime.sdk.app import App as AppClass
from duetime.store.address import open_ready, store_for, store_in_memory
from duetime.store.protocol.store import Store
from duetime.store.wrappers.observed import StoreObserver, observed
from duetime.telemetry.buckets import LAGS, Buckets
from duetime.telemetry.exposition import page, registry_of
from duetime.telemetry.meters import Meters
from tests.support.waiting import eventually
from tests.support.working import quick_settings

Page = dict[str, float]
"""Samples by their name and labels, as they stand on the page."""


def parsed(text: str) -> Page:
    """What the Prometheus client's own parser makes of a page."""
    found: Page = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


class Running:
    def __init__(self, node: Node, app: AppClass, store: Store) -> None:
        self.node, self.app, self.store = node, app, store

    async def page(self) -> str:
        url = f"http://127.0.0.1:{self.node.metrics_port}/metrics"
        async with aiohttp.ClientSession() as http, http.get(url) as answer:
            assert answer.status == 200
            return await answer.text()


@asynccontextmanager
async def running(database_url: str, **settings: Any) -> AsyncIterator[Running]:
    """Everything in one process, as `duetime up` has it, with tasks that end in every way."""
    given = msgspec.structs.replace(quick_settings(database_url), port=0, metrics_port=0, data_dir=None, **settings)
    app = App(settings=given)

    @app.task(name="good")
    async def good() -> None:
        pass

    @app.task(name="flaky", retries=1)
    async def flaky(ctx: Any) -> None:
        if ctx.attempt == 1:
            raise ValueError("not yet")

    @app.task(name="bad")
    async def bad() -> None:
        raise GiveUp("never")

    node = Node(given, app=app, serve=True)
    up: asyncio.Future[Store] = asyncio.get_running_loop().create_future()

    async def ready(store: Store, _: Any) -> None:
        up.set_result(store)

    task = asyncio.create_task(node.run(ready))
    try:
        await asyncio.wait({task, up}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield Running(node, app, up.result())
    finally:
        node.stop()
        await task


async def test_everything_that_happens_is_on_the_page(database_url: str) -> None:
    async with running(database_url) as up:
        await up.app.submit_many([up.app.tasks["good"].bind()] * 40)
        flaky = await up.app.submit("flaky")
        bad = await up.app.submit("bad")
        await up.app.wait(bad, "20s")
        assert flaky.job_id

        async def all_there() -> bool:
            found = parsed(await up.page())
            return found.get('duetime_runs_total{outcome="succeeded"}', 0) >= 40 and "duetime_queue_depth" in str(found)

        await eventually(all_there)
        found = parsed(await up.page())
    assert found['duetime_runs_total{outcome="failed"}'] == 1
    assert found['duetime_attempts_total{failure="gave_up",tier="standard"}'] == 1
    assert found['duetime_attempts_total{failure="error",tier="standard"}'] == 1
    assert found['duetime_attempts_total{failure="none",tier="standard"}'] >= 40
    assert found["duetime_retries_total"] == 1
    assert found["duetime_due_lag_seconds_count"] >= 42
    assert found["duetime_run_duration_seconds_count"] >= 42
    assert found["duetime_claim_seconds_count"] >= 1 and found["duetime_claim_batch_size_sum"] >= 42
    assert found["duetime_complete_seconds_count"] >= 1 and found["duetime_submit_seconds_count"] == 3
    assert found['duetime_slots{place="loop"}'] == 200 and found['duetime_slots_used{place="loop"}'] == 0
    assert found['duetime_queue_depth{priority="medium"}'] >= 0
    assert found['duetime_workers{kind="tasks",state="alive"}'] == 1
    assert found['duetime_workers{kind="targets",state="alive"}'] == 0, "no worker calls targets here"
    assert found['duetime_table_rows{table="history"}'] >= 0 and found["duetime_database_size_bytes"] > 0
    assert found["duetime_pool_connections"] >= 1
    assert found["duetime_oldest_due_age_seconds"] >= 0
    for name in ("lease_expirations", "fence_rejections", "missed_occurrences", "fired_runs", "passed_by_jobs"):
        assert f"duetime_{name}_total" in found


async def test_the_lag_on_the_page_is_the_lag_in_history(database_url: str) -> None:
    """The 95th percentile from the histogram lies in the bucket in which that of history lies."""
    async with running(database_url) as up:
        jobs = await up.app.submit_many([up.app.tasks["good"].bind()] * 120)
        jobs += [await up.app.submit("good", run_in=0.05 * share) for share in range(10)]
        for job in jobs:
            await up.app.wait(job, "20s")
        lags = sorted([(await up.app.runs(job))[0].lag.total_seconds() for job in jobs])
        found = parsed(await up.page())
    assert found["duetime_due_lag_seconds_count"] == len(jobs)
    assert found["duetime_due_lag_seconds_sum"] == pytest.approx(sum(lags), abs=1e-3)
    exact = lags[math.ceil(len(lags) * 0.95) - 1]
    wanted = 0.95 * len(jobs)
    shown = next(bound for bound in LAGS if found[f'duetime_due_lag_seconds_bucket{{le="{bound}"}}'] >= wanted)
    assert shown == next(bound for bound in LAGS if exact <= bound)


async def test_no_ids_in_labels_and_base_units(database_url: str) -> None:
    async with running(database_url) as up:
        job = await up.app.submit("good")
        await up.app.wait(job, "20s")
        text = await up.page()
    assert not re.search(r'="(job|run|wrk|key|ten)_', text)
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        assert not re.search(r"(_ms|_milliseconds|_kb|_minutes|_percent)$", family.name)


async def test_attempts_by_tier_and_what_is_refused() -> None:
    store, meters = store_in_memory(), Meters()
    observer = StoreObserver(meters)
    seen = observed(store, observer)
    await open_ready(seen)
    tenant = await seen.tenants.create_tenant(NewTenant("rich", tier="gold"))
    surveyor = Surveyor(seen, meters, know_tiers=observer.know_tiers, unserved=lambda: 0)
    await seen.intake.submit(
        tenant.id, [prepare(task="t", args={}, max_payload=9, tenant_id=tenant.id) for _ in range(3)]
    )
    await surveyor.tick()
    assert meters.gauges["duetime_queue_depth"]() == {("high",): 0.0, ("medium",): 3.0, ("low",): 0.0}
    worker = WorkerInfo(new_id(), "w", ("t",), (), 10)
    await seen.leases.register(worker, timedelta(seconds=15))
    (lane,) = await seen.claims.lanes()
    first, second, third = await seen.claims.claim(worker.id, 1, [(lane.id, 10)])
    failed = Failed(Failure(FailureClass.TIMEOUT, "slow"))
    await seen.completions.complete(worker.id, [complete(first, PLAIN, None), complete(second, failed, None)])
    await seen.completions.complete(worker.id, [complete(first, PLAIN, None), complete(third, PLAIN, None)])
    assert meters.attempts == {("none", "gold"): 2, ("timeout", "gold"): 1}
    assert meters.runs == {"succeeded": 2} and (meters.retries, meters.fence_rejections) == (1, 1)
    assert meters.due_lag.count == 3 and meters.work["claim"].sizes.sum == 3
    await store.close()


async def test_what_was_missed_and_lost() -> None:
    clock = ManualClock()
    store, meters = store_in_memory(clock), Meters()
    seen = observed(store, StoreObserver(meters))
    await open_ready(seen)
    every = make_schedule(every="1m", now=clock.now())
    await seen.intake.submit(1, [prepare(task="t", args={}, max_payload=9, schedule=every)])
    clock.advance(minutes=10)
    await Scanner(seen).tick()
    assert meters.missed >= 8 and meters.runs["skipped"] == meters.missed and meters.fired >= 1
    worker = WorkerInfo(new_id(), "w", ("t",), (), 10)
    await seen.leases.register(worker, timedelta(seconds=15))
    (lane,) = await seen.claims.lanes()
    assert await seen.claims.claim(worker.id, 1, [(lane.id, 1)])
    clock.advance(seconds=60)
    await seen.reaping.reap(100, judge, timedelta(seconds=30))
    assert meters.lease_expirations == 1 and meters.attempts["lost", "unknown"] == 1
    await store.close()


async def test_a_canary_goes_the_whole_way() -> None:
    clock = ManualClock()
    store, meters = store_in_memory(clock), Meters()
    await open_ready(store)
    canary = Canary(store, meters, interval=timedelta(minutes=1))
    scanner = Scanner(store)
    assert await canary.tick() == 60, "not at the start"
    ahead = await canary.tick()
    assert ahead > 15 and (await store.reads.counts()).jobs == 1, "it has a future, and has to be fired"
    clock.advance(seconds=5)
    await scanner.tick()
    assert await canary.tick() == pytest.approx(ahead - 5), "it waits for its time"
    clock.advance(seconds=ahead - 5)
    await canary.tick()
    assert meters.canary == {"succeeded": 1} and meters.canary_stages["whole"].count == 1
    assert meters.canary_succeeded_at == clock.now().timestamp()
    assert not await store.leases.workers(), "it does not stay"
    assert [tenant.id for tenant in await store.tenants.tenants()] == [1]
    shown = parsed(page(registry_of(meters)).decode())
    assert shown["duetime_canary_last_success_timestamp_seconds"] == clock.now().timestamp()
    await store.close()


@pytest.mark.parametrize(("role", "method"), [("leases", "register"), ("claims", "claim"), ("completions", "complete")])
async def test_a_canary_whose_answer_is_lost_comes_through(
    role: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was claimed unseen is not left in its hands until it leaves."""
    clock = ManualClock()
    store, meters = store_in_memory(clock), Meters()
    await open_ready(store)
    canary, real, lost = Canary(store, meters, interval=timedelta(minutes=1)), getattr(getattr(store, role), method), []

    async def answer_is_lost(*given: Any) -> Any:
        answer = await real(*given)
        if not lost:
            lost.append(answer)
            raise StoreUnavailable("the answer is lost")
        return answer

    await canary.tick()
    clock.advance(seconds=await canary.tick())
    await Scanner(store).tick()
    monkeypatch.setattr(getattr(store, role), method, answer_is_lost)
    with pytest.raises(StoreUnavailable):
        await canary.tick()
    await canary.tick()
    assert meters.canary == {"succeeded": 1}
    assert (await store.reads.counts()).runs == 0
    await store.close()


async def test_a_canary_that_nobody_fires_is_told() -> None:
    clock = ManualClock()
    store, meters = store_in_memory(clock), Meters()
    await open_ready(store)
    canary = Canary(store, meters, interval=timedelta(minutes=1))
    await canary.tick()
    clock.advance(seconds=await canary.tick())
    assert await canary.tick() < 1, "it is looked for"
    clock.advance(seconds=61)
    await canary.tick()
    assert meters.canary == {"failed": 1} and meters.canary_succeeded_at == 0
    await store.close()


async def test_canaries_on_every_store(database_url: str) -> None:
    """Unseen by tenants, wherever it lives."""
    store, meters = store_for(quick_settings(database_url)), Meters()
    await open_ready(store)
    canary = Canary(store, meters, interval=timedelta(0), ahead=timedelta(seconds=0.2))

    async def came_through() -> bool:
        await canary.tick()
        await Scanner(store).tick()
        return bool(meters.canary)

    await eventually(came_through)
    assert meters.canary == {"succeeded": 1}
    assert (
        not (await store.lists.list_jobs(1, JobFilter())).items
        and not (await store.lists.list_runs(1, RunFilter())).items
    )
    await Watcher(store).tick()
    await store.close()


def test_buckets_agree_with_adding_one_by_one() -> None:
    values = [0.0, 0.001, 0.005, 0.0051, 1.0, 2.4, 2.5, 7200.0, 7200.1, 1e9]
    single, together = Buckets(LAGS), Buckets(LAGS)
    for value in values:
        single.add(value)
    together.add_all(values[:])
    assert single.counts == together.counts and single.sum == together.sum
    assert together.count == len(values)
    spans = Buckets(LAGS)
    spans.add_microseconds([round(value * 1_000_000) for value in values])
    assert spans.counts == single.counts and spans.sum == pytest.approx(single.sum)
    together.add_all([])
    assert together.count == len(values)


def test_a_scrape_asks_nobody_and_is_quick() -> None:
    """Its cost depends on the number of series, which does not grow with jobs: all of them take a few milliseconds."""
    meters = Meters()
    for failure in range(10):
        for tier in range(20):
            meters.attempts[f"failure {failure}", f"tier {tier}"] = 1
    registry = registry_of(meters)
    began = time.thread_time()
    for _ in range(5):
        page(registry)
    assert (time.thread_time() - began) / 5 < 0.05
