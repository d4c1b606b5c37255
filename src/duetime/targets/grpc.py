"""gRPC targets: one unary call, with its request and its answer as JSON.

The address guard is the same as for HTTP: the address is resolved and judged here, and the channel is opened to exactly
that address. The name is used only for TLS and as the authority. The target's descriptors define the method's message;
without them the server is asked by reflection. grpcio is an extra (`duetime[grpc]`), so it is imported on demand.

    OK  succeeded, even if the answer cannot be stored: calling again would repeat the effect
    CANCELLED, UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, ABORTED, INTERNAL, UNAVAILABLE, DATA_LOSS  retried
    any other  failed without retry
"""

import asyncio
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from duetime.clock import monotonic
from duetime.model.failure import Failure, FailureClass, bounded
from duetime.model.outcome import Failed, Outcome, Succeeded
from duetime.model.target import GrpcTarget
from duetime.process.loading import load
from duetime.targets import signatures
from duetime.targets.address_guard import AddressGuard, Lookup, system_lookup, without_addresses
from duetime.targets.messages import (
    find_method,
    make_request,
    read_answer,
    read_descriptors,
    require_grpc,
    split_method,
)
from duetime.targets.not_sent import NOT_SENT, not_sent
from duetime.targets.redaction import Redactor
from duetime.targets.reflection import reflected
from duetime.targets.target_attempt import TargetAttempt
from duetime.targets.url import Place, check_address
from duetime.targets.values import filled
from duetime.targets.vault import Vault

if TYPE_CHECKING:
    from google.protobuf.descriptor import MethodDescriptor
    from grpc import aio

