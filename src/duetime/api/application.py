"""The table of endpoints as an ASGI application. Every request takes the same steps:

    failed logins of the address (429) → authentication (401) → permission (403) → rate limits (429)
        → query and body (400, 413, 415, 422) → handler → response

The body is not read before the caller is authenticated, by a key or by the endpoint's own check (`admit`). The handler
is not called before everything is checked.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, nullcontext
from typing import NamedTuple

import msgspec
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from duetime.api.bodies import WHOLE, drop_the_rest, read_body
from duetime.api.call import Call
from duetime.api.caller import Caller
from duetime.api.decoding import read_query
from duetime.api.encoding import encode_answer
from duetime.api.endpoint import Endpoint, Reply, Stream
from duetime.api.idempotency import answered_once, keeps_answer
from duetime.api.peer import Peer
from duetime.api.problems import (
    FORBIDDEN,
    INTERNAL,
    MEDIA,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    UNAUTHENTICATED,
    Problem,
    problem_of,
)
from duetime.api.replica import DEADLINE
from duetime.api.sending import send_body, send_response
from duetime.api.service import Service
from duetime.api.usage_limits import LIMITS, LimitName, limit_of
from duetime.clock import monotonic
from duetime.errors import DuetimeError, StoreError, reason_of
from duetime.model.access import Action
from duetime.wire.fields import STALE

log = logging.getLogger("duetime.api")
_NOTHING_HELD = nullcontext()


def make_application(service: Service, endpoints: Iterable[Endpoint], pages: Iterable[Route] = ()) -> ASGIApp:
    by_path: dict[str, dict[str, Endpoint]] = defaultdict(dict)
    for endpoint in endpoints:
        by_path[endpoint.path][endpoint.method] = endpoint
    return _Application({path: _Door(service, methods) for path, methods in by_path.items()}, pages)


class _Application:
    """Finds the door of a path. A router compares a path with one pattern after the other, so paths without parameters
    are looked up, and the others have a router for each collection (`/v1/runs/…`). Starlette's application class
    (middleware, state) would cost a fifth of a request."""

    def __init__(self, doors: Mapping[str, "_Door"], pages: Iterable[Route]) -> None:
        self._fixed = {path: door for path, door in doors.items() if "{" not in path}
        # A queue's name may contain slashes and takes the rest of the path, so longer paths are tried first.
        patterns = sorted((path for path in doors if "{" in path), key=lambda path: path.endswith("{queue}"))
        of_collection: dict[str, list[Route]] = defaultdict(list)
        for path in patterns:
            of_collection[_collection(path)].append(Route(path.replace("{queue}", "{queue:path}"), doors[path]))
        self._collections = {name: _router(routes) for name, routes in of_collection.items()}
        self._pages = _router(pages)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        door = self._fixed.get(path)
        if door is not None:
            scope["path_params"] = {}
            await door(scope, receive, send)
        else:
            await self._collections.get(_collection(path), self._pages)(scope, receive, send)


def _collection(path: str) -> str:
    """The first two parts of a path."""
    return path[: (path.find("/", path.find("/", 1) + 1) + 1) or len(path)]


def _router(routes: Iterable[Route]) -> Router:
    return Router(list(routes), redirect_slashes=False, default=_nothing_here)


class _Method(NamedTuple):
    endpoint: Endpoint
    limit: LimitName | None
    """The rate limit that its requests count against."""


class _Door:
    """The requests for one path."""

    def __init__(self, service: Service, methods: dict[str, Endpoint]) -> None:
        self._service = service
        self._methods = {name: _Method(endpoint, limit_of(endpoint)) for name, endpoint in methods.items()}
        if "GET" in methods:
            self._methods["HEAD"] = self._methods["GET"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = self._methods.get(scope["method"])
        if method is None:
            allowed = ", ".join(sorted(self._methods))
            problem = Problem(METHOD_NOT_ALLOWED, remedy=f"use {allowed}", headers={"allow": allowed})
            await _refuse(scope, send, problem)
            return
        endpoint, limit = method
        service = self._service
        headers = dict(scope["headers"])  # by lower-case name; of a header that is sent twice, the last
        at_once = limit is not None and LIMITS[limit].at_once
        with ExitStack() if at_once else _NOTHING_HELD as held:
            limit_headers: dict[str, str] = {}
            try:
                peer = Peer(scope, service.front)
                who = await self._admit(endpoint, limit, scope, headers, peer)
                if limit is not None and LIMITS[limit].setting is not None:
                    if held is not None:
                        limit_headers |= held.enter_context(service.limits.opened(limit, who))
                    else:
                        limit_headers |= service.limits.spend(limit, who)
                call = Call(service, endpoint, headers, scope["path_params"], who, receive, peer)
                if endpoint.query is not None:
                    call.query = read_query(scope["query_string"], endpoint.query)
                if endpoint.admit is not None:
                    await endpoint.admit(call)
                if endpoint.body is not None:
                    is_whole = WHOLE in scope
                    call.body = await read_body(endpoint, headers, receive, service.settings, is_whole=is_whole)
                if limit == "logins":
                    answer = await self._log_in(call)
                elif keeps_answer(call):
                    answer = await answered_once(call)
                else:
                    answer = await _from_replica(call) or await endpoint.handler(call)
            except Exception as error:
                problem = _seen(endpoint, error)
                service.metrics.answered(endpoint, problem.kind.status)
                problem.headers = limit_headers | problem.headers
                await _refuse(scope, send, problem, receive)
                return
            if isinstance(answer, Stream):
                service.metrics.answered(endpoint, endpoint.status)
                await _stream(send, receive, answer, endpoint.status, limit_headers)
                return
        reply = answer if isinstance(answer, Reply) else Reply(answer)
        status = reply.status or endpoint.status
        service.metrics.answered(endpoint, status)
        content = [reply.content] if reply.content is not None else await encode_answer(reply.value)
        headers = {**limit_headers, **reply.headers}
        await _send(scope, send, status, content, reply.media, headers, cookies=reply.cookies)

    async def _admit(
        self,
        endpoint: Endpoint,
        limit: LimitName | None,
        scope: Scope,
        headers: Mapping[bytes, bytes],
        peer: Peer,
    ) -> Caller:
        """Authenticate the caller and check that it may use this endpoint."""
        service = self._service
        if endpoint.may is Action.WORK and service.settings.tls_client_ca is not None:
            _check_certificate(scope)
        failed_logins = service.failed_logins
        if limit is not None:
            failed_logins.check(peer, limit, headers)
        try:
            who = await service.gate.admit(endpoint, headers, peer)
        except Problem as problem:
            if problem.kind is UNAUTHENTICATED:
                failed_logins.failed(peer, limit, headers)
            raise
        if endpoint.may is not None:
            failed_logins.accepted(headers)
        return who

    async def _log_in(self, call: Call) -> object:
        """The answer to a login. A login that begins no session has failed."""
        failed_logins = self._service.failed_logins
        try:
            answer = await call.endpoint.handler(call)
        except Problem as problem:
            if problem.kind is UNAUTHENTICATED:
                failed_logins.failed(call.peer, "logins")
            raise
        if isinstance(answer, Reply) and not answer.cookies:
            failed_logins.failed(call.peer, "logins")
        return answer


async def _from_replica(call: Call) -> Reply | None:
    """The answer of the replica, with how stale it may be; None: the primary has to answer."""
    replica = call.service.replica
    if replica is None or not call.endpoint.replica or b"no-cache" in call.headers.get(b"cache-control", b""):
        return None
    stale, began = replica.stale(), monotonic()
    if stale is None:
        return None
    call.read_from(replica.store)
    try:
        async with asyncio.timeout(DEADLINE):
            answer = await call.endpoint.handler(call)
    except (DuetimeError, TimeoutError) as error:
        if isinstance(error, StoreError | TimeoutError):
            replica.failed()
        call.read_from(call.service.store)
        return None
    seconds = round(stale + monotonic() - began, 3)
    return Reply(msgspec.structs.replace(answer, stale_seconds=seconds), headers={STALE: f"{seconds:.3f}"})


def _check_certificate(scope: Scope) -> None:
    if scope.get("extensions", {}).get("tls", {}).get("client_cert_name") is None:
        raise Problem(
            FORBIDDEN,
            "this server accepts workers only with a client certificate",
            remedy="set client_cert and client_key (DUETIME_CLIENT_CERT) to a certificate of the CA in tls_client_ca",
        )


def _seen(endpoint: Endpoint, error: Exception) -> Problem:
    problem = problem_of(error)
    if problem is None:
        log.error("%s failed", endpoint.name, exc_info=error)
        return Problem(INTERNAL, remedy="see the server's log")
    if isinstance(error, StoreError):
        log.warning("%s: %s", endpoint.name, reason_of(error))
    return problem


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await _refuse(scope, send, Problem(NOT_FOUND, "the path does not exist", remedy="see /openapi.json"))


async def _refuse(scope: Scope, send: Send, problem: Problem, receive: Receive | None = None) -> None:
    unread = receive if problem.unread else None
    content = await encode_answer(problem.document)
    await _send(scope, send, problem.kind.status, content, MEDIA, problem.headers, unread)


async def _send(
    scope: Scope,
    send: Send,
    status: int,
    content: list[bytes],
    media: str,
    headers: Mapping[str, str],
    unread: Receive | None = None,
    cookies: tuple[str, ...] = (),
) -> None:
    """Send a response. With `unread`, read the rest of the body first, then close the connection."""
    lines = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    lines += [(b"set-cookie", each.encode("latin-1")) for each in cookies]
    lines += [
        (b"content-type", media.encode()),
        (b"content-length", b"%d" % sum(map(len, content))),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if unread is None:
        await send_response(scope, send, status, lines, content)
        return
    lines.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send_body(send, content, more=True)
    await drop_the_rest(unread)
    await send({"type": "http.response.body", "body": b""})


async def _stream(send: Send, receive: Receive, stream: Stream, status: int, limit_headers: Mapping[str, str]) -> None:
    """Send the parts of a stream until it ends or the client disconnects."""
    headers = [
        *((name.encode("latin-1"), value.encode("latin-1")) for name, value in limit_headers.items()),
        (b"content-type", stream.media.encode()),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})

    async def push() -> None:
        try:
            async for part in stream.parts:
                await send_body(send, (part,), more=True)
        except StoreError as error:
            log.warning("an event stream ends: %s", reason_of(error))  # not an error for the client: it reconnects
        await send({"type": "http.response.body", "body": b""})

    pushing = asyncio.ensure_future(push())
    gone = asyncio.ensure_future(_until_gone(receive))
    try:
        await asyncio.wait((pushing, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (pushing, gone):
            task.cancel()
        pushed, _ = await asyncio.gather(pushing, gone, return_exceptions=True)
        if isinstance(pushed, Exception):
            log.error("an event stream failed", exc_info=pushed)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
