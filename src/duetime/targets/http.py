"""HTTP targets: one signed request, and the meaning of its answer.

The whole exchange has one deadline, and memory holds no more of the answer than is kept: a slow or endless answer only
occupies a connection until the deadline. Redirects are answers and are not followed. The environment is ignored: no
proxy, no cookies, no `.netrc`.

    2xx  succeeded                    410  failed without retry, and the job is paused
    202  handed over, if allowed      408, 425, 429, 5xx and no answer  retried, after `Retry-After` if given
    3xx, 4xx  failed without retry
"""

import asyncio
import logging
import socket
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from duetime.duration import parse_duration
from duetime.errors import InvalidInput, NoCredentials
from duetime.model.failure import Failure, FailureClass, bounded
from duetime.model.outcome import Failed, HandedOver, Outcome, Succeeded
from duetime.model.target import AwsSignature, HttpTarget
from duetime.targets import signatures
from duetime.targets.address_guard import (
    AddressGuard,
    Lookup,
    refused_address,
    system_lookup,
    without_addresses,
)
from duetime.targets.authorization import Authorization, Authorized
from duetime.targets.aws import aws_failure
from duetime.targets.completion_link import Completable, CompletionLinks
from duetime.targets.not_sent import NOT_SENT, not_sent
from duetime.targets.redaction import Redactor
from duetime.targets.target_attempt import TargetAttempt
from duetime.targets.url import Place, check_url, same_host
from duetime.targets.values import encoded_body, filled
from duetime.targets.vault import Vault

USER_AGENT = "duetime"
log = logging.getLogger("duetime.targets")

_TRY_AGAIN = frozenset({408, 425, 429})
_LONGEST_WAIT = 86_400.0
"""Seconds: a `Retry-After` beyond a day counts as a day."""
_ERROR_TEXT = 500
_HEADER_TEXT = 200
_CHUNK = 16 * 1024
_MOST_URLS = 1000


class HttpCaller:
    def __init__(
        self,
        guard: AddressGuard,
        vault: Vault,
        links: CompletionLinks,
        authorization: Authorization,
        *,
        max_response: int,
        max_result: int,
        lookup: Lookup = system_lookup,
    ) -> None:
        self._guard = guard
        self._vault = vault
        self._links = links
        self._authorization = authorization
        self._max_response = max_response
        self._max_result = max_result
        self._lookup = lookup
        self._urls: dict[str, tuple[URL, Place]] = {}
        self._session: aiohttp.ClientSession | None = None

    async def call(self, target: HttpTarget, attempt: TargetAttempt) -> Outcome:
        try:
            async with asyncio.timeout(attempt.limit):
                return await self._call(target, attempt)
        except TimeoutError:
            text = f"no complete answer within {attempt.limit:g} s"
            return Failed(Failure(FailureClass.TIMEOUT, text))
        except NOT_SENT as error:
            return not_sent(error, "not called")
        except InvalidInput as error:
            return Failed(Failure(FailureClass.TARGET_REFUSED, f"not called: {error}"))
        except NoCredentials as error:
            kind = FailureClass.TARGET_FAILED if error.may_retry else FailureClass.TARGET_REFUSED
            return Failed(Failure(kind, f"not called: {error}"))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            refused = refused_address(error)
            if refused is not None:
                return not_sent(refused, "not called")
            return Failed(Failure(FailureClass.NETWORK, _network_text(error, attempt.redactor)))

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _call(self, target: HttpTarget, attempt: TargetAttempt) -> Outcome:
        url, place = self._checked(target.url)
        body = encoded_body(target.body) or b""
        headers = await self._headers(target, attempt, place, body)
        authorized = None
        if target.auth is not None:
            authorized = await self._authorization.authorize(target, attempt, place, headers, body, self.session)
        answer, text, whole = await self._exchange(target, url, headers, authorized, body)
        if answer.status == 401 and authorized is not None and self._authorization.may_help_again(authorized):
            authorized = await self._authorization.authorize(target, attempt, place, headers, body, self.session)
            answer, text, whole = await self._exchange(target, url, headers, authorized, body)
        return self._judge(target, answer, attempt.redactor.body(text, cut=not whole), whole, attempt.redactor)

    async def _exchange(
        self, target: HttpTarget, url: URL, headers: dict[str, str], authorized: Authorized | None, body: bytes
    ) -> tuple[aiohttp.ClientResponse, bytes, bool]:
        sent = headers if authorized is None else headers | authorized.headers
        async with self.session().request(
            target.method, url, data=body or None, headers=sent, allow_redirects=False
        ) as answer:
            text, whole = await self._read(answer)
            if not whole:
                answer.close()  # the rest of the body is unread, so the connection cannot be reused
        return answer, text, whole

    def _checked(self, text: str) -> tuple[URL, Place]:
        """Check the URL again, once per URL: it may have been submitted under other settings, or by other code."""
        found = self._urls.get(text)
        if found is None:
            place = check_url(text, self._guard, "url")
            url = URL(text, encoded=True)
            if (same_host(url.raw_host or ""), url.port) != (place.host, place.port):
                raise InvalidInput("is ambiguous", field="url", remedy="write the host in its DNS form")
            if len(self._urls) >= _MOST_URLS:
                self._urls.clear()
            self._urls[text] = found = url, place
        return found

    async def _headers(self, target: HttpTarget, attempt: TargetAttempt, place: Place, body: bytes) -> dict[str, str]:
        headers = {"content-type": _media(target)} if body else {}
        for name, value in (await filled(target.headers, self._vault, attempt, place)).items():
            headers[name.lower()] = value
        secrets = await self._vault.signing_secrets(attempt.tenant_id)
        timestamp = attempt.timestamp
        headers |= {
            **attempt.headers(),
            "user-agent": USER_AGENT,
            "accept-encoding": "identity",
            "webhook-id": attempt.message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures.signature(secrets, attempt.message_id, timestamp, body),
        }
        if target.finish_within is not None:
            completable = Completable(attempt.tenant_id, attempt.run_id, attempt.claimed.fence)
            headers["duetime-completion"] = link = await self._links.make(completable)
            attempt.redactor.learn(link.rpartition("/")[2])
        return headers

    async def _read(self, answer: aiohttp.ClientResponse) -> tuple[bytes, bool]:
        """As much of the body as is kept, and whether that is all of it."""
        parts: list[bytes] = []
        size = 0
        while size <= self._max_response:
            part = await answer.content.read(min(_CHUNK, self._max_response + 1 - size))
            if not part:
                return b"".join(parts), True
            parts.append(part)
            size += len(part)
        return b"".join(parts)[: self._max_response], False

    def _judge(
        self, target: HttpTarget, answer: aiohttp.ClientResponse, body: bytes, whole: bool, redactor: Redactor
    ) -> Outcome:
        status = answer.status
        if status == 202 and target.finish_within is not None:
            return HandedOver(parse_duration(target.finish_within))
        if isinstance(target.auth, AwsSignature) and (said := aws_failure(status, answer.headers, body)) is not None:
            text = f"{_said(answer, body, redactor)} ({bounded(redactor.text(said), _HEADER_TEXT)})"
            return Failed(Failure(FailureClass.TARGET_FAILED, text, retry_after=retry_after(answer.headers)))
        if 200 <= status < 300:
            return Succeeded(_result(answer, body, whole, self._max_result, redactor))
        text = _said(answer, body, redactor)
        if status in _TRY_AGAIN or status >= 500:
            return Failed(Failure(FailureClass.TARGET_FAILED, text, retry_after=retry_after(answer.headers)))
        if status < 400:
            text = f"{text}: redirects are not followed"
        return Failed(Failure(FailureClass.TARGET_REFUSED, text, pauses_job=status == 410))

    def session(self) -> aiohttp.ClientSession:
        """The session of all requests."""
        if self._session is None:
            self._session = guarded_session(self._guard, self._lookup)
        return self._session


