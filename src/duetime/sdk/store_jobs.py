"""The jobs of an app with a direct database connection."""

import os
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from functools import cached_property
from typing import Any
from uuid import UUID

import msgspec

from duetime import ids
from duetime.engine.backfill import check_rate, fires_between
from duetime.engine.graph_requests import Wish, make_graph
from duetime.engine.intake import Intake
from duetime.engine.quota import Quota
from duetime.engine.waiting_reasons import why_job
from duetime.errors import InStream, InvalidInput, never_ran
from duetime.model.attempt import Run
from duetime.model.calendar import Calendar
from duetime.model.firing import Backfill
from duetime.model.graph import Graph
from duetime.model.idempotency import keyed_request
from duetime.model.job import DEFAULT_TENANT, Job, JobState, Submitted
from duetime.model.lists import JobStatus
from duetime.model.schedule import Once
from duetime.model.tracing import traced
from duetime.model.waiting import in_words
from duetime.sdk.jobs import Look
from duetime.sdk.order import Node, Order, as_asked, check_call, make_jobs, needs_the_day
from duetime.sdk.preview import Preview, preview, preview_of
from duetime.sdk.task import Call
from duetime.settings import Settings
from duetime.spec.resolved import NOTHING_GIVEN, TIMES, Resolved, base_of, edit
from duetime.store.protocol.store import Store
from duetime.targets.validation import TargetRules
from duetime.telemetry.traces import Tracer, make_tracer


