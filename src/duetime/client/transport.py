"""Requests to a duetime server: connections, authentication, timeouts and retries.

A request is retried when the server could not be reached or asks for it, and when a repetition cannot have a second
effect: GET, PUT, DELETE, or POST with an idempotency key or a nonce. A request that was refused because another request
holds its key, because of a rate limit, or because a stream is full, had no effect, so it is always retried. The delay
grows with each try, and follows `Retry-After`; where that is too long, the caller gets the error.
"""

import asyncio
import random
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import NamedTuple, TypeVar, cast
from urllib.parse import quote, urlsplit
from uuid import UUID

import aiohttp
import msgspec

from duetime.client.login.renewing import LoginToken
from duetime.client.server_errors import error_of, is_transient, retry_after
from duetime.clock import SystemClock
from duetime.crypto.tls import ClientTls
from duetime.errors import (
    AccessDenied,
    DuetimeError,
    InvalidInput,
    KeyInFlight,
    RateLimited,
    ServerUnavailable,
    StreamFull,
    reason_of,
)
from duetime.model.nonce import HEADER, moved
from duetime.process.forks import reset_in_children
from duetime.settings.kinds import without_password
from duetime.telemetry.traces import current_headers
from duetime.worker.import_guard import refuse_at_import

T = TypeVar("T")

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_LONGEST_WAIT = 60.0
"""Seconds that a server may ask to wait; beyond that, the caller gets the error."""
_CONNECT = 10.0
_LONGEST_LINE = 8 * 1024**2
"""Bytes: one event can name all jobs of a large batch. aiohttp accepts lines of twice its buffer."""
_GET_KEY = (
    "set DUETIME_KEY; `duetime root-key` creates a key if you have the database, and `duetime login` uses your own"
    " account instead"
)
_encoder = msgspec.json.Encoder(enc_hook=str)


