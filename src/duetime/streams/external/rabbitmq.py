"""RabbitMQ exchanges and queues of other programs."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiormq.connection import Connection, TransportFactory
from aiormq.exceptions import (
    AuthenticationError,
    ChannelAccessRefused,
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
from duetime.streams.rabbitmq_link import FAILURES, TIMEOUT, RabbitLink

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


class RabbitPublisher:
    def __init__(self, at: AtRabbit, server: Server, password: str | None) -> None:
        self._link = _Link(at, server, password)

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


class _Link(RabbitLink):
    def __init__(self, at: AtRabbit, server: Server, password: str | None) -> None:
        vhost = at.vhost.replace("%", "%25").replace("/", "%2F")
        url = URL.build(
            scheme="amqps" if at.tls else "amqp",
            user=at.username,
            password="guest" if password is None else password,
            host=server.host,
            port=server.port,
            path=f"/{vhost}",
            query={"heartbeat": str(_HEARTBEAT)},
            encoded=False,
        )
        super().__init__(url, transport_factory=_Pinned(server, tls=at.tls))

    async def _connect(self, connection: Connection) -> None:
        try:
            await super()._connect(connection)
        except InvalidFrameError as error:
            # The client does not expect that RabbitMQ closes a connection instead of opening it.
            raise MessageRefused(
                "RabbitMQ: it refuses the connection", remedy="check vhost and the permissions of the user"
            ) from error


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
    except FAILURES as error:
        raise StreamUnavailable(f"RabbitMQ: {reason_of(error)}") from error
