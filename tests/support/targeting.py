"""A server, the engine's loops and a worker for targets, inside the test's own process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from duetime.node.assembly import engine_loops, make_target_worker
from duetime.process.loop import Loop
from duetime.targets.address_guard import Lookup, system_lookup
from duetime.targets.completion_link import CompletionLinks
from duetime.targets.runner import TargetRunner
from duetime.worker.worker import Worker
from tests.support.served import Served, served
from tests.support.waiting import eventually

LOCAL = ("127.0.0.0/8", "::1/128")
_ENDS = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"})


class Targeting:
    """The API, and what becomes of jobs that it takes."""

    def __init__(self, api: Served) -> None:
        self.api = api

    async def submit(self, **job: Any) -> str:
        """The id of the run of a job with a target."""
        answer = await self.api.post("/v1/jobs", {"retries": 0, **job})
        assert answer.status == 201, answer.json
        run_id: str = answer.json["run_id"]
        return run_id

    async def run(self, run_id: str) -> Any:
        return (await self.api.get(f"/v1/runs/{run_id}")).json

    async def until(self, run_id: str, *states: str) -> Any:
        """The run, once it is in one of these states, or has ended."""

        async def there() -> Any:
            run = await self.run(run_id)
            return run if run["status"] in (states or _ENDS) else None

        return await eventually(there)

    async def ended(self, **job: Any) -> Any:
        return await self.until(await self.submit(**job))


@asynccontextmanager
async def targeting(
    database_url: str, *, lookup: Lookup = system_lookup, worker: bool = True, **settings: Any
) -> AsyncIterator[Targeting]:
    given: dict[str, Any] = {"allowed_networks": LOCAL, "target_timeout": timedelta(seconds=10), **settings}
    async with served(database_url, **given) as api:
        store, complete = api.store, api.service.settings
        complete = msgspec.structs.replace(complete, public_url=api.url)
        runner = TargetRunner(store, complete, CompletionLinks(store.tenants, api.url), lookup=lookup)
        parts: list[Loop | Worker] = list(engine_loops(store, complete))
        if worker:
            parts.append(make_target_worker(runner, store, complete))
        running = [asyncio.create_task(part.run()) for part in parts]
        try:
            yield Targeting(api)
        finally:
            for part in parts:
                part.stop()
            await asyncio.gather(*running)
            await runner.close()
