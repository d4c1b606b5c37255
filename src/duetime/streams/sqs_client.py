"""Signed calls to SQS: its JSON protocol over aiohttp, with botocore's credentials, signatures and endpoints.

A whole client of botocore's kind costs several times the CPU of a call, and a call carries at most ten messages
(decision 25).
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import aiohttp
import msgspec
from botocore.auth import SigV4Auth  # type: ignore[import-untyped]
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]
from botocore.credentials import Credentials  # type: ignore[import-untyped]
from botocore.exceptions import BotoCoreError  # type: ignore[import-untyped]
from botocore.session import Session  # type: ignore[import-untyped]

from duetime.errors import StreamUnavailable, reason_of
from duetime.streams.address import flag_of, invalid, known_options
from duetime.streams.sizes import largest_of

_LARGEST = 196_605
"""What fits into the 256 KiB that a queue accepts by default, as base64."""
_OPTIONS = ("largest", "region", "tls", "accept_retention")
_REGION = "us-east-1"
_REGION_NAME = re.compile(r"[a-z]{2,3}(-[a-z]+){1,2}-[0-9]{1,2}")
_TIMEOUT = 5.0
"""Seconds for an answer, without those of a long poll."""
_ATTEMPTS = 2
_PAUSE = 0.1
_CONNECTIONS = 100
_LARGEST_ANSWER = 64 * 1024**2
_REMEDY = "check the address, the network and the credentials"


class SqsAddress(NamedTuple):
    url: str | None
    """None: that of the region."""
    region: str
    credentials: Credentials | None
    """None: from the environment, the files or the machine."""
    largest: int
    """Bytes of a message."""
    accept_retention: bool
    """Whether SQS may delete messages earlier than after 14 days."""


class SqsError(StreamUnavailable):
    """SQS refuses a call; `code` says why."""

    def __init__(self, code: str, said: str) -> None:
        super().__init__(f"SQS: {code}: {said}", remedy=_REMEDY)
        self.code = code


def parse(address: str) -> SqsAddress:
    """`sqs://region`, or `sqs://host:port` for a server that speaks its protocol. Raises `InvalidInput`."""
    options = known_options(address, _OPTIONS)
    tls, accept_retention = flag_of(options, "tls"), flag_of(options, "accept_retention")
    try:
        parts = urlsplit(address)
        login, _, place = parts.netloc.rpartition("@")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.path not in ("", "/"):
        raise invalid("this is not an address of SQS", "such as sqs://eu-central-1")
    user, _, secret = login.partition(":")
    if login and not (user and secret):
        raise invalid("an access key has two parts", "sqs://key:secret@region, or none of them")
    credentials = Credentials(unquote(user), unquote(secret)) if login else None
    if port is not None:
        url: str | None = f"{'https' if tls else 'http'}://{place}/"
        region = options.get("region", _REGION)
    else:
        url, region = None, host
        if not _REGION_NAME.fullmatch(region):
            raise invalid(f"{region[:40]!r} is no region of SQS", "such as sqs://eu-central-1, or sqs://host:port")
    return SqsAddress(url, region, credentials, largest_of(options, _LARGEST), accept_retention)


class SqsClient:
    def __init__(self, address: SqsAddress, http: aiohttp.ClientSession | None = None) -> None:
        """`http`: the session to use. It is closed with this client."""
        self._address = address
        self._credentials = address.credentials
        self._url = address.url or ""
        self._http = http
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder()

    async def open(self) -> None:
        """Raises `StreamUnavailable`."""
        if self._credentials is None:
            try:
                self._credentials = await asyncio.to_thread(Session().get_credentials)
            except BotoCoreError as error:
                raise StreamUnavailable(f"SQS: {reason_of(error)}", remedy=_REMEDY) from error
            if self._credentials is None:
                raise StreamUnavailable(
                    "SQS: there are no credentials",
                    remedy="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role",
                )
        if not self._url:
            self._url = await asyncio.to_thread(endpoint_of, self._address.region)
        if self._http is None:
            connector = aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=60)
            self._http = aiohttp.ClientSession(connector=connector)

    async def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.close()

    async def call(
        self, action: str, request: Mapping[str, object], *, wait: float = 0.0, again: bool = True
    ) -> dict[str, Any]:
        """`wait`: the seconds of a long poll; `again`: whether a call without an answer is repeated. Raises
        `StreamUnavailable`, as `SqsError` if SQS has refused it."""
        body = self._encoder.encode(request)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await self._call_once(action, body, _TIMEOUT + wait)
            except SqsError as error:
                if attempt == _ATTEMPTS or error.code not in (
                    "ThrottlingException",
                    "RequestThrottled",
                    "InternalError",
                ):
                    raise
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                sent = not isinstance(error, aiohttp.ClientConnectorError)
                if attempt == _ATTEMPTS or (sent and not again):
                    raise StreamUnavailable(f"SQS cannot be reached: {reason_of(error)}", remedy=_REMEDY) from error
            await asyncio.sleep(_PAUSE * attempt)
        raise AssertionError("unreachable")

    async def _call_once(self, action: str, body: bytes, timeout: float) -> dict[str, Any]:
        if self._http is None:
            raise StreamUnavailable("the connection to SQS is not open")
        headers = await self._signed(action, body)
        limit = aiohttp.ClientTimeout(total=timeout)
        async with self._http.post(self._url, data=body, headers=headers, timeout=limit) as response:
            said = bytearray()
            async for part in response.content.iter_any():
                said += part
                if len(said) > _LARGEST_ANSWER:
                    response.close()
                    raise aiohttp.ClientPayloadError("the answer is too large")
        if response.status == 200:
            try:
                return self._decoder.decode(said) if said else {}
            except msgspec.DecodeError:
                raise aiohttp.ClientPayloadError("the answer is not JSON") from None
        raise _refusal(response.status, said)

    async def _signed(self, action: str, body: bytes) -> dict[str, str]:
        assert self._credentials is not None
        if getattr(self._credentials, "refresh_needed", bool)():
            try:
                await asyncio.to_thread(self._credentials.get_frozen_credentials)
            except BotoCoreError as error:
                raise StreamUnavailable(f"SQS: {reason_of(error)}", remedy=_REMEDY) from error
        request = AWSRequest(
            "POST",
            self._url,
            headers={"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{action}"},
            data=body,
        )
        SigV4Auth(self._credentials.get_frozen_credentials(), "sqs", self._address.region).add_auth(request)
        return {**dict(request.headers.items()), "Accept-Encoding": "identity"}


def endpoint_of(region: str) -> str:
    client = Session().create_client("sqs", region, aws_access_key_id="unused", aws_secret_access_key="unused")
    try:
        return f"{client.meta.endpoint_url}/"
    finally:
        client.close()


def _refusal(status: int, said: bytes | bytearray) -> SqsError:
    try:
        error = msgspec.json.decode(said, type=dict[str, object])
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        error = {}
    code = str(error.get("__type", "")).rpartition("#")[2].rpartition(".")[2]
    if not code or status >= 500:
        code = "InternalError"
    return SqsError(code, str(error.get("message") or error.get("Message") or f"status {status}")[:300])