class Response(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    def __init__(
        self,
        url: str,
        key: str | LoginToken | None,
        *,
        tenant: str | None = None,
        tries: int = 5,
        tls: ClientTls | None = None,
    ) -> None:
        self.url = _checked(url)
        self._key = key
        self._tenant = tenant
        self._tries = tries
        self._tls = tls
        self._context = None if tls is None else tls.context()
        self._session: aiohttp.ClientSession | None = None
        self._closing: AsyncGenerator[None, None] | None = None
        """Closing it closes the session."""
        self._ahead = 0.0
        """Seconds that the server's clock is ahead of this machine's, if they differ by minutes."""
        reset_in_children(self)

    def begin_anew(self) -> object:
        before = self._session, self._closing
        self._session = self._closing = None
        return before

    async def open(self) -> None:
        refuse_at_import("calls a server")
        if self._session is None or self._session.closed:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30)
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT)
            self._session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, headers=self._headers(), skip_auto_headers=["Content-Type"]
            )
            self._closing = _closed_with_loop(self._session)
            await anext(self._closing)

    async def close(self) -> None:
        closing, self._session, self._closing = self._closing, None, None
        if closing is not None:
            await closing.aclose()

    def companion(self) -> "Transport":
        return Transport(self.url, self._key, tenant=self._tenant, tries=self._tries, tls=self._tls)

    async def call(
        self,
        method: str,
        path: str,
        body: msgspec.Struct | None,
        answer: type[T],
        *,
        headers: Mapping[str, str] = {},
        timeout: float = 30.0,
    ) -> T:
        """Send once, for callers with their own retries."""
        content = None if body is None else _encoder.encode(body)
        response = await self.once(method, path, content, headers, timeout)
        return decode(response.body, answer)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool,
        timeout: float = 30.0,
    ) -> Response:
        """Send with retries, where they are safe."""
        content = body if isinstance(body, bytes) or body is None else _encoder.encode(body)
        target = path + _query(query)
        for attempt in range(1, self._tries + 1):
            try:
                return await self._numbered(method, target, content, headers or {}, timeout, first=attempt == 1)
            except (ServerUnavailable, KeyInFlight, StreamFull) as error:
                bound = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**attempt)
                wished = getattr(error, "retry_after", None)
                pause: float = random.uniform(bound / 2, bound) if wished is None else wished
                nothing_done = isinstance(error, KeyInFlight | RateLimited | StreamFull)
                if attempt == self._tries or not (repeatable or nothing_done) or pause > _LONGEST_WAIT:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def _numbered(
        self,
        method: str,
        target: str,
        content: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
        *,
        first: bool,
    ) -> Response:
        """Send once, with a nonce by the server's clock: the clock of this machine may be wrong."""
        nonce = headers.get(HEADER)
        if nonce is None:
            return await self.once(method, target, content, headers, timeout)
        try:
            return await self.once(method, target, content, _at(headers, nonce, self._ahead), timeout)
        except InvalidInput as error:
            # A nonce that was sent before may have been accepted: another one would create another job.
            ahead: float | None = getattr(error, "server_ahead", None)
            if error.field != HEADER or not first or ahead is None:
                raise
            self._ahead = ahead
        return await self.once(method, target, content, _at(headers, nonce, self._ahead), timeout)

    async def once(
        self, method: str, target: str, content: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> Response:
        await self.open()
        assert self._session is not None
        sent = {**current_headers(), **await self._login(), **headers}
        if content is not None:
            sent.setdefault("Content-Type", "application/json")
        try:
            async with asyncio.timeout(timeout):
                async with self._session.request(
                    method, self.url + target, data=content, headers=sent, ssl=self._ssl
                ) as answer:
                    body = await answer.read()
        except TimeoutError:
            shown = without_password(self.url)
            raise ServerUnavailable(f"{shown} did not answer within {timeout:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(self.url, error) from error
        if answer.status >= 400:
            raise self._refused(answer.status, body, answer.headers)
        return Response(answer.status, answer.headers, body)

    async def stream(self, path: str, headers: Mapping[str, str], timeout: float) -> AsyncIterator[bytes]:
        """The lines of a streamed response. Raises `ServerUnavailable` when it breaks, or is silent for `timeout`
        seconds: the server may be gone."""
        await self.open()
        assert self._session is not None
        silence = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=timeout)
        try:
            sent = {**await self._login(), **headers}
            async with self._session.get(
                self.url + path, headers=sent, timeout=silence, read_bufsize=_LONGEST_LINE // 2, ssl=self._ssl
            ) as answer:
                if answer.status >= 400:
                    raise self._refused(answer.status, await answer.read(), answer.headers)
                async for line in answer.content:
                    yield line
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unreachable(self.url, error) from error

    def _refused(self, status: int, body: bytes, headers: Mapping[str, str]) -> DuetimeError:
        """The error of a response. What the server says about the header is said about the key, which callers give."""
        failed = _failed(status, body, headers)
        if status == 401 and self._key is None:
            return AccessDenied(f"{without_password(self.url)} needs a key", field="key", remedy=_GET_KEY)
        if failed.field == "Authorization":
            failed.field = "key"
        return failed

    @property
    def _ssl(self) -> ssl.SSLContext | bool:
        """The TLS argument of aiohttp; True: the system's CAs, and no client certificate."""
        return True if self._context is None else self._context.current

    async def _login(self) -> dict[str, str]:
        """The header of a login, whose token changes."""
        if isinstance(self._key, LoginToken):
            return {"Authorization": f"Bearer {await self._key.text()}"}
        return {}

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if isinstance(self._key, str):
            headers["Authorization"] = f"Bearer {self._key}"
        if self._tenant is not None:
            headers["Duetime-Tenant"] = self._tenant
        return headers


async def _closed_with_loop(session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
    """For programs that never close their client: an event loop closes its async generators when it ends, and when they
    are garbage."""
    try:
        yield
    finally:
        await session.close()


def decode(body: bytes, to: type[T]) -> T:
    if to is bytes:
        return cast(T, body)
    try:
        return msgspec.json.decode(body, type=to)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ServerUnavailable(
            f"the response cannot be decoded: {error}",
            remedy="check that the address is a duetime server of the same release",
        ) from None


def _failed(status: int, body: bytes, headers: Mapping[str, str]) -> DuetimeError:
    failed = error_of(status, body)
    if is_transient(status) or isinstance(failed, KeyInFlight):
        failed.retry_after = retry_after(headers)  # type: ignore[attr-defined]
    if failed.field == HEADER:
        failed.server_ahead = _server_ahead(headers)  # type: ignore[attr-defined]
    return failed


def _server_ahead(headers: Mapping[str, str]) -> float | None:
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp() - SystemClock().now().timestamp()
    except (KeyError, ValueError):
        return None


def _at(headers: Mapping[str, str], nonce: str, ahead: float) -> Mapping[str, str]:
    return {**headers, HEADER: str(moved(UUID(nonce), ahead))} if ahead else headers


def _unreachable(url: str, error: BaseException) -> ServerUnavailable:
    reason = reason_of(error)
    remedy = "is `duetime up` or `duetime server` running?"
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        remedy = "give the authority of its certificate: --server-ca, DUETIME_SERVER_CA or ClientTls(ca=…)"
    return ServerUnavailable(f"{without_password(url)} cannot be reached: {reason}", remedy=remedy)


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidInput(
            f"{without_password(url)!r} is not the address of a server",
            field="url",
            remedy="such as http://127.0.0.1:8420",
        )
    return url.rstrip("/")


def _query(query: Mapping[str, object] | None) -> str:
    """The query string of the given parameters."""
    given = {name: value for name, value in (query or {}).items() if value is not None}
    pairs = [f"{quote(name)}={quote(_text(value), safe='')}" for name, value in given.items()]
    return f"?{'&'.join(pairs)}" if pairs else ""


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return f"{value.total_seconds():f}"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
