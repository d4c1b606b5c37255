"""Targets that publish a message: what is refused, and Redis. Other brokers: `test_publishing_brokers.py`."""

import asyncio
import json
import logging
from typing import Any

import pytest
from typer.testing import CliRunner

from duetime import App, InvalidInput, RedisTarget, SecretValue
from duetime.cli.main import application
from duetime.settings import Settings
from duetime.targets.validation import TargetRules
from tests.support.redis_server import RedisServer
from tests.support.targeting import targeting
from tests.support.working import quick_settings

PASSWORD = "hunter2-hunter2"
SQS = "https://sqs.eu-central-1.amazonaws.com/1/jobs"
SECRET = {"secret": "s"}
AWS = {"access_key_id": "AKIA", "secret_access_key": SECRET, "body": "x"}


def to_redis(server: RedisServer, stream: str = "orders", **fields: Any) -> dict[str, Any]:
    return {"type": "redis", "address": f"127.0.0.1:{server.port}", "stream": stream, "tls": False, **fields}


@pytest.mark.parametrize(
    ("target", "task"),
    [
        ({"type": "kafka", "address": "kafka1:9092, kafka2:9092", "topic": "orders"}, "duetime.kafka/kafka1:9092"),
        ({"type": "redis", "address": "r.example.com:6379", "stream": "s"}, "duetime.redis/r.example.com:6379"),
        ({"type": "sqs", "queue_url": SQS, **AWS}, "duetime.sqs/sqs.eu-central-1.amazonaws.com"),
        (
            {"type": "rabbitmq", "address": "mq.example.com:5671", "routing_key": "jobs"},
            "duetime.rabbitmq/mq.example.com:5671",
        ),
    ],
)
def test_each_broker_has_its_own_lanes(target: dict[str, Any], task: str) -> None:
    rules = TargetRules(Settings(kafka_clusters=("kafka1:9092", "kafka2:9092")))
    made = rules.make(target)
    assert made.task == task
    assert made.args.items() <= target.items()


