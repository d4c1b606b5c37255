"""`AsyncClient`: every endpoint of the API as a typed method.

    async with duetime.AsyncClient("https://jobs.example.com", "dt_live_…") as client:
        receipt = await client.create_job("send_report", args={"to": "ops@example.com"}, cron="0 9 * * 1-5")
        async for job in client.jobs(task="send_report"):
            print(job.job_id, job.status)

Requests are retried when the server is unavailable or asks for it, where that is safe. Errors are duetime's own.
Without an address or a key, the client uses the settings (`DUETIME_URL`, `DUETIME_KEY`). If these have no address, it
finds the `duetime up` of this folder. Without any key, it uses this user's login at the server (`duetime login`).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from duetime.client.endpoints import AsyncSender, Endpoints
from duetime.client.event_stream import Change, changes
from duetime.client.request import Length, PageOf, Request, next_page
from duetime.client.server_address import with_settings
from duetime.client.transport import Transport, decode
from duetime.clock import monotonic
from duetime.crypto.tls import ClientTls
from duetime.errors import ServerUnavailable, never_ran
from duetime.model.lists import JobStatus
from duetime.spec.kinds import read_duration
from duetime.wire.events import HEARTBEAT
from duetime.wire.runs import RunView

T = TypeVar("T")

_ENDS = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"})
_OVER = frozenset({JobStatus.CANCELLED, JobStatus.ENDED})
_FIRST_LOOK = 0.02
_LONGEST_LOOK = 1.0


class AsyncClient(Endpoints, AsyncSender):
    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        tenant: str | None = None,
        tries: int = 5,
        tls: ClientTls | None = None,
    ) -> None:
        """`tenant` is for a root key, which otherwise acts in the tenant `default`. `tries`: how often a request is
        sent at most, if it is safe to repeat. `tls`: a CA other than the system's, and a client certificate."""
        url, credential, tls = with_settings(url, key, tls)
        self._transport = Transport(url, credential, tenant=tenant, tries=tries, tls=tls)

    @property
    def url(self) -> str:
        return self._transport.url

    async def send(self, request: Request[T]) -> T:
        """Send a request and decode its response."""
        response = await self._transport.request(
            request.method,
            request.path,
            query=request.query,
            body=request.body,
            headers=request.headers,
            repeatable=request.repeatable,
            timeout=request.timeout,
        )
        return decode(response.body, request.answer)

    async def walk(self, request: Request[PageOf[T]]) -> AsyncIterator[T]:
        """Iterate over all pages of a list."""
        while True:
            page = await self.send(request)
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            request = next_page(request, page.next_cursor)

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def wait(self, job_id: str, timeout: Length | None = None) -> RunView:
        """Wait until the newest run of a job has ended. Raises `TimeoutError`, and `Conflict` if the job has ended
        without a run."""
        seconds = None if timeout is None else read_duration(timeout, "timeout").total_seconds()
        deadline = None if seconds is None else monotonic() + seconds
        pause = _FIRST_LOOK
        while True:
            newest = (await self.list_runs_of_job(job_id, page_size=1)).items
            if newest and newest[0].status in _ENDS:
                return await self.get_run(newest[0].run_id)
            if not newest:
                over = (await self.get_job_status(job_id)).status in _OVER
                if over and not (await self.list_runs_of_job(job_id, page_size=1)).items:
                    raise never_ran(job_id)
            if deadline is not None and monotonic() + pause > deadline:
                why = (await self.explain_job(job_id)).in_words
                why = why or (f"it is {newest[0].status}" if newest else "it is not due yet")
                raise TimeoutError(f"{job_id} has not ended within {seconds:g} s: {why}")
            await asyncio.sleep(pause)
            pause = min(_LONGEST_LOOK, pause * 1.5)

    async def watch_events(
        self, last_event_id: str | None = None, *, timeout: float = 3 * HEARTBEAT
    ) -> AsyncIterator[Change]:
        """Stream events. When the connection breaks, or is silent for `timeout` seconds, the stream reconnects and
        continues after the last event."""
        last = last_event_id
        pause = _FIRST_LOOK
        while True:
            try:
                headers = {} if last is None else {"Last-Event-ID": last}
                async for message in changes(self._transport.stream("/v1/events", headers, timeout)):
                    last, pause = message.id or last, _FIRST_LOOK
                    if isinstance(message, Change):
                        yield message
            except ServerUnavailable:
                if pause > 30:
                    raise
            await asyncio.sleep(min(pause, 30.0))
            pause *= 2
