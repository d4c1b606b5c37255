"""The jobs of an app that uses a server.

Options are sent as they were given: the server resolves them, with its own clock and rules. The results are the same as
with a direct database connection, except for fences and lease ends, which the API does not expose.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from duetime.client.client import AsyncClient
from duetime.client.graph_answers import graph_of
from duetime.client.job_answers import calendar_of, job_of, run_of, submitted_of
from duetime.crypto.tls import ClientTls
from duetime.errors import never_ran
from duetime.ids import parse, show
from duetime.model.attempt import Run
from duetime.model.calendar import Calendar, dates_of
from duetime.model.graph import Graph
from duetime.model.job import DEFAULT_TENANT, Job, Submitted
from duetime.model.lists import JobStatus
from duetime.model.run import RunState
from duetime.model.schedule import ComingFire, Once
from duetime.model.target import plain_target
from duetime.sdk.jobs import Look
from duetime.sdk.order import Node, Order, check_call
from duetime.sdk.preview import Preview, preview_of
from duetime.sdk.task import Call
from duetime.wire.graphs import GraphView
from duetime.wire.jobs import JobView
from duetime.wire.service import Preview as PreviewAnswer

_OVER = (JobStatus.CANCELLED, JobStatus.ENDED)
_PAGE = 200
_SECOND = timedelta(seconds=1)


class RemoteJobs:
    """The key determines the tenant."""

    def __init__(self, url: str, key: str | None, tls: ClientTls | None = None) -> None:
        self._client = AsyncClient(url, key, tls=tls)

    async def close(self) -> None:
        await self._client.close()

    async def now(self) -> datetime:
        """The server's clock, computed from the preview of a schedule that runs in a second."""
        answer = await self._client.preview_schedule(run_in=1, count=1)
        return answer.fires[0].utc - _SECOND

    async def submit(self, orders: Sequence[Order]) -> list[Submitted]:
        if not orders:
            return []
        if len(orders) == 1:
            return [submitted_of(await self._client.create_job(**_fields(orders[0])))]
        answer = await self._client.create_jobs([_fields(order) for order in orders])
        return [submitted_of(item.job) for item in answer.items if item.job is not None]

    async def submit_graph(self, nodes: Mapping[str, Node], name: str | None, idempotency_key: str | None) -> Graph:
        fields = {}
        for node_name, node in nodes.items():
            fields[node_name] = _fields(node.order)
            if node.parents:
                rule = {"need": node.rule.need, "on": node.rule.wanted, "otherwise": node.rule.otherwise}
                named = {part: choice.name.lower() for part, choice in rule.items()}
                fields[node_name]["depends_on"] = {"nodes": list(node.parents), **named}
        return _graph(await self._client.create_graph(fields, name=name, idempotency_key=idempotency_key))

    async def edit(self, job_id: UUID, changes: Mapping[str, Any], call: Call[Any] | None, version: int | None) -> Job:
        fields = dict(changes)
        if call is not None:
            check_call(call, (await self.job(job_id)).task)
            fields["args"] = msgspec.Raw(call.encoded())
        return await self._holding(await self._client.change_job(show("job", job_id), version=version, **fields))

    async def look(self, job_id: UUID) -> Look:
        status = await self._client.get_job_status(show("job", job_id))
        if status.last_run is None:
            if status.status in _OVER:
                raise never_ran(show("job", job_id))
            return Look(None, "IN_STREAM" if status.status is JobStatus.IN_STREAM else "not due yet")
        state = RunState[status.last_run.status]
        return Look(await self.run(parse("run", status.last_run.run_id)) if state.is_end else None, state.name)

    async def why(self, job_id: UUID) -> str | None:
        return (await self._client.explain_job(show("job", job_id))).in_words

    async def job(self, job_id: UUID) -> Job:
        return await self._holding(await self._client.get_job(show("job", job_id)))

    async def run(self, run_id: UUID) -> Run:
        return run_of(DEFAULT_TENANT, await self._client.get_run(show("run", run_id)))

    async def runs(self, job_id: UUID, limit: int) -> list[Run]:
        found: list[Run] = []
        async for run in self._client.runs_of_job(show("job", job_id), page_size=min(limit, _PAGE)):
            found.append(await self.run(parse("run", run.run_id)))
            if len(found) == limit:
                break
        return found

    async def pause(self, job_id: UUID) -> Job:
        await self._client.pause_job(show("job", job_id))
        return await self.job(job_id)

    async def resume(self, job_id: UUID) -> Job:
        await self._client.resume_job(show("job", job_id))
        return await self.job(job_id)

    async def cancel(self, job_id: UUID) -> Job:
        await self._client.cancel_job(show("job", job_id))
        return await self.job(job_id)

    async def cancel_run(self, run_id: UUID) -> Run:
        return run_of(DEFAULT_TENANT, await self._client.cancel_run(show("run", run_id)))

    async def trigger(self, job_id: UUID, idempotency_key: str | None) -> Run:
        answer = await self._client.trigger_job(show("job", job_id), idempotency_key=idempotency_key)
        return run_of(DEFAULT_TENANT, answer)

    async def backfill(
        self, job_id: UUID, start: datetime, end: datetime, limit: int, rate: float, idempotency_key: str | None
    ) -> int:
        answer = await self._client.backfill_job(
            show("job", job_id), start, end, limit=limit, rate=rate, idempotency_key=idempotency_key
        )
        return answer.runs

    async def retry(self, run_id: UUID, idempotency_key: str | None) -> Run:
        return run_of(
            DEFAULT_TENANT, await self._client.retry_run(show("run", run_id), idempotency_key=idempotency_key)
        )

    async def preview(self, schedule: str, count: int, options: Mapping[str, Any]) -> Preview:
        return _preview(await self._client.preview_schedule(schedule, count=count, **options))

    async def preview_job(self, job_id: UUID, count: int) -> Preview:
        schedule = (await self.job(job_id)).schedule
        return preview_of(schedule, "UTC" if isinstance(schedule, Once) else schedule.zone, await self.now(), count)

    async def set_calendar(self, name: str, dates: Sequence[date]) -> Calendar:
        return calendar_of(await self._client.put_calendar(name, dates))

    async def calendar(self, name: str) -> Calendar:
        return calendar_of(await self._client.get_calendar(name))

    async def calendars(self) -> list[Calendar]:
        return [calendar_of(view) for view in (await self._client.list_calendars()).items]

    async def delete_calendar(self, name: str) -> None:
        await self._client.delete_calendar(name)

    async def graph(self, graph_id: UUID) -> Graph:
        return _graph(await self._client.get_graph(show("gra", graph_id)))

    async def cancel_graph(self, graph_id: UUID) -> Graph:
        return _graph(await self._client.cancel_graph(show("gra", graph_id)))

    async def rerun_graph(self, graph_id: UUID) -> Graph:
        return _graph(await self._client.rerun_graph(show("gra", graph_id)))

    async def _holding(self, view: JobView) -> Job:
        """A job whose schedule includes the days of its calendars."""
        job = job_of(DEFAULT_TENANT, view)
        if isinstance(job.schedule, Once) or not job.schedule.calendars:
            return job
        held = [await self.calendar(name) for name in job.schedule.calendars]
        return msgspec.structs.replace(job, schedule=job.schedule.holding(dates_of(job.schedule.calendars, held)))


def _fields(order: Order) -> dict[str, Any]:
    """The fields of a job to create."""
    what, given = order.what, order.given
    if order.once and "when" in given:
        given["once"] = True  # the API accepts all schedules, and `submit` only those that run once
    if isinstance(what, Call):
        return {**given, "task": what.task.name, "args": msgspec.Raw(order.args)}
    return {**given, "target": plain_target(what)}


def _graph(view: GraphView) -> Graph:
    return graph_of(DEFAULT_TENANT, view)


def _preview(answer: PreviewAnswer) -> Preview:
    kind, _, form = answer.schedule.exact.partition(" ")
    fires = [ComingFire(fire.local, fire.utc, fire.change, fire.note) for fire in answer.fires]
    return Preview(kind, form or kind, answer.schedule.tz, answer.schedule.sentence, fires, answer.reason)
