"""What is particular to SQS: ten messages a call, and queues that would lose messages."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duetime.errors import InvalidInput, StreamUnavailable
from duetime.streams import sqs_client
from duetime.streams.address import broker_at
from duetime.streams.sqs import SqsBroker, judge
from duetime.streams.sqs_client import SqsClient, endpoint_of, parse
from tests.support.brokers import running
from tests.support.jvm_servers import SqsServer

LONG = 30.0


@pytest.fixture
def server() -> SqsServer:
    found = running(SqsServer)
    assert isinstance(found, SqsServer)
    return found


@pytest.fixture
async def client(server: SqsServer) -> AsyncIterator[SqsClient]:
    client = SqsClient(parse(server.address))
    await client.open()
    yield client
    await client.close()


@pytest.fixture
async def broker(server: SqsServer) -> AsyncIterator[SqsBroker]:
    broker = await broker_at(server.address)
    assert isinstance(broker, SqsBroker)
    await broker.open()
    yield broker
    await broker.close()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """How fast a server of the test answers on a busy machine says nothing."""
    monkeypatch.setattr(sqs_client, "_TIMEOUT", LONG)


def new_stream() -> str:
    return f"test_{random.randrange(2**40)}"


async def test_a_queue_with_a_dead_letter_queue_is_refused(client: SqsClient, broker: SqsBroker) -> None:
    stream, dead = new_stream(), new_stream()
    url = (await client.call("CreateQueue", {"QueueName": dead}))["QueueUrl"]
    answer = await client.call("GetQueueAttributes", {"QueueUrl": url, "AttributeNames": ["QueueArn"]})
    policy = f'{{"deadLetterTargetArn": "{answer["Attributes"]["QueueArn"]}", "maxReceiveCount": "3"}}'
    await client.call("CreateQueue", {"QueueName": stream, "Attributes": {"RedrivePolicy": policy}})
    with pytest.raises(InvalidInput, match="redrive policy") as refused:
        await broker.check([stream])
    assert refused.value.remedy


AS_CREATED = {"MessageRetentionPeriod": "1209600", "MaximumMessageSize": "1048576", "DelaySeconds": "0"}


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"FifoQueue": "true"}, "FIFO"),
        ({"RedrivePolicy": "{}"}, "redrive policy"),
        ({"MessageRetentionPeriod": "345600"}, "345600 seconds"),
        ({"MaximumMessageSize": "1024"}, "messages of 765 bytes"),
    ],
)
def test_attributes_that_would_lose_messages(attributes: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        judge("mail", AS_CREATED | attributes, parse("sqs://eu-central-1"))
    assert refused.value.remedy


def test_what_a_queue_does_is_said() -> None:
    accepting = parse("sqs://eu-central-1?accept_retention=true")
    said = " ".join(judge("mail", AS_CREATED | {"MessageRetentionPeriod": "345600", "DelaySeconds": "5"}, accepting))
    assert "within 96 hours" in said
    assert "delays each message by 5 seconds" in said


def test_the_parts_of_an_address() -> None:
    assert parse("sqs://eu-central-1").region == "eu-central-1"
    assert endpoint_of("eu-central-1") == "https://sqs.eu-central-1.amazonaws.com/"
    assert endpoint_of("cn-north-1") == "https://sqs.cn-north-1.amazonaws.com.cn/"
    given = parse("sqs://key:s%2Fecret@localhost:9324?region=eu-west-1&tls=true")
    assert (given.url, given.region) == ("https://localhost:9324/", "eu-west-1")
    assert given.credentials is not None
    assert (given.credentials.access_key, given.credentials.secret_key) == ("key", "s/ecret")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("sqs://", "not an address"),
        ("sqs://host:port", "not an address"),
        ("sqs://eu-central-1/queue", "not an address"),
        ("sqs://atlantis-1", "'atlantis-1'"),
        ("sqs://eu-central-1?tls=1", "tls '1'"),
        ("sqs://eu-central-1?fifo=true", "'fifo'"),
        ("sqs://key@eu-central-1", "two parts"),
    ],
)
def test_what_is_not_an_address_is_refused_with_its_remedy(address: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        parse(address)
    assert refused.value.remedy


async def test_without_credentials_the_error_says_where_they_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    broker = await broker_at("sqs://127.0.0.1:1")
    with pytest.raises(StreamUnavailable, match="AWS_ACCESS_KEY_ID"):
        await broker.open()
    await broker.close()


async def test_more_than_ten_messages_are_received_at_once(broker: SqsBroker) -> None:
    stream = new_stream()
    await broker.check([stream])
    await broker.publish(stream, [b"%d" % number for number in range(200)])
    consumer = await broker.consumer([stream], "first", LONG)
    found: list[Any] = []
    async with asyncio.timeout(LONG):
        while len(found) < 200:
            more = await consumer.fetch([(stream, 100)], 1)
            assert len(more) <= 100
            found += more
    assert {each.body for each in found} == {b"%d" % number for number in range(200)}
    assert not any(each.redelivered for each in found)
    await consumer.done(found)
    await consumer.close()


async def test_a_message_of_another_program_arrives_as_it_is(client: SqsClient, broker: SqsBroker) -> None:
    """The reader of the stream refuses it."""
    stream = new_stream()
    await broker.check([stream])
    url = (await client.call("GetQueueUrl", {"QueueName": stream}))["QueueUrl"]
    await client.call("SendMessage", {"QueueUrl": url, "MessageBody": "{not ours}"})
    consumer = await broker.consumer([stream], "first", LONG)
    async with asyncio.timeout(LONG):
        while not (found := await consumer.fetch([(stream, 1)], 1)):
            pass
    assert [each.body for each in found] == [b"{not ours}"]
    await consumer.done(found)
    await consumer.close()
