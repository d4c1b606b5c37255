"""The jobs of an app behind a server: what an app asks of a store, asked over HTTP.

An embedded file belongs to one process. When a live `duetime up` owns it, an app in another process reaches its jobs
through that one. What an app gets back is the same as beside a store, except for what the API does not tell: fences and
the end of leases.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from uuid import UUID

import msgspec

from duetime.client.client import AsyncClient
from duetime.client.graph_answers import graph_of, nodes_request
from duetime.client.job_answers import calendar_of, job_of, run_of, submitted_of
from duetime.client.job_requests import edit_request, job_request
from duetime.clock import SystemClock
from duetime.crypto.tls import ClientTls
from duetime.ids import parse, show
from duetime.model.attempt import Run
from duetime.model.calendar import Calendar, dates_of
from duetime.model.edit import Changes
from duetime.model.graph import Graph, NewGraph
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import Job, NewJob, Submitted
from duetime.model.schedule import Once
from duetime.wire.jobs import JobView

_MOMENT = timedelta(microseconds=1)
_PAGE = 200


class RemoteJobs:
    """Which tenant it is, the key says: the number that a caller gives is not sent."""

    def __init__(self, url: str, key: str | None, tls: ClientTls | None = None) -> None:
        self._client = AsyncClient(url, key, tls=tls)

    async def close(self) -> None:
        await self._client.close()

    async def now(self) -> datetime:
        """The day that words are told from: the server's clock and this one agree on it well enough."""
        return SystemClock().now()

    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        if len(jobs) == 1:
            return [submitted_of(await self._client.create_job(**job_request(jobs[0])))]
        answer = await self._client.create_jobs([job_request(job) for job in jobs])
        return [submitted_of(item.job) for item in answer.items if item.job is not None]

    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._holding(tenant_id, await self._client.get_job(show("job", job_id)))

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        return run_of(tenant_id, await self._client.get_run(show("run", run_id)))

    async def runs_of_job(self, tenant_id: int, job_id: UUID, limit: int = 100) -> list[Run]:
        found: list[Run] = []
        async for run in self._client.runs_of_job(show("job", job_id), page_size=min(limit, _PAGE)):
            found.append(await self.run(tenant_id, parse("run", run.run_id)))
            if len(found) == limit:
                break
        return found

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        await self._client.pause_job(show("job", job_id))
        return await self.job(tenant_id, job_id)

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        await self._client.resume_job(show("job", job_id))
        return await self.job(tenant_id, job_id)

    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        await self._client.cancel_job(show("job", job_id))
        return await self.job(tenant_id, job_id)

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        return run_of(tenant_id, await self._client.cancel_run(show("run", run_id)))

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        key = None if request is None else request.key
        return run_of(tenant_id, await self._client.trigger_job(show("job", job_id), idempotency_key=key))

    async def backfill_job(
        self,
        tenant_id: int,
        job_id: UUID,
        fires: Sequence[datetime],
        nonce: bytes,
        rate: float,
        request: KeyedRequest | None = None,
    ) -> int:
        if not fires:
            return 0
        key = None if request is None else request.key
        bounds = (fires[0], fires[-1] + _MOMENT)
        answer = await self._client.backfill_job(
            show("job", job_id), *bounds, limit=len(fires), rate=rate, idempotency_key=key
        )
        return answer.runs

    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        key = None if request is None else request.key
        return run_of(tenant_id, await self._client.retry_run(show("run", run_id), idempotency_key=key))

    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        view = await self._client.change_job(show("job", job_id), version=version, **edit_request(changes))
        return await self._holding(tenant_id, view)

    async def set_calendar(self, tenant_id: int, name: str, dates: Sequence[date]) -> Calendar:
        return calendar_of(await self._client.put_calendar(name, dates))

    async def calendar(self, tenant_id: int, name: str) -> Calendar:
        return calendar_of(await self._client.get_calendar(name))

    async def calendars(self, tenant_id: int) -> list[Calendar]:
        return [calendar_of(view) for view in (await self._client.list_calendars()).items]

    async def delete_calendar(self, tenant_id: int, name: str) -> None:
        await self._client.delete_calendar(name)

    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph:
        nodes = nodes_request(graph)
        return graph_of(
            tenant_id,
            await self._client.create_graph(nodes, name=graph.name, idempotency_key=graph.idempotency_key),
        )

    async def graph(self, tenant_id: int, graph_id: UUID) -> Graph:
        return graph_of(tenant_id, await self._client.get_graph(show("gra", graph_id)))

    async def cancel_graph(self, tenant_id: int, graph_id: UUID) -> Graph:
        return graph_of(tenant_id, await self._client.cancel_graph(show("gra", graph_id)))

    async def rerun_graph(self, tenant_id: int, graph_id: UUID, nonce: bytes) -> Graph:
        return graph_of(tenant_id, await self._client.rerun_graph(show("gra", graph_id)))

    async def _holding(self, tenant_id: int, view: JobView) -> Job:
        """A job whose schedule knows the days of its calendars."""
        job = job_of(tenant_id, view)
        if isinstance(job.schedule, Once) or not job.schedule.calendars:
            return job
        held = [await self.calendar(tenant_id, name) for name in job.schedule.calendars]
        return msgspec.structs.replace(job, schedule=job.schedule.holding(dates_of(job.schedule.calendars, held)))
