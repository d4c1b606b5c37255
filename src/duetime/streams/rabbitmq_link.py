"""A connection to RabbitMQ."""

import asyncio
from contextlib import suppress
from typing import Any

from aiormq.channel import Channel
from aiormq.connection import Connection
from aiormq.exceptions import AMQPError, ChannelInvalidStateError
from yarl import URL

TIMEOUT = 5.0
"""Seconds to connect, or to wait for an answer."""
FAILURES = (AMQPError, ChannelInvalidStateError, OSError, RuntimeError)


class RabbitLink:
    """A connection with a channel, opened again on demand when it was lost."""

    def __init__(self, url: str | URL, **options: Any) -> None:
        self._url = url
        self._options = options
        self._connection: Connection | None = None
        self._channel: Channel | None = None
        self._opening = asyncio.Lock()

    @property
    def version(self) -> tuple[int, ...]:
        """RabbitMQ's version, once it is connected."""
        properties = self._connection.server_properties if self._connection is not None else {}
        version = str(properties.get("version", "0")).split(".")
        return tuple(int(part) for part in version[:2] if part.isdigit())

    async def channel(self) -> Channel:
        if self._channel is not None and not self._channel.is_closed:
            return self._channel
        async with self._opening, asyncio.timeout(TIMEOUT):
            if self._connection is None or not self._connection.is_opened:
                connection = Connection(self._url, **self._options)
                await self._connect(connection)
                self._connection, self._channel = connection, None
            if self._channel is None or self._channel.is_closed:
                channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
                assert isinstance(channel, Channel)
                self._channel = channel
            return self._channel

    async def close(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(*FAILURES):
                await connection.close(timeout=TIMEOUT)

    async def _connect(self, connection: Connection) -> None:
        await connection.connect()
