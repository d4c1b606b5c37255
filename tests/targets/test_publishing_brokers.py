"""Targets that publish to Kafka, SQS and RabbitMQ."""

import asyncio
from typing import Any

from duetime.streams.sqs_client import SqsClient, parse
from tests.support.brokers import running
from tests.support.jvm_servers import KafkaServer, SqsServer
from tests.support.rabbit_server import RabbitServer
from tests.support.targeting import Targeting, targeting

AWS = {"access_key_id": "test", "secret_access_key": {"secret": "aws"}, "region": "us-east-1"}


def ours(run: Any, headers: dict[str, str]) -> bool:
    """Whether a message says which run published it."""
    said = (headers["idempotency-key"], headers["duetime-job"], headers["duetime-attempt"])
    return said == (run["run_id"], run["job_id"], "1") and bool(headers["traceparent"])


def create_topic(server: KafkaServer, topic: str, partitions: int = 3) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{server.port}"})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result()


def read_topic(server: KafkaServer, topic: str, count: int) -> list[Any]:
    from confluent_kafka import Consumer

    reader = Consumer(
        {"bootstrap.servers": f"127.0.0.1:{server.port}", "group.id": "test", "auto.offset.reset": "earliest"}
    )
    reader.subscribe([topic])
    found: list[Any] = []
    while len(found) < count:
        found += [message for message in reader.consume(count, 1.0) if message.error() is None]
    reader.close()
    return found


async def test_kafka(quiet_url: str) -> None:
    server = running(KafkaServer)
    assert isinstance(server, KafkaServer)
    create_topic(server, "orders")
    place = f"127.0.0.1:{server.port}"
    target = {"type": "kafka", "address": place, "topic": "orders", "tls": False}
    async with targeting(quiet_url, kafka_clusters=(place,)) as targets:
        run = await targets.ended(target={**target, "key": "k", "headers": {"Kind": "paid"}, "body": {"order": 7}})
        assert run["status"] == "SUCCEEDED", run
        again = await targets.ended(target={**target, "key": "k", "body": "again"})
        tombstone = await targets.ended(target={**target, "key": "k"})
        assert {each["result"]["partition"] for each in (again, tombstone)} == {run["result"]["partition"]}
        first, second, third = await asyncio.to_thread(read_topic, server, "orders", 3)
        assert (first.key(), first.value(), first.offset()) == (b"k", b'{"order":7}', run["result"]["offset"])
        assert (second.value(), third.value()) == (b"again", None)
        headers = {name: value.decode() for name, value in first.headers()}
        assert headers["kind"] == "paid"
        assert ours(run, headers)

        refused = await targets.ended(target={**target, "topic": "absent", "body": "x"}, retries=3)
        assert (refused["status"], refused["attempt"]) == ("FAILED", 1), refused
        assert "nknown topic" in refused["error"]
        refused = await targets.ended(target={**target, "tls": True, "body": "x"}, timeout="3s")
        assert refused["status"] == "FAILED"
        assert "SSL" in refused["error"]


async def test_sqs(quiet_url: str) -> None:
    server = running(SqsServer)
    client = SqsClient(parse(server.address))
    await client.open()
    try:
        for name, attributes in (("plain", {}), ("ordered.fifo", {"FifoQueue": "true"})):
            await client.call("CreateQueue", {"QueueName": name, "Attributes": attributes})

        async def received(name: str) -> list[Any]:
            request = {
                "QueueUrl": url(name),
                "MaxNumberOfMessages": 10,
                "MessageAttributeNames": ["All"],
                "MessageSystemAttributeNames": ["All"],
            }
            return (await client.call("ReceiveMessage", request)).get("Messages") or []

        def url(name: str) -> str:
            return f"http://127.0.0.1:{server.port}/000000000000/{name}"

        async with targeting(quiet_url) as targets:
            secret = {"value": "test-test", "hosts": [f"127.0.0.1:{server.port}"]}
            await targets.api.ask("PUT", "/v1/secrets/aws", secret)
            target = {"type": "sqs", "queue_url": url("plain"), **AWS}
            run = await targets.ended(target={**target, "headers": {"Kind": "paid"}, "body": {"order": 7}})
            assert run["status"] == "SUCCEEDED", run
            [message] = await received("plain")
            assert (message["Body"], message["MessageId"]) == ('{"order":7}', run["result"]["message_id"])
            headers = {name: value["StringValue"] for name, value in message["MessageAttributes"].items()}
            assert headers["kind"] == "paid"
            assert ours(run, headers)

            run = await targets.ended(target={**target, "queue_url": url("ordered.fifo"), "key": "g", "body": "x"})
            assert run["status"] == "SUCCEEDED", run
            [message] = await received("ordered.fifo")
            assert message["Attributes"]["MessageDeduplicationId"] == run["run_id"]

            refused = await targets.ended(target={**target, "queue_url": url("absent"), "body": "x"}, retries=3)
            assert (refused["status"], refused["attempt"]) == ("FAILED", 1), refused
    finally:
        await client.close()


async def test_rabbitmq(quiet_url: str) -> None:
    from aiormq.connection import Connection

    server = running(RabbitServer)
    connection = Connection(server.address)
    await connection.connect()
    channel = await connection.channel()
    await channel.queue_declare("published", durable=True)
    await channel.exchange_declare("paid", exchange_type="topic")
    await channel.queue_bind("published", "paid", "order.#")
    target = {"type": "rabbitmq", "address": f"127.0.0.1:{server.port}", "routing_key": "published", "tls": False}
    try:
        async with targeting(quiet_url) as targets:
            for each in (target, {**target, "exchange": "paid", "routing_key": "order.7"}):
                run = await targets.ended(target={**each, "headers": {"Kind": "paid"}, "body": {"order": 7}})
                assert run["status"] == "SUCCEEDED", run
                got = await channel.basic_get("published", no_ack=True)
                assert got.body == b'{"order":7}'
                assert got.header.properties.message_id == run["run_id"]
                assert ours(run, got.header.properties.headers)

            for field in ("routing_key", "exchange", "vhost", "username"):
                await _fails_at_once(targets, {**target, field: "absent"})
            assert (await targets.ended(target=target))["status"] == "SUCCEEDED"
    finally:
        await connection.close()


async def _fails_at_once(targets: Targeting, target: dict[str, Any]) -> None:
    refused = await targets.ended(target=target, retries=3)
    assert (refused["status"], refused["attempt"]) == ("FAILED", 1), refused
    assert refused["error"].startswith("RabbitMQ: ")
