"""A client that asks a node for everything, whatever becomes of the answers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from duetime import App, AsyncClient
from duetime.client import run_requests
from duetime.errors import NotFound, ServerUnavailable
from tests.support.lying import Lies
from tests.support.receiver import Receiver
from tests.support.waiting import eventually


class Tour:
    """Knows what should have come of it."""

    def __init__(self, client: AsyncClient, key: str, app: App, receiver: Receiver, lies: Lies) -> None:
        self.client = client
        self.key = key
        self.app = app
        self.receiver = receiver
        self.lies = lies
        self.jobs: set[str] = set()
        """All that should be there in the end."""
        self.told_from = 0
        """From here on the receiver was told what it had subscribed to."""
        self.tokens: Mapping[UUID, str] = {}
        """Of the remote worker's sessions."""

    async def job(self, task: str | None, **how: Any) -> str:
        receipt = await self.client.create_job(task, **how)
        self.jobs.add(receipt.job_id)
        return receipt.job_id

    async def once(self, ask: Callable[[], Awaitable[object]], happened: Callable[[], Awaitable[object]]) -> None:
        """What a client does not repeat by itself: who gets no answer looks whether it has happened."""
        for _ in range(20):
            try:
                await ask()
            except ServerUnavailable:
                if not await happened():
                    continue
            return
        raise AssertionError("never answered, and never happened")

    async def gone(self, ask: Callable[[], Awaitable[object]]) -> None:
        """Remove something: the second time it may be gone already."""
        for _ in range(20):
            try:
                await ask()
            except NotFound:
                return
            except ServerUnavailable:
                continue
            return
        raise AssertionError("never removed")

    async def ended(self, job_id: str, status: str = "SUCCEEDED") -> Any:
        run = await self.client.wait(job_id, "60s")
        assert run.status == status, run
        return run

    async def running(self, job_id: str) -> None:
        async def at_work() -> bool:
            status = await self.client.get_job_status(job_id)
            return status.last_run is not None and status.last_run.status == "RUNNING"

        await eventually(at_work)

    async def runs(self, job_id: str) -> list[Any]:
        return [run async for run in self.client.walk(run_requests.list_runs_of_job(job_id))]

    async def many(self, job_id: str, count: int) -> bool:
        return len(await self.runs(job_id)) >= count
