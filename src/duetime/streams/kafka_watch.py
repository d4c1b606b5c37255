"""Looks at a stream without consuming it: what its consumers have committed, and its oldest message.

It speaks to the group's coordinator through a consumer that never joins the group. The client's administration calls
could do that too, but one that times out leaves the client in a state in which closing it never ends.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from duetime.clock import monotonic
from duetime.streams.kafka_offsets import PartitionOffsets
from duetime.streams.kafka_reader import TIMEOUT, unavailable

T = TypeVar("T")
_PEEK = 1.0
"""Seconds for which the oldest messages are waited for."""


class StreamWatch:
    def __init__(self, stream: str, client: Mapping[str, Any]) -> None:
        self._consumer = Consumer(
            {
                **client,
                "group.id": stream,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "queued.min.messages": 1,
                "fetch.message.max.bytes": 16384,
            }
        )
        self._stream = stream
        self._calling = asyncio.Lock()

    async def committed(self, places: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Raises `StreamUnavailable`."""
        return await self._call(lambda: self._consumer.committed(list(places), timeout=TIMEOUT))

    async def declare_unread(self, partitions: int) -> None:
        """Without a committed offset, the first consumer could not know that nothing was started."""
        nothing = PartitionOffsets(0, 0)
        places = [TopicPartition(self._stream, number, nothing.offset, nothing.text()) for number in range(partitions)]
        await self._call(lambda: self._consumer.commit(offsets=places, asynchronous=False))

    async def first(self, places: Sequence[TopicPartition]) -> list[Message]:
        """The first message at or after each of these places, as far as they can be had in a second."""
        return await self._call(lambda: self._peek(places))

    async def close(self) -> None:
        await self._call(self._consumer.close)

    async def _call(self, call: Callable[[], T]) -> T:
        async with self._calling:
            try:
                return await asyncio.to_thread(call)
            except KafkaException as error:
                raise unavailable(error) from error

    def _peek(self, places: Sequence[TopicPartition]) -> list[Message]:
        found: dict[int | None, Message] = {}
        deadline = monotonic() + _PEEK
        self._consumer.assign(list(places))
        try:
            while len(found) < len(places) and monotonic() < deadline:
                for message in self._consumer.consume(100, 0.05):
                    if message.error() is None:
                        found.setdefault(message.partition(), message)
        finally:
            self._consumer.unassign()
        return list(found.values())
