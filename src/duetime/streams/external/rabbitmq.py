"""RabbitMQ exchanges and queues of other programs."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from aiormq.channel import Channel
from aiormq.connection import Connection, TransportFactory
from aiormq.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelAccessRefused,
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    ConnectionNotAllowed,
    DeliveryError,
    InvalidFrameError,
    ProbableAuthenticationError,
    PublishError,
)
from pamqp.commands import Basic
from yarl import URL

from duetime.errors import MessageRefused, StreamUnavailable, reason_of
from duetime.model.target import AtRabbit, RabbitTarget
from duetime.streams.external.bounded_reader import BoundedReader
from duetime.streams.external.protocol import Message, Server

TIMEOUT = 5.0
"""Seconds to connect, or to wait for an answer."""
_HEARTBEAT = 15
_LARGEST_FRAME = 1024**2
_REFUSED = (
    AuthenticationError,
    ProbableAuthenticationError,
    ConnectionNotAllowed,
    ChannelAccessRefused,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
)
_FAILURES = (AMQPError, ChannelInvalidStateError, OSError, RuntimeError)


class RabbitPublisher:
    def __init__(self, at: AtRabbit, server: Server, password: str | None) -> None:
        self._link = RabbitLink(at, server, password)

    async def publish(self, target: RabbitTarget, message: Message) -> dict[str, Any]:
        properties = Basic.Properties(
            delivery_mode=2, message_id=message.message_id, headers=dict(message.headers), app_id="duetime"
        )
        with reaching():
            channel = await self._link.channel()
            await channel.basic_publish(
                message.body or b"",
                exchange=target.exchange,
                routing_key=target.routing_key,
                properties=properties,
                mandatory=True,
                timeout=TIMEOUT,
            )
        return {"exchange": target.exchange, "routing_key": target.routing_key}

    async def close(self) -> None:
        await self._link.close()


class RabbitLink:
    """A connection with a channel, opened again on demand when it was lost."""

    def __init__(self, at: AtRabbit, server: Server, password: str | None) -> None:
        vhost = at.vhost.replace("%", "%25").replace("/", "%2F")
        self._url = URL.build(
            scheme="amqps" if at.tls else "amqp",
            user=at.username,
            password="guest" if password is None else password,
            host=server.host,
            port=server.port,
            path=f"/{vhost}",
            query={"heartbeat": str(_HEARTBEAT)},
            encoded=False,
        )
        self._transports = _Pinned(server, tls=at.tls)
        self._connection: Connection | None = None
        self._channel: Channel | None = None
        self._opening = asyncio.Lock()

    async def channel(self) -> Channel:
        if self._channel is not None and not self._channel.is_closed:
            return self._channel
        async with self._opening, asyncio.timeout(TIMEOUT):
            if self._connection is None or not self._connection.is_opened:
                connection = Connection(self._url, transport_factory=self._transports)
                try:
                    await connection.connect()
                except InvalidFrameError as error:
                    # The client does not expect that RabbitMQ closes a connection instead of opening it.
                    raise MessageRefused(
                        "RabbitMQ: it refuses the connection", remedy="check vhost and the permissions of the user"
                    ) from error
                self._connection, self._channel = connection, None
            if self._channel is None or self._channel.is_closed:
                channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
                assert isinstance(channel, Channel)
                self._channel = channel
            return self._channel

    async def close(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(*_FAILURES):
                await connection.close(timeout=TIMEOUT)


class _Pinned(TransportFactory):
    """Connects to the given addresses only."""

    def __init__(self, server: Server, *, tls: bool) -> None:
        self._server = server
        self._tls = tls

    async def create(self, url: URL, **options: Any) -> Any:
        provider = options.pop("ssl_context_provider")
        context = await provider.get_context() if self._tls else None
        named: dict[str, Any] = {"server_hostname": self._server.host} if self._tls else {}
        for left, address in enumerate(self._server.addresses, 1 - len(self._server.addresses)):
            try:
                reader, writer = await asyncio.open_connection(address, self._server.port, ssl=context, **named)
            except OSError:
                if left == 0:
                    raise
                continue
            return _FrameReader(reader, _LARGEST_FRAME), writer
        raise AssertionError("a server has an address")


class _FrameReader(BoundedReader):
    async def readexactly(self, size: int) -> bytes:
        self.renew()
        return await super().readexactly(size)


@contextmanager
def reaching() -> Iterator[None]:
    """Raises `MessageRefused` and `StreamUnavailable` for errors of RabbitMQ."""
    try:
        yield
    except PublishError as error:
        raise MessageRefused("RabbitMQ: no queue takes the message", remedy="bind a queue for its key") from error
    except DeliveryError as error:
        raise StreamUnavailable("RabbitMQ: it could not store the message") from error
    except _REFUSED as error:
        raise MessageRefused(f"RabbitMQ: {reason_of(error)}") from error
    except _FAILURES as error:
        raise StreamUnavailable(f"RabbitMQ: {reason_of(error)}") from error