class StoreJobs:
    def __init__(self, store: Store, settings: Settings, quota: Quota) -> None:
        self.store = store
        self.settings = settings
        self._intake = Intake(store.intake)
        self._quota = quota

    async def _usual(self) -> Resolved:
        """The defaults of the tenant, at most `REMEMBERED` seconds old."""
        return base_of(await self._quota.defaults(self.store.tenants, DEFAULT_TENANT))

    async def submit(self, orders: Sequence[Order]) -> list[Submitted]:
        usual = await self._usual()
        now = await self.store.now() if needs_the_day(orders, usual) else None
        jobs = make_jobs(orders, lambda: self._rules, max_payload=self.settings.max_payload, usual=usual, now=now)
        with traced(self._tracer, jobs) as remembering:
            return await self._intake.submit(remembering)

    async def submit_within(self, connection: object, order: Order, usual: Resolved) -> Submitted:
        """Store a job in the caller's transaction. `usual` are the defaults of the tenant."""
        check_without_day(order, usual)
        jobs = make_jobs([order], lambda: self._rules, max_payload=self.settings.max_payload, usual=usual)
        with traced(self._tracer, jobs) as (remembering,):
            return Submitted(
                await self.store.caller_transactions.submit_within(connection, DEFAULT_TENANT, remembering), None
            )

    async def submit_graph(self, nodes: Mapping[str, Node], name: str | None, idempotency_key: str | None) -> Graph:
        usual = await self._usual()
        now = await self.store.now() if needs_the_day([node.order for node in nodes.values()], usual) else None
        most, wishes = self.settings.max_payload, {}
        for node_name, node in nodes.items():
            try:
                [job] = make_jobs([node.order], lambda: self._rules, max_payload=most, usual=usual, now=now)
            except InvalidInput as error:
                field = f"nodes.{node_name}.{error.field}" if error.field else f"nodes.{node_name}"
                raise InvalidInput(error.message, field=field, remedy=error.remedy) from None
            keyed = idempotency_key is not None and usual is not NOTHING_GIVEN
            wishes[node_name] = Wish(job, node.parents, node.rule, as_asked(node.order, job, now) if keyed else None)
        graph = make_graph(wishes, name=name, idempotency_key=idempotency_key)
        return await self.store.graphs.submit_graph(DEFAULT_TENANT, graph)

    async def edit(self, job_id: UUID, changes: Mapping[str, Any], call: Call[Any] | None, version: int | None) -> Job:
        found = await self.job(job_id)
        if TIMES.isdisjoint(changes):
            made = edit(found, changes)
        else:
            made = edit(found, changes, now=await self.store.now(), zone=(await self._usual()).zone)
        if call is not None:
            check_call(call, found.task)
            made = msgspec.structs.replace(made, args=call.encoded(self.settings.max_payload))
        return await self.store.control.edit_job(DEFAULT_TENANT, job_id, made, version)

    async def look(self, job_id: UUID) -> Look:
        runs = await self.runs(job_id, 1)
        if not runs:
            try:
                over = (await self.job(job_id)).state in (JobState.CANCELLED, JobState.ENDED)
            except InStream:
                return Look(None, JobStatus.IN_STREAM.value)
            # Its run may have been created since the first read.
            runs = await self.runs(job_id, 1) if over else []
            if over and not runs:
                raise never_ran(ids.show("job", job_id))
        if not runs:
            return Look(None, "not due yet")
        return Look(runs[0] if runs[0].state.is_end else None, runs[0].state.name)

    async def why(self, job_id: UUID) -> str | None:
        reasons = (await why_job(self.store, DEFAULT_TENANT, job_id)).reasons
        return in_words(reasons[0].text, reasons[0].fix) if reasons else None

    async def job(self, job_id: UUID) -> Job:
        return await self.store.reads.job(DEFAULT_TENANT, job_id)

    async def run(self, run_id: UUID) -> Run:
        return await self.store.reads.run(DEFAULT_TENANT, run_id)

    async def runs(self, job_id: UUID, limit: int) -> list[Run]:
        return await self.store.reads.runs_of_job(DEFAULT_TENANT, job_id, limit)

    async def pause(self, job_id: UUID) -> Job:
        return await self.store.control.pause_job(DEFAULT_TENANT, job_id)

    async def resume(self, job_id: UUID) -> Job:
        return await self.store.control.resume_job(DEFAULT_TENANT, job_id)

    async def cancel(self, job_id: UUID) -> Job:
        return await self.store.control.cancel_job(DEFAULT_TENANT, job_id)

    async def cancel_run(self, run_id: UUID) -> Run:
        return await self.store.control.cancel_run(DEFAULT_TENANT, run_id)

    async def trigger(self, job_id: UUID, idempotency_key: str | None) -> Run:
        request = keyed_request(idempotency_key, "trigger", job_id)
        return await self.store.control.trigger_job(DEFAULT_TENANT, job_id, os.urandom(8), request)

    async def backfill(
        self, job_id: UUID, start: datetime, end: datetime, limit: int, rate: float, idempotency_key: str | None
    ) -> int:
        fires = fires_between((await self.job(job_id)).schedule, start, end, limit)
        check_rate(rate)
        request = keyed_request(idempotency_key, "backfill", job_id, start, end, limit, rate)
        return await self.store.control.backfill_job(
            DEFAULT_TENANT, job_id, Backfill(fires, rate), os.urandom(8), request
        )

    async def retry(self, run_id: UUID, idempotency_key: str | None) -> Run:
        request = keyed_request(idempotency_key, "retry", run_id)
        return await self.store.replay.retry_run(DEFAULT_TENANT, run_id, os.urandom(8), request)

    async def preview(self, schedule: str, count: int, options: Mapping[str, Any]) -> Preview:
        given: dict[str, Any] = {"start": await self.store.now(), "calendars": await self.calendars(), **options}
        return preview(schedule, count=count, usual_zone=(await self._usual()).zone, **given)

    async def preview_job(self, job_id: UUID, count: int) -> Preview:
        schedule = (await self.job(job_id)).schedule
        zone = "UTC" if isinstance(schedule, Once) else schedule.zone
        return preview_of(schedule, zone, await self.store.now(), count)

    async def set_calendar(self, name: str, dates: Sequence[date]) -> Calendar:
        return await self.store.calendars.set_calendar(DEFAULT_TENANT, name, dates)

    async def calendar(self, name: str) -> Calendar:
        return await self.store.calendars.calendar(DEFAULT_TENANT, name)

    async def calendars(self) -> list[Calendar]:
        return await self.store.calendars.calendars(DEFAULT_TENANT)

    async def delete_calendar(self, name: str) -> None:
        await self.store.calendars.delete_calendar(DEFAULT_TENANT, name)

    async def graph(self, graph_id: UUID) -> Graph:
        return await self.store.graphs.graph(DEFAULT_TENANT, graph_id)

    async def cancel_graph(self, graph_id: UUID) -> Graph:
        return await self.store.graphs.cancel_graph(DEFAULT_TENANT, graph_id)

    async def rerun_graph(self, graph_id: UUID) -> Graph:
        return await self.store.graphs.rerun_graph(DEFAULT_TENANT, graph_id, os.urandom(8))

    @cached_property
    def _rules(self) -> TargetRules:
        return TargetRules(self.settings)

    @cached_property
    def _tracer(self) -> Tracer | None:
        return make_tracer() if self.settings.traces == "on" else None


def check_without_day(order: Order, usual: Resolved = NOTHING_GIVEN) -> None:
    """Refuse a time that depends on the current day."""
    if needs_the_day([order], usual):
        field = "run_in" if order.given.get("when") is None else "when"
        raise InvalidInput(
            f"{order.given[field]!r} depends on the current day, which is unknown inside your transaction",
            field=field,
            remedy="use run_at, or a duration in hours",
        )
