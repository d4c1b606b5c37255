"""What is due for a suspended tenant starts nowhere, and starts when the tenant is active again."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from duetime import App
from duetime.model.access import Role
from duetime.model.job import DEFAULT_TENANT
from duetime.model.tenant import TenantChange, TenantState
from tests.support.receiver import receiving
from tests.support.served import Served
from tests.support.targeting import targeting
from tests.support.waiting import eventually
from tests.support.working import remote_worker, working

NOTICED = 1.5
"""Seconds within which every process knows that a tenant was suspended."""


@pytest.mark.parametrize("remote", [False, True], ids=["local", "remote"])
async def test_no_worker_starts_its_runs(app: App, served: Served, remote: bool) -> None:
    started: list[int] = []

    @app.task(name="count")
    async def count(number: int) -> None:
        started.append(number)

    tenants = (await app.store()).tenants
    worker: AbstractAsyncContextManager[Any] = working(app)
    if remote:
        worker = remote_worker(app, served.url, await served.key(Role.WORKER))
    async with worker:
        await app.submit("count", {"number": 1})
        await eventually(lambda: started)
        await app.submit("count", {"number": 2}, run_in=NOTICED)
        await tenants.update_tenant(DEFAULT_TENANT, TenantChange(state=TenantState.SUSPENDED))
        await asyncio.sleep(NOTICED + 1.0)
        assert started == [1]
        await tenants.update_tenant(DEFAULT_TENANT, TenantChange(state=TenantState.ACTIVE))
        await eventually(lambda: started == [1, 2])


async def test_nothing_is_called_for_it(database_url: str) -> None:
    async with targeting(database_url) as targets, receiving() as receiver:
        await targets.ended(target={"type": "http", "url": receiver.url})
        later = {"target": {"type": "http", "url": receiver.url}, "run_in": NOTICED}
        assert (await targets.api.post("/v1/jobs", later)).status == 201
        await targets.api.ask("PATCH", "/v1/admin/tenants/default", {"state": "SUSPENDED"})
        await asyncio.sleep(NOTICED + 1.0)
        assert len(receiver.requests) == 1
        await targets.api.ask("PATCH", "/v1/admin/tenants/default", {"state": "ACTIVE"})
        await eventually(lambda: len(receiver.requests) == 2)
