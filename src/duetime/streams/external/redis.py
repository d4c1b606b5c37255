"""Redis streams of other programs.

A message is an entry. Its fields are the headers of the message, `key` and `body`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

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
from duetime.model.target import AtRedis, RedisTarget
from duetime.streams.external.bounded_reader import BoundedReader
from duetime.streams.external.protocol import Message, Server
from duetime.streams.redis_connections import RedisConnections

_SMALL = 64 * 1024
"""The maximum size of an answer to a command that adds an entry, in bytes."""
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


def connections(at: AtRedis, server: Server, password: str | None, largest: int) -> RedisConnections:
    """Connections to exactly the addresses of this server."""
    login: dict[str, Any] = {} if password is None else {"username": at.username, "password": password}
    return RedisConnections(
        "redis://",
        connection_class=_PinnedTls if at.tls else _Pinned,
        host=server.host,
        port=server.port,
        db=at.database,
        addresses=server.addresses,
        largest=largest,
        **login,
    )


class _Pinned(Connection):
    """Connects to one of the given addresses, whatever the host resolves to by now."""

    def __init__(self, *, addresses: Sequence[str], largest: int, **options: Any) -> None:
        super().__init__(**options)
        self._addresses, self._address, self._largest = addresses, "", largest

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
        self._reader = BoundedReader(self._reader, self._largest)  # type: ignore[assignment]

    def _connection_arguments(self) -> Mapping[str, Any]:
        found = {**super()._connection_arguments(), "host": self._address}
        return found | {"server_hostname": self.host} if "ssl" in found else found

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        if isinstance(self._reader, BoundedReader):
            self._reader.renew()
        await super().send_packed_command(command, check_health)


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
