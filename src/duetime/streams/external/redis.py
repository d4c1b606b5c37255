"""Redis streams of other programs.

A message is an entry. Its fields are the headers of the message, `key` and `body`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from redis.asyncio.connection import Connection, SSLConnection
from redis.exceptions import (
    AuthenticationError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from duetime.errors import MessageRefused, StreamUnavailable, reason_of
from duetime.model.source import RedisSource
from duetime.model.target import AtRedis, RedisTarget
from duetime.streams.external.bounded_reader import BoundedReader
from duetime.streams.external.protocol import Message, Received, Server
from duetime.streams.redis_connections import RedisConnections

_SMALL = 64 * 1024
"""The maximum size of an answer to a command that adds an entry, in bytes."""
_LARGE = 128 * 1024**2
"""The same for a command that reads entries."""
_BLOCK = 3.0
"""Seconds of one blocking read, below the timeout of a connection."""
_PASSING = (ClusterDownError, MasterDownError, OutOfMemoryError, ReadOnlyError, TryAgainError)
_PASSING_CODES = ("BUSY ", "MISCONF", "NOREPLICAS", "LOADING", "OOM", "READONLY")


class RedisPublisher:
    def __init__(self, at: AtRedis, server: Server, password: str | None) -> None:
        self._redis = connections(at, server, password, _SMALL)

    async def publish(self, target: RedisTarget, message: Message) -> dict[str, Any]:
        fields: list[str | bytes] = []
        for name, value in message.headers.items():
            fields += [name, value]
        if target.key is not None:
            fields += ["key", target.key]
        if message.body is not None:
            fields += ["body", message.body]
        trimmed = () if target.max_length is None else ("MAXLEN", "~", target.max_length)
        with reaching():
            added = await self._redis.ask("XADD", target.stream, *trimmed, "*", *fields)
        return {"stream": target.stream, "id": added.decode("ascii", "replace")[:60]}

    async def close(self) -> None:
        await self._redis.close()


class RedisReceiver:
    """Reads a stream by entry ids. Nothing is pending at Redis and nothing is removed; the group only shows how far the
    stream was read."""

    def __init__(self, at: RedisSource, server: Server, password: str | None, marks: Mapping[str, str]) -> None:
        self._at = at
        self._redis = connections(at, server, password, _LARGE)
        self._part = f"{at.address}/{at.database}/{at.stream}"
        self._mark = marks.get(self._part)
        self._checked = False
        """Whether the mark is known to be in the stream."""
        self.marks: dict[str, str] = {}

    async def fetch(self, most: int, wait: float) -> list[Received]:
        with reaching():
            if not self._checked:
                self._mark = await self._begin()
                self.marks.setdefault(self._part, self._mark)
            block = max(1, int(min(wait, _BLOCK) * 1000))
            stream, after = self._at.stream, self._mark
            answer = await self._redis.ask("XREAD", "COUNT", most, "BLOCK", block, "STREAMS", stream, after)
        found = [self._received(entry_id, fields) for _, entries in answer or () for entry_id, fields in entries]
        self._checked = bool(found)
        if found:
            self._mark = found[-1].mark
        return found

    async def hold(self, messages: Sequence[Received]) -> None:
        pass

    async def done(self, messages: Sequence[Received]) -> None:
        last, stream, group = messages[-1].mark, self._at.stream, self._at.group
        with suppress(RedisError, OSError):
            await self._redis.ask_all(
                [("XGROUP", "CREATE", stream, group, last), ("XGROUP", "SETID", stream, group, last)]
            )

    async def close(self) -> None:
        await self._redis.close()

    async def _begin(self) -> str:
        """The entry after which to read on."""
        last = await self._last()
        if self._mark is None:
            return "0-0" if self._at.start == "earliest" else last
        # The stream was created anew, with lower ids. Entries that were deleted count: it is not their absence.
        return "0-0" if (0, 0) != _number(last) < _number(self._mark) else self._mark

    async def _last(self) -> str:
        """The id of the newest entry that the stream ever had."""
        try:
            said = await self._redis.ask("XINFO", "STREAM", self._at.stream)
        except ResponseError as error:
            if str(error).startswith("no such key"):
                return "0-0"
            raise
        found: bytes = said[said.index(b"last-generated-id") + 1]
        return found.decode()

    def _received(self, entry_id: bytes, fields: Sequence[bytes]) -> Received:
        values = {name.decode("utf-8", "replace"): value for name, value in zip(fields[::2], fields[1::2], strict=True)}
        body, key = values.pop("body", None), values.pop("key", None)
        headers = {name.lower(): value.decode("utf-8", "replace") for name, value in values.items()}
        if body is None:  # an entry of plain fields: they are the body
            body = msgspec.json.encode(headers)
        text, mark = None if key is None else key.decode("utf-8", "replace"), entry_id.decode()
        return Received(f"{self._part}/{mark}", text, headers, body, self._part, mark, None)


def _number(entry_id: str) -> tuple[int, int]:
    high, _, low = entry_id.partition("-")
    return int(high), int(low or 0)


def connections(at: AtRedis, server: Server, password: str | None, largest: int) -> RedisConnections:
    """Connections to exactly the addresses of this server."""
    login: dict[str, Any] = {} if password is None else {"username": at.username, "password": password}
    return RedisConnections(
        "redis://",
        largest=largest,
        connection_class=_PinnedTls if at.tls else _Pinned,
        host=server.host,
        port=server.port,
        db=at.database,
        addresses=server.addresses,
        **login,
    )


class _Pinned(Connection):
    """Connects to one of the given addresses, whatever the host resolves to by now."""

    def __init__(self, *, addresses: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self._addresses, self._address = addresses, ""

    async def _connect(self) -> None:
        *others, last = self._addresses
        for address in others:
            with suppress(OSError):
                return await self._connect_to(address)
        return await self._connect_to(last)

    async def _connect_to(self, address: str) -> None:
        self._address = address
        await super()._connect()  # type: ignore[no-untyped-call]
        assert self._reader is not None
        # For the login; `RedisConnections` bounds the rest.
        self._reader = BoundedReader(self._reader, _SMALL)  # type: ignore[assignment]

    def _connection_arguments(self) -> Mapping[str, Any]:
        found = {**super()._connection_arguments(), "host": self._address}
        return found | {"server_hostname": self.host} if "ssl" in found else found


class _PinnedTls(_Pinned, SSLConnection):
    """The same with TLS: the certificate is checked for the host."""


@contextmanager
def reaching() -> Iterator[None]:
    """Raises `MessageRefused` and `StreamUnavailable` for errors of Redis."""
    try:
        yield
    except (AuthenticationError, MovedError) as error:
        remedy = "Redis Cluster is not supported" if isinstance(error, MovedError) else "check username and password"
        raise MessageRefused(f"Redis: {reason_of(error)}", remedy=remedy) from error
    except ResponseError as error:
        if isinstance(error, _PASSING) or str(error).startswith(_PASSING_CODES):
            raise StreamUnavailable(f"Redis: {reason_of(error)}") from error
        raise MessageRefused(f"Redis: {reason_of(error)}") from error
    except (RedisError, OSError, ValueError) as error:
        raise StreamUnavailable(f"Redis: {reason_of(error)}") from error
