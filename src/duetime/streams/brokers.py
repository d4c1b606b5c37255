"""The open brokers of one event loop, by address."""

import asyncio
from contextlib import suppress

from duetime.errors import StreamUnavailable
from duetime.model.carried import StreamSettings
from duetime.streams.address import broker_at
from duetime.streams.protocol import Broker

_Key = tuple[str, int | None]


class Brokers:
    def __init__(self) -> None:
        self._made: dict[_Key, Broker] = {}
        self._open: set[_Key] = set()
        self._opening: dict[_Key, asyncio.Lock] = {}

    async def at(self, settings: StreamSettings) -> Broker:
        """The broker of a queue, open. Raises `StreamUnavailable`, and `InvalidInput` if this process has no adapter
        for it."""
        key = (settings.address, settings.replicas)
        if key in self._open:
            return self._made[key]
        async with self._opening.setdefault(key, asyncio.Lock()):
            if key not in self._open:
                await (await self.made(settings)).open()
                self._open.add(key)
        return self._made[key]

    def opened(self, settings: StreamSettings) -> Broker | None:
        """The broker of a queue, if it is open."""
        key = (settings.address, settings.replicas)
        return self._made[key] if key in self._open else None

    async def made(self, settings: StreamSettings) -> Broker:
        """The same, perhaps not open: its attributes can be read."""
        key = (settings.address, settings.replicas)
        if key not in self._made:
            broker = await broker_at(settings.address, replicas=settings.replicas)
            self._made.setdefault(key, broker)
        return self._made[key]

    async def close(self) -> None:
        made, self._made = self._made, {}
        self._open.clear()
        for broker in made.values():
            with suppress(StreamUnavailable):
                await broker.close()
