"""Server-sent events: what changes, for those who watch."""

import asyncio
import re
from collections.abc import AsyncIterator

import msgspec

from duetime.api.endpoint import Call, Routes, Stream
from duetime.ids import show
from duetime.model.access import Action
from duetime.model.event import Event, EventMark

routes = Routes("Events")
MEDIA = "text/event-stream"
_HEARTBEAT = 15.0
_MARK = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")
_encoder = msgspec.json.Encoder()


@routes.get(
    "/v1/events",
    Action.READ,
    answers_with=MEDIA,
    headers={"Last-Event-ID": "The id of the last event that was seen: those after it come first."},
)
async def watch_events(call: Call) -> Stream:
    """Watch what changes: one event says what happened to which jobs or runs."""
    given = _MARK.fullmatch(call.header(b"last-event-id") or "")
    after = None if given is None else EventMark(int(given[1]), int(given[2]))
    return Stream(_stream(call, after), MEDIA)


async def _stream(call: Call, after: EventMark | None) -> AsyncIterator[bytes]:
    yield b"retry: 1000\n: listening\n\n"
    events = call.service.events.listen(call.tenant_id, after)
    stopping = asyncio.ensure_future(call.service.stopping.wait())
    following: asyncio.Future[Event] = asyncio.ensure_future(anext(events))
    try:
        while not stopping.done():
            await asyncio.wait((following, stopping), timeout=_HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                yield b": still here\n\n"
                continue
            try:
                event = following.result()
            except StopAsyncIteration:
                return
            yield _told(event)
            following = asyncio.ensure_future(anext(events))
    finally:
        following.cancel()
        stopping.cancel()
        await asyncio.gather(following, stopping, return_exceptions=True)
        await events.aclose()  # type: ignore[attr-defined]


def _told(event: Event) -> bytes:
    jobs = event.kind.of_jobs
    ids = [show("job" if jobs else "run", each) for each in event.ids]
    data = _encoder.encode({"kind": event.kind.name, "at": event.at, "job_ids" if jobs else "run_ids": ids})
    mark = f"{event.mark.transaction}-{event.mark.number}"
    return f"id: {mark}\nevent: {event.kind.name.lower()}\n".encode() + b"data: " + data + b"\n\n"
