"""`Client`: the blocking client. One event loop on a background thread serves all calling threads."""

from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

from duetime.client.client import AsyncClient
from duetime.client.endpoints import BlockingSender, Endpoints
from duetime.client.event_stream import Change
from duetime.client.request import Length, PageOf, Request, next_page
from duetime.crypto.tls import ClientTls
from duetime.errors import Closed
from duetime.process.background_loop import BackgroundLoop
from duetime.wire.events import HEARTBEAT
from duetime.wire.runs import RunView

T = TypeVar("T")


class Client(Endpoints, BlockingSender):
    """`with duetime.Client() as client: client.create_job("greet", args={"to": "you"})`"""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        tenant: str | None = None,
        tries: int = 5,
        tls: ClientTls | None = None,
    ) -> None:
        self._client = AsyncClient(url, key, tenant=tenant, tries=tries, tls=tls)
        self._background = BackgroundLoop(
            "the client", "duetime-client", self._client.close, instead="duetime.AsyncClient"
        )

    @property
    def url(self) -> str:
        return self._client.url

    def send(self, request: Request[T]) -> T:
        """Send a request and decode its response."""
        return self._run(self._client.send(request))

    def walk(self, request: Request[PageOf[T]]) -> Iterator[T]:
        """Iterate over all pages of a list."""
        while True:
            page = self.send(request)
            yield from page.items
            if page.next_cursor is None:
                return
            request = next_page(request, page.next_cursor)

    def close(self) -> None:
        """Close the connections and end the background thread. The next call starts them again. Threads that wait for a
        response get `Closed`."""
        self._background.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, job_id: str, timeout: Length | None = None) -> RunView:
        """Wait until the newest run of a job has ended. Raises `TimeoutError`."""
        return self._run(self._client.wait(job_id, timeout))

    def watch_events(self, last_event_id: str | None = None, *, timeout: float = 3 * HEARTBEAT) -> Iterator[Change]:
        """Stream events. When the connection breaks, or is silent for `timeout` seconds, the stream reconnects and
        continues after the last event."""
        events = self._client.watch_events(last_event_id, timeout=timeout)
        while True:
            yield self._run(_next(events))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._background.run(work)


async def _next(events: AsyncIterator[Change]) -> Change:
    try:
        return await anext(events)
    except StopAsyncIteration:  # the stream ends only here
        raise Closed("the client was closed while it streamed events", remedy="watch anew") from None
