"""Through a Kafka topic to history: packed messages, 500 in a read, history written while the next are read, then the
offsets committed. One broker, all replicas acknowledge, one connection to each, durable commits, and no check for
messages that come twice."""

import asyncio
import time
import uuid
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import asyncpg
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka import Message as Record
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.limits.drain import BATCH, TABLES
from bench.limits.stream import Drained, bodies, decode, write_history
from duetime.ids import new_ids

PARTITIONS = 3


async def drain_kafka(dsn: str, servers: str, runs: int) -> Drained:
    """From a topic to history; from the first message that the consumer gets."""
    topic = f"pinned-{uuid.uuid4().hex[:12]}"
    await asyncio.to_thread(_fill, servers, topic, runs)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 10,
        }
    )
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(TABLES)
        consumer.subscribe([topic])
        return await _drain(consumer, connection, runs)
    finally:
        await asyncio.to_thread(consumer.close)
        await connection.close()


def _fill(servers: str, topic: str, runs: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for made in admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1)]).values():
        made.result()
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 5})
    for batch in bodies(runs):
        for body in batch:
            producer.produce(topic, body)
        producer.flush()


async def _drain(consumer: Consumer, connection: "asyncpg.Connection[Any]", runs: int) -> Drained:
    worker = new_ids(1)[0]
    writing: asyncio.Task[None] | None = None
    done, began, spent = 0, 0.0, 0.0
    while done < runs:
        records = await asyncio.to_thread(consumer.consume, BATCH, 1.0)
        if not records:
            continue
        if not began:
            began, spent = time.perf_counter(), time.process_time()
        if writing is not None:
            await writing
        writing = asyncio.create_task(_write(consumer, connection, worker, records))
        done += len(records)
    if writing is not None:
        await writing
    return Drained(runs / (time.perf_counter() - began), (time.process_time() - spent) / runs * 1e6)


async def _write(
    consumer: Consumer, connection: "asyncpg.Connection[Any]", worker: UUID, records: Sequence[Record]
) -> None:
    await write_history(connection, worker, [decode(record.value() or b"") for record in records])
    ends: dict[tuple[str, int], int] = {}
    for record in records:
        ends[record.topic() or "", record.partition() or 0] = (record.offset() or 0) + 1
    consumer.commit(offsets=[TopicPartition(*place, offset) for place, offset in ends.items()], asynchronous=True)
