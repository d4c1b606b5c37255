"""Queues that go through a broker, for measurements."""

import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from duetime.crypto.sealer import Sealer
from duetime.engine.intake import prepare
from duetime.model.carried import StreamQueue, StreamSettings
from duetime.model.job import DEFAULT_OPTIONS, DEFAULT_TENANT, NewJob, Options
from duetime.model.lane import Tier
from duetime.model.schedule import NOW, Schedule
from duetime.store.protocol.store import Store
from duetime.streams.address import broker_at
from duetime.streams.message import MessageCodec
from duetime.streams.names import StreamName, streams_of
from duetime.streams.protocol import Broker


def apart(address: str) -> str:
    """The same broker, with streams of our own."""
    return f"{address}{'&' if '?' in address else '?'}prefix=b{uuid.uuid4().hex[:12]}"


async def through(store: Store, queue: str, address: str, *, max_depth: int | None = None) -> StreamQueue:
    """Let a queue go through this broker, as an operator would."""
    found = await store.streams.set_stream(DEFAULT_TENANT, queue, StreamSettings(address, max_depth=max_depth))
    assert found is not None
    broker = await broker_at(address)
    await broker.open()
    try:
        await broker.check([name.text for name in streams_of(found, shared=broker.shared).values()])
    finally:
        await broker.close()
    return found


def new_job(queue: str, task: str, options: Options = DEFAULT_OPTIONS, schedule: Schedule = NOW) -> NewJob:
    """A job of a task of `bench.tasks`, with 200 bytes of arguments and a timeout."""
    return prepare(
        task=task,
        args={"sent": time.time(), "to": "x" * 160},
        max_payload=1000,
        schedule=schedule,
        queue=queue,
        options=options,
        timeout=timedelta(seconds=30),
    )


@asynccontextmanager
async def publishing(store: Store, queue: str, address: str) -> AsyncIterator["Publisher"]:
    """A queue that goes through this broker, and a way to fill it."""
    found = await through(store, queue, address)
    broker = await broker_at(address)
    await broker.open()
    try:
        yield Publisher(store, broker, streams_of(found, shared=broker.shared)[Tier.MEDIUM])
    finally:
        await broker.close()


class Publisher:
    """Publishes ready runs, as a submission does."""

    def __init__(self, store: Store, broker: Broker, stream: StreamName) -> None:
        self._store = store
        self._broker = broker
        self._stream = stream
        self._codec = MessageCodec(Sealer(()))

    async def publish(self, runs: int, task: str = "nothing", options: Options = DEFAULT_OPTIONS) -> None:
        for start in range(0, runs, 1000):
            jobs = [new_job(self._stream.queue, task, options) for _ in range(min(1000, runs - start))]
            carried = await self._store.streams.carry(DEFAULT_TENANT, jobs)
            await self._broker.publish(self._stream.text, await self._codec.pack(self._stream, carried))
