"""`AsyncClient`: every endpoint of the API as a typed method.

    async with duetime.AsyncClient("https://jobs.example.com", "dt_live_…") as client:
        receipt = await client.create_job("send_report", args={"to": "ops@example.com"}, cron="0 9 * * 1-5")
        async for job in client.jobs(task="send_report"):
            print(job.job_id, job.status)

Requests are tried again when the server is away or asks for it, wherever that is safe. Errors are duetime's own.
Without an address the client finds the `duetime up` of this folder.
"""

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Concatenate, ParamSpec, TypeVar

from duetime.client import admin_asks, job_asks, run_asks
from duetime.client.ask import Ask, PageOf
from duetime.client.finding import find_server
from duetime.client.transport import Transport, decode
from duetime.client.watching import Change, changes
from duetime.clock import monotonic
from duetime.duration import parse_duration
from duetime.errors import ServerUnavailable
from duetime.settings import load
from duetime.wire.runs import RunView

P = ParamSpec("P")
T = TypeVar("T")

_ENDS = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"})
_FIRST_LOOK = 0.02
_LONGEST_LOOK = 1.0


def _sent(build: Callable[P, Ask[T]]) -> Callable[Concatenate["AsyncClient", P], Awaitable[T]]:
    """A method that sends what `build` makes."""

    async def send(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.send(build(*args, **kwargs))

    functools.update_wrapper(send, build)
    return send


def _paged(build: Callable[P, Ask[PageOf[T]]]) -> Callable[Concatenate["AsyncClient", P], AsyncIterator[T]]:
    """A method that goes through all pages."""

    async def walk(self: "AsyncClient", /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        ask = build(*args, **kwargs)
        while True:
            page = await self.send(ask)
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            ask = ask._replace(query={**ask.query, "cursor": page.next_cursor})

    functools.update_wrapper(walk, build)
    return walk


class AsyncClient:
    def __init__(
        self, url: str | None = None, key: str | None = None, *, tenant: str | None = None, tries: int = 5
    ) -> None:
        """`tenant` is for a root key, which acts in the tenant `default` otherwise. `tries`: how often a request is
        sent, at most, when it can be repeated safely."""
        if url is None:
            found, kept = find_server(load(None, os.environ, {}))
            url, key = found, key or kept
        self._transport = Transport(url, key, tenant=tenant, tries=tries)

    @property
    def url(self) -> str:
        return self._transport.url

    async def send(self, ask: Ask[T]) -> T:
        """Send a request, and read its answer."""
        response = await self._transport.request(
            ask.method,
            ask.path,
            query=ask.query,
            body=ask.body,
            headers=ask.headers,
            repeatable=ask.repeatable,
            patience=ask.patience,
        )
        return decode(response.body, ask.answer)

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    create_job = _sent(job_asks.create_job)
    create_jobs = _sent(job_asks.create_jobs)
    list_jobs = _sent(job_asks.list_jobs)
    jobs = _paged(job_asks.list_jobs)
    get_job = _sent(job_asks.get_job)
    change_job = _sent(job_asks.change_job)
    delete_job = _sent(job_asks.delete_job)
    cancel_job = _sent(job_asks.cancel_job)
    pause_job = _sent(job_asks.pause_job)
    resume_job = _sent(job_asks.resume_job)
    trigger_job = _sent(job_asks.trigger_job)
    backfill_job = _sent(job_asks.backfill_job)
    get_job_status = _sent(job_asks.get_job_status)
    list_runs = _sent(run_asks.list_runs)
    runs = _paged(run_asks.list_runs)
    list_runs_of_job = _sent(run_asks.list_runs_of_job)
    runs_of_job = _paged(run_asks.list_runs_of_job)
    get_run = _sent(run_asks.get_run)
    cancel_run = _sent(run_asks.cancel_run)
    retry_run = _sent(run_asks.retry_run)
    list_dead_letters = _sent(run_asks.list_dead_letters)
    dead_letters = _paged(run_asks.list_dead_letters)
    replay_dead_letters = _sent(run_asks.replay_dead_letters)
    discard_dead_letters = _sent(run_asks.discard_dead_letters)
    preview_schedule = _sent(run_asks.preview_schedule)
    list_calendars = _sent(run_asks.list_calendars)
    get_calendar = _sent(run_asks.get_calendar)
    put_calendar = _sent(run_asks.put_calendar)
    delete_calendar = _sent(run_asks.delete_calendar)
    list_queues = _sent(run_asks.list_queues)
    get_queue = _sent(run_asks.get_queue)
    put_queue = _sent(run_asks.put_queue)
    pause_queue = _sent(run_asks.pause_queue)
    resume_queue = _sent(run_asks.resume_queue)
    list_workers = _sent(run_asks.list_workers)
    list_tasks = _sent(run_asks.list_tasks)
    create_payload = _sent(run_asks.create_payload)
    get_payload = _sent(run_asks.get_payload)
    erase_payload = _sent(run_asks.erase_payload)
    list_tenants = _sent(admin_asks.list_tenants)
    tenants = _paged(admin_asks.list_tenants)
    create_tenant = _sent(admin_asks.create_tenant)
    get_tenant = _sent(admin_asks.get_tenant)
    change_tenant = _sent(admin_asks.change_tenant)
    list_keys = _sent(admin_asks.list_keys)
    keys = _paged(admin_asks.list_keys)
    create_key = _sent(admin_asks.create_key)
    rotate_key = _sent(admin_asks.rotate_key)
    revoke_key = _sent(admin_asks.revoke_key)
    list_audit = _sent(admin_asks.list_audit)
    audit = _paged(admin_asks.list_audit)
    register_worker = _sent(admin_asks.register_worker)
    claim_runs = _sent(admin_asks.claim_runs)
    heartbeat = _sent(admin_asks.heartbeat)
    complete_runs = _sent(admin_asks.complete_runs)
    note_progress = _sent(admin_asks.note_progress)
    hand_back_runs = _sent(admin_asks.hand_back_runs)
    delete_worker = _sent(admin_asks.delete_worker)
    get_held_payload = _sent(admin_asks.get_held_payload)
    livez = _sent(admin_asks.livez)
    readyz = _sent(admin_asks.readyz)
    metrics = _sent(admin_asks.metrics)
    openapi = _sent(admin_asks.openapi)

    async def wait(self, job_id: str, timeout: str | float | None = None) -> RunView:
        """Wait until the newest run of a job has ended; raises `TimeoutError` when that takes too long."""
        seconds = None if timeout is None else parse_duration(timeout).total_seconds()
        deadline = None if seconds is None else monotonic() + seconds
        pause = _FIRST_LOOK
        while True:
            report = await self.get_job_status(job_id)
            if report.last_run is not None and report.last_run.status in _ENDS:
                return await self.get_run(report.last_run.run_id)
            if deadline is not None and monotonic() + pause > deadline:
                raise TimeoutError(f"{job_id} has not ended within {seconds:g} s: it is {report.status.value}")
            await asyncio.sleep(pause)
            pause = min(_LONGEST_LOOK, pause * 1.5)

    async def watch_events(self, last_event_id: str | None = None) -> AsyncIterator[Change]:
        """What changes, as it changes. When the connection breaks it goes on after the last event that was seen."""
        last = last_event_id
        pause = _FIRST_LOOK
        while True:
            try:
                headers = {} if last is None else {"Last-Event-ID": last}
                async for change in changes(self._transport.stream("/v1/events", headers)):
                    last, pause = change.id, _FIRST_LOOK
                    yield change
            except ServerUnavailable:
                if pause > 30:
                    raise
            await asyncio.sleep(pause)
            pause *= 2