_TRY_AGAIN = frozenset(
    {
        *("CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED"),
        *("ABORTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    }
)
_NOT_REACHED = frozenset({"UNAVAILABLE"})
_REMEMBERED = 30.0
"""Seconds until a name is resolved again, and a server is asked again for its descriptors."""
_MOST_CHANNELS = 200
_MOST_ADDRESSES = 4
_LARGEST = 4 * 1024**2 + 1
"""The maximum size of an answer in bytes. The odd number is ours alone, so an error that names it came from this client
and was not passed on by the server."""
_LONGEST_WAIT = 86_400.0
_GRACE = 30.0

_Key = tuple[Place, bool]


class _Connection:
    """A channel to judged addresses, and what is known about the server."""

    def __init__(self, channel: "aio.Channel") -> None:
        self.channel = channel
        self.until = monotonic() + _REMEMBERED
        self.methods: dict[str, MethodDescriptor] = {}
        self.asking = asyncio.Lock()


class GrpcCaller:
    def __init__(self, guard: AddressGuard, vault: Vault, *, max_result: int, lookup: Lookup = system_lookup) -> None:
        self._guard = guard
        self._vault = vault
        self._max_result = max_result
        self._lookup = lookup
        self._connections: dict[_Key, _Connection] = {}
        self._described: dict[tuple[str, str], MethodDescriptor] = {}
        self._closing: set[asyncio.Task[None]] = set()

    async def call(self, target: GrpcTarget, attempt: TargetAttempt) -> Outcome:
        require_grpc()
        await load("grpc.aio", "google.protobuf.json_format")
        from grpc.aio import AioRpcError

        try:
            async with asyncio.timeout(attempt.limit):
                return await self._call(target, attempt)
        except TimeoutError:
            return Failed(Failure(FailureClass.TIMEOUT, f"no answer within {attempt.limit:g} s"))
        except NOT_SENT as error:
            return not_sent(error, "not called")
        except AioRpcError as error:
            return _judge(error, attempt.redactor)
        except OSError as error:
            text = attempt.redactor.text(without_addresses(f"{type(error).__name__}: {error}"))
            return Failed(Failure(FailureClass.NETWORK, bounded(text, 500)))

    async def close(self) -> None:
        closing = [connection.channel.close(None) for connection in self._connections.values()]
        self._connections.clear()
        await asyncio.gather(*closing, *self._closing)

    async def _call(self, target: GrpcTarget, attempt: TargetAttempt) -> Outcome:
        from grpc.aio import AioRpcError

        place = check_address(target.address, self._guard, "address", tls=target.tls)
        connection = await self._connection_to((place, target.tls))
        method = await self._method(target, connection)
        body = make_request(method, target.message).SerializeToString(deterministic=True)
        metadata = await self._metadata(target, attempt, place, body)
        service, name = split_method(target.method)
        ask = connection.channel.unary_unary(f"/{service}/{name}", None, None)
        try:
            answer = await ask(body, metadata=metadata, timeout=attempt.limit)
        except AioRpcError as error:
            if not _is_too_large(error):
                raise
            return Succeeded(_left_out())
        return Succeeded(_result(method, answer, self._max_result, attempt.redactor))

    async def _metadata(self, target: GrpcTarget, attempt: TargetAttempt, place: Place, body: bytes) -> Any:
        secrets = await self._vault.signing_secrets(attempt.tenant_id)
        timestamp = attempt.timestamp
        said = {
            name.lower(): value for name, value in (await filled(target.metadata, self._vault, attempt, place)).items()
        }
        said |= {
            **attempt.headers(),
            "webhook-id": attempt.message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures.signature(secrets, attempt.message_id, timestamp, body),
        }
        return tuple(said.items())

    async def _method(self, target: GrpcTarget, connection: _Connection) -> "MethodDescriptor":
        if target.descriptors is not None:
            key = (target.descriptors, target.method)
            if key not in self._described:
                if len(self._described) >= _MOST_CHANNELS:
                    self._described.clear()
                self._described[key] = find_method(read_descriptors(target.descriptors), target.method)
            return self._described[key]
        async with connection.asking:
            if target.method not in connection.methods:
                service, _ = split_method(target.method)
                connection.methods[target.method] = find_method(
                    await reflected(connection.channel, service), target.method
                )
        return connection.methods[target.method]

    async def _connection_to(self, key: _Key) -> _Connection:
        """The channel to a place. It is reopened from time to time, because names move."""
        found = self._connections.get(key)
        if found is not None and found.until > monotonic():
            return found
        place, tls = key
        addresses = await self._addresses(place)
        fresh = _Connection(_open(place, addresses, tls=tls))
        for old in [each for each in self._connections if each == key or len(self._connections) >= _MOST_CHANNELS][:1]:
            self._retire(self._connections.pop(old))
        self._connections[key] = fresh
        return fresh

    async def _addresses(self, place: Place) -> list[str]:
        try:
            socket.inet_pton(socket.AF_INET6 if ":" in place.host else socket.AF_INET, place.host)
        except OSError:
            found = await self._guard.resolve(place.host, place.port, self._lookup)
            first = found[0][0]
            return [text for family, text in found if family == first][:_MOST_ADDRESSES]
        self._guard.check(place.host)
        return [place.host]

    def _retire(self, connection: _Connection) -> None:
        task = asyncio.ensure_future(connection.channel.close(_GRACE))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _open(place: Place, addresses: Sequence[str], *, tls: bool) -> "aio.Channel":
    """A channel to exactly these addresses: no further resolution, and no proxy."""
    import grpc
    from grpc import aio

    kind = "ipv6" if ":" in addresses[0] else "ipv4"
    where = [f"[{address}]:{place.port}" if kind == "ipv6" else f"{address}:{place.port}" for address in addresses]
    host = f"[{place.host}]" if ":" in place.host else place.host
    options: list[tuple[str, Any]] = [
        ("grpc.default_authority", f"{host}:{place.port}"),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_receive_message_length", _LARGEST),
        ("grpc.initial_reconnect_backoff_ms", 500),
        ("grpc.max_reconnect_backoff_ms", 5000),
    ]
    if not tls:
        return aio.insecure_channel(f"{kind}:{','.join(where)}", options)
    options.append(("grpc.ssl_target_name_override", place.host))
    return aio.secure_channel(f"{kind}:{','.join(where)}", grpc.ssl_channel_credentials(), options)


def _result(method: "MethodDescriptor", answer: bytes, limit: int, redactor: Redactor) -> bytes:
    """The answer as JSON, if it can be decoded and is not larger than a result may be."""
    try:
        said = {"code": "OK", "message": read_answer(method, answer), "truncated": False}
        encoded = redactor.document(msgspec.json.encode(said))
    except Exception as error:  # whatever it is, the call was executed
        return _left_out(unreadable=bounded(redactor.text(f"{type(error).__name__}: {error}"), 500))
    return encoded if len(encoded) <= limit else _left_out()


def _left_out(**why: str) -> bytes:
    return msgspec.json.encode({"code": "OK", "message": None, "truncated": True, **why})


def _is_too_large(error: "aio.AioRpcError") -> bool:
    """Whether an answer arrived and was too large."""
    said = error.details() or ""
    return "CLIENT: Received message larger than max" in said and f"vs. {_LARGEST})" in said


def _judge(error: "aio.AioRpcError", redactor: Redactor) -> Outcome:
    code = error.code().name
    # For an unreachable server the text comes from the library, which names the addresses that it tried.
    said = without_addresses(error.details() or "") if code in _NOT_REACHED else error.details() or ""
    text = bounded(redactor.text(f"it answered {code}: {said}".rstrip(": ")), 500)
    if code not in _TRY_AGAIN:
        return Failed(Failure(FailureClass.TARGET_REFUSED, text))
    kind = FailureClass.NETWORK if code in _NOT_REACHED else FailureClass.TARGET_FAILED
    return Failed(Failure(kind, text, retry_after=_pushback(error)))


def _pushback(error: "aio.AioRpcError") -> float | None:
    """The seconds that the server asks to wait before a retry (gRPC pushback)."""
    said: Any = error.trailing_metadata() or ()
    for name, value in said:
        text = value if isinstance(value, str) else ""
        if name == "grpc-retry-pushback-ms" and text.isascii() and text.isdigit():
            return min(int(text) / 1000, _LONGEST_WAIT)
    return None
