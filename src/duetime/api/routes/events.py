"""Server-sent events."""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from duetime.api.admission import Admission
from duetime.api.authentication import REMEMBERED
from duetime.api.call import Call
from duetime.api.endpoint import Routes, Stream
from duetime.api.page_cursors import EventCursors
from duetime.api.problems import Problem
from duetime.clock import monotonic
from duetime.errors import NotFound, StoreError
from duetime.ids import show
from duetime.model.access import Action
from duetime.model.event import Event, EventMark
from duetime.wire.events import HEARTBEAT

routes = Routes("Events")
MEDIA = "text/event-stream"
_encoder = msgspec.json.Encoder()


@routes.get(
    "/v1/events",
    Action.READ,
    scoped=True,
    answers_with=MEDIA,
    headers={"Last-Event-ID": "The id of the last received event. The stream continues after it."},
)
async def watch_events(call: Call) -> Stream:
    """Stream events. An event says what happened to which jobs or runs."""
    return Stream(_stream(call, Admission(call), await call.service.cursors.of_events(call.tenant_id)), MEDIA)


async def _stream(call: Call, admission: Admission, cursors: EventCursors) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n"
    after = cursors.read(call.header(b"last-event-id") or "")
    async with call.service.events.listening(call.tenant_id, after, call.who.scope) as listener:
        yield _place(cursors, listener.begin, "listening")
        stopping = asyncio.ensure_future(call.service.stopping.wait())
        following: asyncio.Future[Event] = asyncio.ensure_future(anext(listener.events))
        spoken = monotonic()
        try:
            while not stopping.done():
                await asyncio.wait((following, stopping), timeout=REMEMBERED, return_when=asyncio.FIRST_COMPLETED)
                ready = following.done()
                if not await _may_listen(admission, needed=ready):
                    return
                seen: Event | None = None
                if ready:
                    try:
                        seen = following.result()
                    except StopAsyncIteration:
                        return
                    following = asyncio.ensure_future(anext(listener.events))
                if seen is not None:
                    yield _server_sent(cursors, seen)
                elif monotonic() - spoken >= HEARTBEAT:
                    yield _place(cursors, None if following.done() else listener.place, "still here")
                else:
                    continue
                spoken = monotonic()
        finally:
            following.cancel()
            stopping.cancel()
            await asyncio.gather(following, stopping, return_exceptions=True)
            await listener.events.aclose()  # type: ignore[attr-defined]


async def _may_listen(admission: Admission, *, needed: bool) -> bool:
    """Whether the caller may still listen. While the store is unavailable, a stream ends only if it has something to
    send (`needed`)."""
    try:
        await admission.renew()
    except (Problem, NotFound):
        return False
    except StoreError:
        if needed:
            raise
    return True


def _server_sent(cursors: EventCursors, event: Event) -> bytes:
    jobs = event.kind.of_jobs
    ids = [show("job" if jobs else "run", each) for each in event.ids]
    data = _encoder.encode({"kind": event.kind.name, "at": event.at, "job_ids" if jobs else "run_ids": ids})
    return _id(cursors.write(event.mark)) + f"event: {event.kind.name.lower()}\n".encode() + b"data: " + data + b"\n\n"


def _place(cursors: EventCursors, mark: EventMark | None, said: str) -> bytes:
    """A comment with a position: nothing before it was missed."""
    return (b"" if mark is None else _id(cursors.write(mark, fresh=True))) + f": {said}\n\n".encode()


def _id(cursor: str) -> bytes:
    return f"id: {cursor}\n".encode()
