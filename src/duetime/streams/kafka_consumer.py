"""A consumer of several streams of Kafka: a reader for each (`kafka_reader`)."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import TopicPartition

from duetime.clock import monotonic
from duetime.errors import StreamUnavailable
from duetime.streams.kafka_reader import MAY_WAIT, Fenced, Part, StreamReader
from duetime.streams.protocol import Delivery

_TRIM_EVERY = 5.0
"""Seconds after which records that are done are deleted."""
_READ_AHEAD = 2000
"""The most messages that are read before they are asked for: twice what a fetch asks for, so that Kafka's answer to a
commit for the next ones comes while these run."""


class KafkaConsumer:
    def __init__(
        self,
        streams: Sequence[str],
        client: dict[str, Any],
        lease: float,
        trim: Callable[[Sequence[TopicPartition]], Awaitable[None]],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrival = asyncio.Event()
        self._readers = {stream: StreamReader(stream, client, lease, self._arrived) for stream in streams}
        self._slice = lease / 4
        self._trim = trim
        self._trimmed_at = monotonic()
        self._trimming: asyncio.Task[None] | None = None

    async def fetch(self, takes: Sequence[tuple[str, int]], wait: float) -> list[Delivery]:
        asked = [(self._readers[stream], count) for stream, count in takes if count > 0]
        if not asked:
            return []
        deadline = monotonic() + wait
        while True:
            self._hear()
            self._arrival.clear()
            for reader, count in asked:
                reader.want(min(2 * count, _READ_AHEAD))
            taken = [(reader, found) for reader, count in asked if (found := reader.take(count))]
            if taken:
                started = await self._started(taken)
                if started:
                    return started
            failure = next((reader.failure for reader, _ in asked if reader.failure is not None), None)
            if failure is not None:
                raise StreamUnavailable(failure.message, remedy=failure.remedy)
            left = deadline - monotonic()
            if left <= 0:
                return []
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, self._slice)):
                    await self._arrival.wait()

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        # The client's own thread sends heartbeats; a commit shows that Kafka still counts this consumer in.
        self._hear()
        await self._commit({delivery.ref.part for delivery in deliveries})
        for delivery in deliveries:
            delivery.ref.part.reader.extend(delivery)

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        self._hear()
        offsets: dict[Part, list[int]] = defaultdict(list)
        for delivery in deliveries:
            part, offset = delivery.ref
            offsets[part].append(offset)
        for part, of_part in offsets.items():
            part.reader.finish(part, of_part)
        # What belongs to another consumer by now is delivered there, and found done in the store.
        with suppress(Fenced):
            await self._commit(offsets, within=MAY_WAIT)
        if monotonic() - self._trimmed_at > _TRIM_EVERY and (self._trimming is None or self._trimming.done()):
            self._trimming = asyncio.create_task(self._trim_all())

    def takes_part_in(self) -> frozenset[str]:
        return frozenset(stream for stream, reader in self._readers.items() if reader.takes_part)

    def holds(self, delivery: Delivery) -> bool:
        return not delivery.ref.part.lost

    def leave(self, stream: str) -> None:
        self._readers[stream].leave()

    async def close(self) -> None:
        readers = list(self._readers.values())
        try:
            with suppress(StreamUnavailable):
                await self._commit([part for reader in readers for part in reader.owned()])
            if self._trimming is not None:
                await self._trimming
            await self._trim_all()
        finally:
            for reader in readers:
                reader.end()
        await asyncio.gather(*(asyncio.to_thread(reader.ended) for reader in readers))

    async def _started(self, taken: Sequence[tuple[StreamReader, list[Delivery]]]) -> list[Delivery]:
        """The messages of those streams of which Kafka knows that they may be started; the others are returned by a
        later fetch."""
        unannounced = [(reader, reader.unannounced({one.ref.part for one in found})) for reader, found in taken]
        try:
            outcomes = await asyncio.gather(
                *(reader.commit(parts) for reader, parts in unannounced), return_exceptions=True
            )
        except asyncio.CancelledError:
            for reader, found in taken:
                reader.put_back(found)
            raise
        started: list[Delivery] = []
        failures: list[BaseException] = []
        for (reader, found), outcome in zip(taken, outcomes, strict=True):
            if outcome is not None:
                reader.put_back(found)
                failures.append(outcome)
                continue
            started += [one for one in found if not one.ref.part.lost]
        if failures and not started:
            raise failures[0]
        return started

    async def _commit(self, parts: Iterable[Part], *, within: float = 0.0) -> None:
        by_reader: dict[StreamReader, list[Part]] = defaultdict(list)
        for part in parts:
            by_reader[part.reader].append(part)
        outcomes = await asyncio.gather(
            *(reader.commit(of_reader, within=within) for reader, of_reader in by_reader.items()),
            return_exceptions=True,
        )
        failures = [outcome for outcome in outcomes if outcome is not None]
        if failures:
            raise next((failure for failure in failures if not isinstance(failure, Fenced)), failures[0])

    async def _trim_all(self) -> None:
        self._trimmed_at = monotonic()
        places = [place for reader in self._readers.values() for place in reader.finished_ranges()]
        if places:
            # They are deleted with the next ones.
            with suppress(StreamUnavailable):
                await self._trim(places)

    def _hear(self) -> None:
        for reader in self._readers.values():
            reader.hear()

    def _arrived(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._arrival.set)