def guarded_session(guard: AddressGuard, lookup: Lookup) -> aiohttp.ClientSession:
    """A session that connects to no address that the guard refuses."""

    def make_socket(where: tuple[Any, Any, int, str, Any]) -> socket.socket:
        """The final check, on the address that is about to be connected to, however it was found."""
        family, kind, protocol, _, address = where
        guard.check(str(address[0]))
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(
        limit=0, resolver=_GuardedResolver(guard, lookup), socket_factory=make_socket, keepalive_timeout=15
    )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        trust_env=False,
        read_bufsize=_CHUNK,
    )


class _GuardedResolver(AbstractResolver):
    """Resolves names to addresses that may be called; the connection then goes to one of these."""

    def __init__(self, guard: AddressGuard, lookup: Lookup) -> None:
        self._guard = guard
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._guard.resolve(host, port, self._lookup)
        return [
            ResolveResult(hostname=host, host=text, port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST)
            for kind, text in found
        ]

    async def close(self) -> None:
        pass


def retry_after(headers: Any) -> float | None:
    """The seconds that the answer asks to wait: a number, or a date, which counts from the answer's own date."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_WAIT)
    try:
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError):
        return None
    return min(max(wait, timedelta(0)).total_seconds(), _LONGEST_WAIT)


def _media(target: HttpTarget) -> str:
    return "text/plain; charset=utf-8" if isinstance(target.body, str) else "application/json"


def _result(answer: aiohttp.ClientResponse, body: bytes, whole: bool, limit: int, redactor: Redactor) -> bytes:
    """The stored part of an answer: as much of its body as a result may hold. A header may hold bytes that are not
    text."""
    media = answer.headers.get("content-type")
    kind = None if media is None else bounded(redactor.text(media), _HEADER_TEXT)
    while True:
        said = {
            "status": answer.status,
            "content_type": kind,
            "body": body.decode("utf-8", "replace"),
            "truncated": not whole,
        }
        encoded = msgspec.json.encode(said)
        if len(encoded) <= limit or not body:
            return encoded
        body, whole = body[: len(body) // 2], False


def _network_text(error: BaseException, redactor: Redactor) -> str:
    text = redactor.text(f"{type(error).__name__}: {error}")
    shown = without_addresses(text)
    if shown != text:
        log.info("cannot reach a target: %s", text)
    return bounded(shown, _ERROR_TEXT)


def _said(answer: aiohttp.ClientResponse, body: bytes, redactor: Redactor) -> str:
    text = f"it answered {answer.status} {bounded(redactor.text(answer.reason or ''), _HEADER_TEXT)}".rstrip()
    if answer.status // 100 == 3 and "location" in answer.headers:
        return f"{text} to {bounded(redactor.text(answer.headers['location']), _HEADER_TEXT)}"
    said = body.decode("utf-8", "replace").strip()
    return f"{text}: {bounded(said, _ERROR_TEXT)}" if said else text
