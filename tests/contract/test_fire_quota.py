"""Schedules do not fill the database: beyond the quota of stored jobs, occurrences of recurring jobs are skipped."""

from datetime import timedelta

import pytest

from duetime.engine import fire_quota
from duetime.engine.fire_quota import with_fire_quota
from duetime.model.run import RunState
from duetime.model.schedule import Every, Once
from duetime.model.tenant import TenantChange, TenantLimits
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, fire, hand, job, submit
from tests.contract.worlds import Time

MOST = 6


class Watch:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(fire_quota, "monotonic", watch)
    monkeypatch.setattr(fire_quota, "LEAST", 1)
    return watch


async def test_a_full_tenant_gets_no_more_runs_of_recurring_jobs(store: Store, time: Time, watch: Watch) -> None:
    await store.tenants.update_tenant(TENANT, TenantChange(limits=TenantLimits(stored_jobs=MOST)))
    bounded = with_fire_quota(store)
    recurring = await submit(store, job(Every(timedelta(minutes=1))))
    once = await submit(store, job(Once(delay=timedelta(minutes=20))))
    other = await submit(store, job(Every(timedelta(minutes=1)), tenant_id=STRANGER), tenant_id=STRANGER)
    for _ in range(20):
        time.advance(minutes=1)
        await fire(bounded)
    runs = await store.reads.runs_of_job(TENANT, recurring.job_id)
    waiting = [run for run in runs if run.state is RunState.PENDING]
    skipped = [run for run in runs if run.state is RunState.SKIPPED]
    assert MOST - 2 <= len(waiting) <= MOST
    assert len(waiting) + len(skipped) >= 19
    assert skipped[0].error == "quota: the tenant is at its limit of stored jobs"
    assert len(await store.reads.runs_of_job(TENANT, once.job_id)) == 1, "it was stored before"
    assert len(await store.reads.runs_of_job(STRANGER, other.job_id)) >= 19, "others are not concerned"

    worker = await hand(store, timedelta(days=1))
    await worker.succeed(*await worker.claim(100))
    watch.now += 60
    time.advance(minutes=1)
    await fire(bounded)
    (newest, *_) = await store.reads.runs_of_job(TENANT, recurring.job_id)
    assert newest.state is RunState.PENDING, "it has room again"


async def test_the_last_run_of_a_job_is_made(store: Store, time: Time, watch: Watch) -> None:
    """It ends its job, so it takes no more room than that."""
    await store.tenants.update_tenant(TENANT, TenantChange(limits=TenantLimits(stored_jobs=0)))
    bounded = with_fire_quota(store)
    first = await submit(store, job(Every(timedelta(minutes=1))))
    last = await submit(store, job(Every(timedelta(minutes=1)), options=b'{"max_runs":2}'))
    for _ in range(4):
        time.advance(minutes=1)
        await fire(bounded)
    assert RunState.SKIPPED in {run.state for run in await store.reads.runs_of_job(TENANT, first.job_id)}
    assert RunState.PENDING in {run.state for run in await store.reads.runs_of_job(TENANT, last.job_id)}
