"""Check-ins: jobs that run elsewhere and report here. A ping authenticates with its token only."""

import secrets
from hashlib import sha256

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.errors import NotFound
from duetime.model.access import Action
from duetime.model.checkin import NOTE, CheckIn, StoredCheckIn, make_checkin, read_ping
from duetime.model.structs import struct_like
from duetime.wire.checkins import CheckInList, CheckInRequest, CheckInStatus, CheckInView, PingAnswer
from duetime.wire.jobs import Deleted

routes = Routes("Check-ins")
PATH = "/v1/ping/"
_TOKEN_BYTES = 24


@routes.get("/v1/checkins", Action.READ, answer=CheckInList)
async def list_checkins(call: Call) -> CheckInList:
    """List the check-ins and their states."""
    return CheckInList(tuple(_view(each) for each in await call.service.store.checkins.checkins(call.tenant_id)))


@routes.get("/v1/checkins/{checkin}", Action.READ, answer=CheckInView)
async def get_checkin(call: Call) -> CheckInView:
    """Read a check-in."""
    return _view(await call.service.store.checkins.checkin(call.tenant_id, call.path["checkin"]))


@routes.put("/v1/checkins/{checkin}", Action.CONTROL, body=CheckInRequest, answer=CheckInView)
async def put_checkin(call: Call) -> CheckInView:
    """Create a check-in, or replace what it expects. The address for its pings is shown when it is created."""
    request: CheckInRequest = call.body
    check = make_checkin(struct_like(CheckIn, request, name=call.path["checkin"]))
    token = _new_token()
    checkins = call.service.store.checkins
    created = await checkins.put_checkin(call.tenant_id, check, _hash(token), paused=request.paused)
    await call.act("checkins.set", check.name)
    return _view(await checkins.checkin(call.tenant_id, check.name), _url(call, token) if created else None)


@routes.delete("/v1/checkins/{checkin}", Action.CONTROL, answer=Deleted)
async def delete_checkin(call: Call) -> Deleted:
    """Delete a check-in. Its address stops working."""
    name = call.path["checkin"]
    await call.service.store.checkins.delete_checkin(call.tenant_id, name)
    await call.act("checkins.delete", name)
    return Deleted()


@routes.action("/v1/checkins/{checkin}/pause", Action.CONTROL, answer=CheckInView)
async def pause_checkin(call: Call) -> CheckInView:
    """Pause a check-in: pings are recorded, and nothing is expected."""
    return await _paused(call, paused=True)


@routes.action("/v1/checkins/{checkin}/resume", Action.CONTROL, answer=CheckInView)
async def resume_checkin(call: Call) -> CheckInView:
    """Resume a check-in: its next ping is expected from now on."""
    return await _paused(call, paused=False)


@routes.action("/v1/checkins/{checkin}/rotate", Action.CONTROL, answer=CheckInView)
async def rotate_checkin(call: Call) -> CheckInView:
    """Give a check-in another address, which is shown once. The one before stops working."""
    name, token = call.path["checkin"], _new_token()
    stored = await call.service.store.checkins.rotate_checkin(call.tenant_id, name, _hash(token))
    await call.act("checkins.rotate", name)
    return _view(stored, _url(call, token))


async def _by_token(call: Call) -> None:
    """Check the token before the body is read: it is the caller's only credential."""
    service, token_hash = call.service, _hash(call.path["token"])
    if not service.ping_limits.knows(token_hash):
        service.failed_logins.check(call.peer, None, {})
        if not await service.store.checkins.has_checkin(token_hash):
            service.failed_logins.failed(call.peer, None)
            raise _unknown()
    service.ping_limits.spend(token_hash)
    call.admitted = token_hash


@routes.get("/v1/ping/{token}", None, admit=_by_token, answer=PingAnswer, problems=(404, 429))
async def ping(call: Call) -> PingAnswer:
    """Report a success by the address of a check-in."""
    return await _ping(call, "success")


@routes.get("/v1/ping/{token}/{event}", None, admit=_by_token, answer=PingAnswer, problems=(404, 422, 429))
async def ping_event(call: Call) -> PingAnswer:
    """Report `start`, `success`, `fail` or an exit code by the address of a check-in."""
    return await _ping(call, call.path["event"])


@routes.post(
    "/v1/ping/{token}",
    None,
    admit=_by_token,
    body=bytes,
    reads="bytes",
    media=("*/*",),
    body_limit="tiny",
    body_optional=True,
    answer=PingAnswer,
    problems=(404, 429),
    repeats="by nature",
)
async def ping_with_note(call: Call) -> PingAnswer:
    """Report a success, with a text of up to 4 KiB, of which the end is kept."""
    return await _ping(call, "success")


@routes.post(
    "/v1/ping/{token}/{event}",
    None,
    admit=_by_token,
    body=bytes,
    reads="bytes",
    media=("*/*",),
    body_limit="tiny",
    body_optional=True,
    answer=PingAnswer,
    problems=(404, 422, 429),
    repeats="by nature",
)
async def ping_event_with_note(call: Call) -> PingAnswer:
    """Report `start`, `success`, `fail` or an exit code, with a text of up to 4 KiB, of which the end is kept."""
    return await _ping(call, call.path["event"])


async def _ping(call: Call, event: str) -> PingAnswer:
    kind, exit_code = read_ping(event)
    note = _note(call.body) if call.body else None
    if not await call.service.store.checkins.ping(call.admitted, kind, exit_code, note):
        raise _unknown()
    return PingAnswer()


def _note(body: bytes) -> str | None:
    return body.decode("utf-8", "replace").replace("\0", "\ufffd").strip()[-NOTE:] or None


async def _paused(call: Call, *, paused: bool) -> CheckInView:
    name = call.path["checkin"]
    stored = await call.service.store.checkins.pause_checkin(call.tenant_id, name, paused=paused)
    await call.act("checkins.pause" if paused else "checkins.resume", name)
    return _view(stored)


def _new_token() -> str:
    return secrets.token_urlsafe(_TOKEN_BYTES)


def _hash(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


def _url(call: Call, token: str) -> str:
    return f"{(call.service.settings.public_url or '').rstrip('/')}{PATH}{token}"


def _unknown() -> NotFound:
    return NotFound("no check-in has this address", remedy="rotate the check-in for a new one")


def _view(stored: StoredCheckIn, ping_url: str | None = None) -> CheckInView:
    return CheckInView(
        **{name: getattr(stored.check, name) for name in stored.check.__struct_fields__},
        status=_status(stored),
        paused=stored.paused,
        open=stored.open,
        text=None if stored.message is None else stored.message.text,
        expected_at=stored.expected_at,
        last_ping=stored.ping,
        last_ping_at=stored.pinged_at,
        last_success_at=stored.succeeded_at,
        exit_code=stored.exit_code,
        note=stored.note,
        pings=stored.pings,
        changed_at=stored.changed_at,
        created_at=stored.created_at,
        ping_url=ping_url,
    )


def _status(stored: StoredCheckIn) -> CheckInStatus:
    if stored.paused:
        return "paused"
    if stored.open and stored.reason is not None:
        return stored.reason
    if stored.started_at is not None:
        return "running"
    return "new" if stored.pinged_at is None else "up"
