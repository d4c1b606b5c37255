"""Requests for check-ins."""

from datetime import tzinfo

from duetime.client.request import Request, path
from duetime.model.schedule import zone_name
from duetime.wire.checkins import CheckInList, CheckInView, PingAnswer
from duetime.wire.jobs import Deleted


def list_checkins() -> Request[CheckInList]:
    """The check-ins and their states."""
    return Request("GET", "/v1/checkins", CheckInList)


def get_checkin(checkin: str) -> Request[CheckInView]:
    """A check-in."""
    return Request("GET", path("/v1/checkins/{}", checkin), CheckInView)


def put_checkin(
    checkin: str,
    *,
    every: float | None = None,
    cron: str | None = None,
    tz: str | tzinfo = "UTC",
    grace: float = 300.0,
    max_runtime: float | None = None,
    description: str | None = None,
    paused: bool = False,
) -> Request[CheckInView]:
    """Create a check-in, or replace what it expects. `ping_url` is in the answer when it was created."""
    body = {
        "every": every,
        "cron": cron,
        "tz": zone_name(tz),
        "grace": grace,
        "max_runtime": max_runtime,
        "description": description,
        "paused": paused,
    }
    return Request("PUT", path("/v1/checkins/{}", checkin), CheckInView, body=body)


def pause_checkin(checkin: str) -> Request[CheckInView]:
    """Expect nothing for now."""
    return Request("POST", path("/v1/checkins/{}/pause", checkin), CheckInView, body={})


def resume_checkin(checkin: str) -> Request[CheckInView]:
    """Expect the next ping from now on."""
    return Request("POST", path("/v1/checkins/{}/resume", checkin), CheckInView, body={})


def rotate_checkin(checkin: str) -> Request[CheckInView]:
    """Give a check-in another address: `ping_url` of the answer. The one before stops working."""
    return Request("POST", path("/v1/checkins/{}/rotate", checkin), CheckInView, body={})


def delete_checkin(checkin: str) -> Request[Deleted]:
    """Delete a check-in."""
    return Request("DELETE", path("/v1/checkins/{}", checkin), Deleted, repeatable=False)


def ping(token: str) -> Request[PingAnswer]:
    """Report a success."""
    return Request("GET", path("/v1/ping/{}", token), PingAnswer)


def ping_event(token: str, event: str) -> Request[PingAnswer]:
    """Report `start`, `success`, `fail` or an exit code."""
    return Request("GET", path("/v1/ping/{}/{}", token, event), PingAnswer)


def ping_with_note(token: str, note: str) -> Request[PingAnswer]:
    """Report a success, with a text: the end of an output, say."""
    return _with_note(path("/v1/ping/{}", token), note)


def ping_event_with_note(token: str, event: str, note: str) -> Request[PingAnswer]:
    """Report `start`, `success`, `fail` or an exit code, with a text."""
    return _with_note(path("/v1/ping/{}/{}", token, event), note)


def _with_note(where: str, note: str) -> Request[PingAnswer]:
    body = note.encode("utf-8", "replace")[-_MOST:]
    return Request("POST", where, PingAnswer, body=body, headers={"Content-Type": "text/plain"})


_MOST = 4096
"""Bytes of a text that the server accepts."""