@pytest.mark.parametrize(
    ("target", "field"),
    [
        # Addresses.
        ({"type": "redis", "address": "127.0.0.1:6379", "stream": "s"}, "target.address"),
        ({"type": "redis", "address": "redis://r.example.com:6379", "stream": "s"}, "target.address"),
        ({"type": "redis", "address": "user:pw@r.example.com:6379", "stream": "s"}, "target.address"),
        ({"type": "redis", "address": "r.example.com:6379\r\n", "stream": "s"}, "target.address"),
        ({"type": "redis", "address": "0x7f000001:6379", "stream": "s"}, "target.address"),
        ({"type": "rabbitmq", "address": "169.254.169.254:5672", "routing_key": "k"}, "target.address"),
        ({"type": "sqs", "queue_url": "http://169.254.169.254/1/q", "region": "eu-west-1", **AWS}, "target.queue_url"),
        ({"type": "sqs", "queue_url": "file:///etc/passwd", **AWS}, "target.queue_url"),
        ({"type": "sqs", "queue_url": "https://queues.example.com/1/q", **AWS}, "target.region"),
        ({"type": "kafka", "address": "kafka2:9092", "topic": "t"}, "target.address"),
        ({"type": "kafka", "address": "kafka1:9092,kafka2:9092", "topic": "t"}, "target.address"),
        ({"type": "kafka", "address": "kafka1:9092,", "topic": "t"}, "target.address"),
        # Logins.
        ({"type": "kafka", "address": "kafka1:9092", "topic": "t", "username": "u"}, "target.password"),
        ({"type": "kafka", "address": "kafka1:9092", "topic": "t", "password": SECRET}, "target.username"),
        ({"type": "redis", "address": "r.example.com:1", "stream": "s", "password": "plain"}, "target"),
        (
            {"type": "redis", "address": "r.example.com:1", "stream": "s", "password": {**SECRET, "prefix": "x"}},
            "target.password.prefix",
        ),
        ({"type": "sqs", "queue_url": SQS, "access_key_id": "AKIA", "body": "x"}, "target"),
        # Messages.
        ({"type": "kafka", "address": "kafka1:9092", "topic": "a/b"}, "target"),
        ({"type": "kafka", "address": "kafka1:9092", "topic": "t", "partition": 1}, "target"),
        ({"type": "redis", "address": "r.example.com:1", "stream": "s", "headers": {"Key": "x"}}, "target.headers.Key"),
        (
            {"type": "redis", "address": "r.example.com:1", "stream": "s", "headers": {"duetime-job": "x"}},
            "target.headers.duetime-job",
        ),
        ({"type": "sqs", "queue_url": SQS, **AWS, "headers": {str(n): "" for n in range(6)}}, "target"),
        ({"type": "sqs", "queue_url": SQS, **AWS, "body": ""}, "target.body"),
        ({"type": "sqs", "queue_url": SQS, **AWS, "body": "a\x01"}, "target.body"),
        ({"type": "sqs", "queue_url": f"{SQS}.fifo", **AWS}, "target.key"),
    ],
)
def test_what_cannot_be_published_is_refused(target: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        TargetRules(Settings(kafka_clusters=("kafka1:9092",))).make(target)
    assert refused.value.field == field
    assert refused.value.remedy


async def test_a_message_in_a_redis_stream(quiet_url: str, redis: RedisServer) -> None:
    async with targeting(quiet_url) as targets:
        target = to_redis(redis, key="7", headers={"Kind": "paid"}, body={"order": 7})
        run = await targets.ended(target=target)
        assert run["status"] == "SUCCEEDED", run
        [(entry, fields)] = redis.client().xrange("orders")
        assert run["result"] == {"stream": "orders", "id": entry.decode()}
        found = {name.decode(): value.decode() for name, value in fields.items()}
        assert found | {"key": "7", "body": '{"order":7}', "kind": "paid"} == found
        assert (found["idempotency-key"], found["duetime-attempt"]) == (run["run_id"], "1")
        assert found["duetime-job"] == run["job_id"]

        # Text is sent as it is; a stream is trimmed if the target says so.
        run = await targets.ended(target=to_redis(redis, "log", body='{"a": 1}', max_length=1))
        assert redis.client().xrange("log")[0][1][b"body"] == b'{"a": 1}'


async def test_what_redis_refuses(quiet_url: str, redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    redis.client().set("text", "x")
    may = {"keys": ["orders"], "commands": ["+xadd"]}
    redis.client().acl_setuser("publisher", enabled=True, passwords=[f"+{PASSWORD}"], **may)
    place = f"127.0.0.1:{redis.port}"
    async with targeting(quiet_url) as targets:
        run = await targets.ended(target=to_redis(redis, "text"), retries=3)
        assert (run["status"], run["attempt"]) == ("FAILED", 1)
        assert "WRONGTYPE" in run["error"]

        # A login needs a secret that is bound to the server.
        login = to_redis(redis, username="publisher", password={"secret": "redis"})
        answer = await targets.api.post("/v1/jobs", {"target": login})
        assert (answer.status, answer.json["field"]) == (422, "target.password")
        await targets.api.ask("PUT", "/v1/secrets/redis", {"value": PASSWORD, "hosts": ["127.0.0.1:1"]})
        answer = await targets.api.post("/v1/jobs", {"target": login})
        assert (answer.status, answer.json["field"]) == (422, "target.password")
        await targets.api.ask("PUT", "/v1/secrets/redis", {"value": PASSWORD, "hosts": [place]})
        assert (await targets.ended(target=login))["status"] == "SUCCEEDED"
        run = await targets.ended(target={**login, "stream": "other"}, retries=3)
        assert (run["status"], run["attempt"]) == ("FAILED", 1)

        # The text that Redis answers may repeat what it was sent.
        await targets.api.ask("PUT", "/v1/secrets/redis", {"value": f"{PASSWORD}-wrong", "hosts": [place]})
        await asyncio.sleep(0)
        run = await targets.ended(target={**login, "username": "other", "stream": PASSWORD}, retries=3)
        assert run["status"] == "FAILED"
        assert f"{PASSWORD}-wrong" not in run["error"] + caplog.text


async def test_a_server_that_is_away_is_tried_again(quiet_url: str) -> None:
    with RedisServer() as redis:
        target = to_redis(redis)
        redis.stop()
        async with targeting(quiet_url) as targets:
            often = {"retry": {"retries": 50, "base": 0.2, "factor": 1.0}, "retries": None}
            run_id = await targets.submit(target=target, **often)
            run = await targets.until(run_id, "RETRYING")
            assert "127.0.0.1" not in json.dumps(run["error"])
            await asyncio.to_thread(redis.start)
            run = await targets.until(run_id)
            assert run["status"] == "SUCCEEDED"
            [(_, fields)] = redis.client().xrange("orders")
            assert fields[b"duetime-attempt"].decode() == str(run["attempt"])


async def test_a_connection_goes_only_to_addresses_that_were_checked(
    quiet_url: str, redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    async def lookup(host: str, port: int) -> list[tuple[int, str]]:
        asked.append(host)
        return [(2, "127.0.0.1")]

    caplog.set_level(logging.INFO)
    target = {**to_redis(redis), "address": f"redis.example.com:{redis.port}"}
    async with targeting(quiet_url, lookup=lookup) as targets:
        assert (await targets.ended(target=target))["status"] == "SUCCEEDED"
        assert (await targets.ended(target=target))["status"] == "SUCCEEDED"
        assert asked == ["redis.example.com"]  # one connection, which goes to the address that was checked
    async with targeting(quiet_url, lookup=lookup, allowed_networks=()) as targets:
        run = await targets.ended(target=target)
        assert run["error"].startswith("not published: redis.example.com has a non-public address")
    assert len(redis.client().xrange("orders")) == 2


async def test_a_server_cannot_fill_the_memory(quiet_url: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"$1000000000\r\n")
        sent = 0
        try:
            while sent < 1_000_000_000:
                writer.write(b"x" * 65536)
                sent += 65536
                await writer.drain()
        except OSError:
            pass
        served.append(sent)
        writer.close()

    served: list[int] = []
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, targeting(quiet_url) as targets:
        target = {"type": "redis", "address": f"127.0.0.1:{port}", "stream": "s", "tls": False}
        run = await targets.ended(target=target)
        assert run["status"] == "FAILED"
        assert "the answer is too large" in run["error"]
    assert served[0] < 50_000_000


async def test_apps_and_commands_publish(quiet_url: str, redis: RedisServer) -> None:
    target = RedisTarget(address="r.example.com:6379", stream="s", password=SecretValue("pw"), body={"a": 1})
    async with App(settings=quick_settings(quiet_url)) as app:
        receipt = await app.submit(target, run_in="1h")
        assert (await app.job(receipt)).task == "duetime.redis/r.example.com:6379"
    async with targeting(quiet_url) as targets:
        environ = {"DUETIME_URL": targets.api.url, "DUETIME_KEY": targets.api.root, "NO_COLOR": "1"}
        called = ["submit", "--target", json.dumps(to_redis(redis, body="hi")), "--json"]
        done = await asyncio.to_thread(CliRunner().invoke, application, called, env=environ)
        assert done.exit_code == 0, done.output
        assert (await targets.until(json.loads(done.stdout)["run_id"]))["status"] == "SUCCEEDED"
        graph = {"nodes": {"one": {"target": to_redis(redis, body="1")}}}
        answer = await targets.api.post("/v1/graphs", graph)
        assert answer.status == 201, answer.json
