"""Sources on Kafka and SQS."""

import asyncio
import json
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from duetime.streams.sqs_client import SqsClient, parse
from tests.integration.test_sources import BY_ID, jobs, put, reading, until
from tests.support.brokers import running
from tests.support.jvm_servers import KafkaServer, SqsServer
from tests.support.served import served
from tests.support.targeting import LOCAL
from tests.targets.test_publishing_brokers import create_topic


def produce(place: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": place})
    for number in numbers:
        producer.produce(topic, json.dumps({"id": number}), key=str(number), headers={"Kind": "paid"})
    producer.flush()


def committed(place: str, topic: str) -> int:
    reader = Consumer({"bootstrap.servers": place, "group.id": "duetime"})
    found = reader.committed([TopicPartition(topic, number) for number in range(3)], timeout=10)
    reader.close()
    return sum(max(0, each.offset) for each in found)


def reset(place: str, topic: str) -> None:
    reader = Consumer({"bootstrap.servers": place, "group.id": "duetime", "enable.auto.commit": False})
    reader.commit(offsets=[TopicPartition(topic, number, 0) for number in range(3)], asynchronous=False)
    reader.close()


async def test_kafka(quiet_url: str) -> None:
    server = running(KafkaServer)
    assert isinstance(server, KafkaServer)
    place, topic = f"127.0.0.1:{server.port}", "to-read"
    create_topic(server, topic)
    broker = {"type": "kafka", "address": place, "topic": topic, "tls": False}
    job = {
        "task": "ship",
        "args": {"order": {"$from": "body.id"}, "key": {"$from": "key"}, "kind": {"$from": "headers.kind"}},
    }
    produce(place, topic, range(20))
    async with served(quiet_url, kafka_clusters=(place,), allowed_networks=LOCAL) as api:
        await put(api, broker, job)
        async with reading(api):
            await until(api, received=20, created=20)
            found = sorted(await jobs(api), key=lambda each: each["order"])
            assert found == [{"order": number, "key": str(number), "kind": "paid"} for number in range(20)]
        assert await asyncio.to_thread(committed, place, topic) == 20

        # A reset of the group's offsets creates nothing, and the next messages are read.
        await asyncio.to_thread(reset, place, topic)
        await asyncio.to_thread(produce, place, topic, range(20, 25))
        async with reading(api):
            await until(api, received=25, created=25, repeated=0)

        # Another topic with the same name has the same offsets, and other messages.
        admin = AdminClient({"bootstrap.servers": place})
        await asyncio.to_thread(admin.delete_topics([topic])[topic].result)
        await asyncio.sleep(1)
        await asyncio.to_thread(create_topic, server, topic)
        await asyncio.to_thread(produce, place, topic, range(100, 110))
        async with reading(api):
            await until(api, received=35, created=35, repeated=0)

        # Without the position, keys recognise what was read.
        await api.ask("DELETE", "/v1/sources/orders")
        await put(api, broker, job)
        async with reading(api):
            await until(api, received=10, repeated=10)
        assert len(await jobs(api)) == 35


async def test_sqs(quiet_url: str) -> None:
    server = running(SqsServer)
    client = SqsClient(parse(server.address))
    await client.open()
    url = f"http://127.0.0.1:{server.port}/000000000000/to-read"
    try:
        await client.call("CreateQueue", {"QueueName": "to-read"})

        async def send(body: Any) -> None:
            await client.call("SendMessage", {"QueueUrl": url, "MessageBody": body})

        for number in range(25):
            await send(json.dumps({"id": number}))
        await send("not json")
        await send(json.dumps({"id": 3}))
        secret = {"value": "test-test", "hosts": [f"127.0.0.1:{server.port}"]}
        login = {"access_key_id": "test", "secret_access_key": {"secret": "aws"}, "region": "us-east-1"}
        async with served(quiet_url, allowed_networks=LOCAL) as api, reading(api):
            await api.ask("PUT", "/v1/secrets/aws", secret)
            await put(api, {"type": "sqs", "queue_url": url, **login}, BY_ID, key="body.id")
            await until(api, received=27, created=25, repeated=1, bad=1)
            assert sorted(each["order"] for each in await jobs(api)) == list(range(25))
            counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
            left = await client.call("GetQueueAttributes", {"QueueUrl": url, "AttributeNames": counts})
            assert left["Attributes"] == dict.fromkeys(counts, "0")
    finally:
        await client.close()
