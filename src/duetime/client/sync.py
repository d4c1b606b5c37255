"""`Client`: the same for code that is not async. One event loop on one background thread serves all callers."""

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

from duetime.client import admin_asks, job_asks, run_asks
from duetime.client.ask import Ask, PageOf
from duetime.client.client import AsyncClient
from duetime.client.watching import Change
from duetime.wire.runs import RunView

P = ParamSpec("P")
T = TypeVar("T")


def _sent(build: Callable[P, Ask[T]]) -> Callable[Concatenate["Client", P], T]:
    def send(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(build(*args, **kwargs))

    functools.update_wrapper(send, build)
    return send


def _paged(build: Callable[P, Ask[PageOf[T]]]) -> Callable[Concatenate["Client", P], Iterator[T]]:
    def walk(self: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        ask = build(*args, **kwargs)
        while True:
            page = self.send(ask)
            yield from page.items
            if page.next_cursor is None:
                return
            ask = ask._replace(query={**ask.query, "cursor": page.next_cursor})

    functools.update_wrapper(walk, build)
    return walk


class Client:
    """`with duetime.Client() as client: client.create_job("greet", args={"to": "you"})`"""

    def __init__(
        self, url: str | None = None, key: str | None = None, *, tenant: str | None = None, tries: int = 5
    ) -> None:
        self._client = AsyncClient(url, key, tenant=tenant, tries=tries)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return self._client.url

    def send(self, ask: Ask[T]) -> T:
        """Send a request, and read its answer."""
        return self._run(self._client.send(ask))

    def close(self) -> None:
        """Close the connections and end the background thread; the next call starts them again."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            asyncio.run_coroutine_threadsafe(self._client.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

    def wait(self, job_id: str, timeout: str | float | None = None) -> RunView:
        """Wait until the newest run of a job has ended; raises `TimeoutError` when that takes too long."""
        return self._run(self._client.wait(job_id, timeout))

    def watch_events(self, last_event_id: str | None = None) -> Iterator[Change]:
        """What changes, as it changes."""
        events = self._client.watch_events(last_event_id)
        while True:
            yield self._run(_next(events))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._running_loop()).result()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(loop,), name="duetime-client", daemon=True)
                self._thread.start()
            return self._loop


async def _next(events: Any) -> Change:
    change: Change = await anext(events)
    return change


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
