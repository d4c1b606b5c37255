"""Sources: messages in Redis that create jobs. Kafka and SQS: `test_sources_brokers.py`."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from typer.testing import CliRunner

from duetime import AsyncClient, InvalidInput
from duetime.api.source_reader import SourceReader
from duetime.cli.main import application
from duetime.process.loop import Loop
from duetime.telemetry.meters import Meters
from tests.support.redis_server import RedisServer
from tests.support.served import Served, served
from tests.support.targeting import LOCAL
from tests.support.waiting import eventually

BY_ID = {"task": "ship", "args": {"order": {"$from": "body.id"}}}


def add(redis: RedisServer, body: Any, stream: str = "orders", **fields: str) -> str:
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    return str(redis.client().xadd(stream, {"body": text, **fields}).decode())


def at(redis: RedisServer, **fields: Any) -> dict[str, Any]:
    return {"type": "redis", "address": f"127.0.0.1:{redis.port}", "stream": "orders", "tls": False, **fields}


@asynccontextmanager
async def reading(api: Served, meters: Meters | None = None) -> AsyncIterator[SourceReader]:
    """A node that reads sources."""
    reader = SourceReader(api.service, meters or Meters())
    loop = Loop("sources", reader.tick)
    task = asyncio.create_task(loop.run())
    try:
        yield reader
    finally:
        loop.stop()
        await task
        await reader.close()


async def put(api: Served, broker: dict[str, Any], job: Any = BY_ID, name: str = "orders", **more: Any) -> Any:
    answer = await api.ask("PUT", f"/v1/sources/{name}", {"broker": broker, "job": job, **more})
    assert answer.status == 200, answer.json
    return answer.json


async def until(api: Served, name: str = "orders", **figures: Any) -> Any:
    """The source, once it has these figures."""

    found: Any = None

    async def there() -> Any:
        nonlocal found
        found = (await api.get(f"/v1/sources/{name}")).json
        return found if all(found[each] == value for each, value in figures.items()) else None

    return await eventually(there, what=lambda: f"{figures} in {found}")


async def jobs(api: Served) -> list[Any]:
    """The arguments of all jobs, oldest first."""
    found = (await api.get("/v1/jobs?page_size=200")).json["items"]
    each = [(await api.get(f"/v1/jobs/{item['job_id']}")).json for item in reversed(found)]
    return [job["args"] for job in each]


async def test_messages_become_jobs(quiet_url: str, redis: RedisServer) -> None:
    meters = Meters()
    async with served(quiet_url, allowed_networks=LOCAL) as api, reading(api, meters):
        await api.ask("PUT", "/v1/defaults", {"timeout": 77.0, "priority": "HIGH"})
        add(redis, {"id": 1})
        job = {
            "task": "ship",
            "args": {"id": {"$from": "body.id"}, "who": {"$from": "headers.who", "default": "nobody"}, "n": [1]},
            "queue": "mail",
            "priority": {"$from": "body.urgency", "default": "LOW"},
            "run_in": "1h",
        }
        made = await put(api, at(redis), job)
        assert made["status"] == "idle"
        add(redis, {"id": 2, "urgency": "HIGH"}, who="me")
        await until(api, status="reading", received=2, created=2)
        assert await jobs(api) == [{"id": 1, "who": "nobody", "n": [1]}, {"id": 2, "who": "me", "n": [1]}]
        listed = (await api.get("/v1/jobs")).json["items"]
        one = (await api.get(f"/v1/jobs/{listed[-1]['job_id']}")).json
        assert (one["timeout"], one["priority"]) == (77.0, "LOW"), "a default of the tenant, and what the source says"
        assert [(each["queue"], each["priority"]) for each in listed] == [("mail", "HIGH"), ("mail", "LOW")]
        assert +meters.source_messages == {"created": 2}
        # Redis shows how far it was read, and keeps the entries.
        (group,) = redis.client().xinfo_groups("orders")
        assert (group["name"], group["lag"], redis.client().xlen("orders")) == (b"duetime", 0, 2)
        audit = (await api.get("/v1/audit")).json["items"]
        assert {("sources.set", "orders")} <= {(each["action"], each["object"]) for each in audit}


async def test_a_body_is_the_arguments_and_fields_are_a_body(quiet_url: str, redis: RedisServer) -> None:
    async with served(quiet_url, allowed_networks=LOCAL) as api, reading(api):
        await put(api, at(redis), {"task": "ship"})
        add(redis, {"a": 1})
        redis.client().xadd("orders", {"b": "2"})
        await until(api, created=2)
        assert await jobs(api) == [{"a": 1}, {"b": "2"}]


async def test_a_message_for_a_target(quiet_url: str, redis: RedisServer) -> None:
    async with served(quiet_url, allowed_networks=LOCAL) as api, reading(api):
        target = {"type": "http", "url": "https://shop.example.com/hook", "body": {"$from": "body"}}
        await put(api, at(redis), {"target": target, "run_in": "1h"})
        hostile = {"url": "http://127.0.0.1/", "$from": "headers", "headers": {"Authorization": {"secret": "crm"}}}
        add(redis, hostile)
        await until(api, created=1)
        (item,) = (await api.get("/v1/jobs")).json["items"]
        found = (await api.get(f"/v1/jobs/{item['job_id']}")).json["target"]
        assert found == {**target, "body": hostile}  # a value of a message is never a part of the template


async def test_nothing_is_created_twice(quiet_url: str, redis: RedisServer) -> None:
    async with served(quiet_url, allowed_networks=LOCAL) as api:
        await put(api, at(redis), key="body.id")
        for number in (1, 2, 1):
            add(redis, {"id": number})
        async with reading(api):
            await until(api, received=3, created=2, repeated=1)
        # The group's position decides nothing.
        redis.client().xgroup_setid("orders", "duetime", "0")
        async with reading(api):
            add(redis, {"id": 3})
            await until(api, received=4, created=3)
        # Without marks, as if a reader had died before it could keep them: keys recognise the messages.
        (stored,) = await api.store.sources.sources()
        await api.ask("DELETE", "/v1/sources/orders")
        await put(api, at(redis), key="body.id")
        async with reading(api):
            await until(api, received=4, created=0, repeated=4)
        assert stored.marks
        assert len(await jobs(api)) == 3


async def test_two_readers_of_one_source(quiet_url: str, redis: RedisServer) -> None:
    async with served(quiet_url, allowed_networks=LOCAL) as api, reading(api), reading(api):
        await put(api, at(redis))
        for number in range(50):
            add(redis, {"id": number})
        await until(api, received=50, created=50, repeated=0)
        assert len(await jobs(api)) == 50


async def test_bad_messages_are_recorded_and_do_not_block(quiet_url: str, redis: RedisServer) -> None:
    hostile: list[Any] = [
        b"\xff\xfe",
        "",
        "not json",
        "[" * 100_000,
        '{"id": 1, "id": 2}',
        '{"id": 1e999}',
        '{"id": ' + "9" * 400 + "}",
        '{"other": 1}',
        '"text"',
        "null",
        '{"id": "' + "x" * 1_200_000 + '"}',
    ]
    async with served(quiet_url, allowed_networks=LOCAL) as api, reading(api):
        await put(api, at(redis), {**BY_ID, "priority": {"$from": "body.priority", "default": "LOW"}})
        for each in hostile:
            add(redis, each)
        add(redis, {"id": 7, "priority": "most"})
        add(redis, {"id": 8})
        found = await until(api, received=len(hostile) + 2, created=1, bad=len(hostile) + 1, status="reading")
        assert await jobs(api) == [{"order": 8}]
        assert len(found["bad_messages"]) == 10
        last = found["bad_messages"][-1]
        assert "priority" in last["error"]
        assert last["message"].startswith(f"127.0.0.1:{redis.port}/0/orders/")
        assert all(len(each["error"]) <= 300 for each in found["bad_messages"])


async def test_a_bad_message_can_stop_a_source(quiet_url: str, redis: RedisServer) -> None:
    async with served(quiet_url, allowed_networks=LOCAL) as api, reading(api):
        await put(api, at(redis), on_bad="stop")
        for body in ({"id": 1}, {"wrong": 2}, {"id": 3}):
            add(redis, body)
        found = await until(api, status="stopped", received=1, created=1)
        assert found["reason"] == "the message has no body.id"
        await api.post("/v1/sources/orders/resume", {})
        await until(api, status="stopped", received=1)
        await put(api, at(redis))
        await until(api, status="reading", received=3, created=2, bad=1)
        assert await jobs(api) == [{"order": 1}, {"order": 3}]


async def test_pausing_and_limits(quiet_url: str, redis: RedisServer) -> None:
    async with served(quiet_url, allowed_networks=LOCAL) as api, reading(api):
        await put(api, at(redis), {**BY_ID, "run_in": "1h"}, paused=True)
        add(redis, {"id": 0})
        await asyncio.sleep(0)
        assert (await until(api, status="paused"))["received"] == 0
        await api.post("/v1/sources/orders/resume", {})
        await until(api, received=1)
        await api.ask("PATCH", "/v1/admin/tenants/default", {"limits": {"stored_jobs": 3}})
        for number in range(1, 6):
            add(redis, {"id": number})
        found = await until(api, status="waiting")
        assert "stored jobs" in found["reason"]
        await api.ask("PATCH", "/v1/admin/tenants/default", {"limits": {"stored_jobs": None}})
        await until(api, received=6, created=6, status="reading")
        assert [each["order"] for each in await jobs(api)] == list(range(6))


async def test_a_broker_that_is_away(quiet_url: str) -> None:
    with RedisServer() as redis:
        async with served(quiet_url, allowed_networks=LOCAL) as api, reading(api):
            await put(api, at(redis))
            add(redis, {"id": 1})
            await until(api, created=1)
            redis.stop()
            found = await until(api, status="waiting")
            assert "127.0.0.1" not in found["reason"]
            await asyncio.to_thread(redis.start)
            add(redis, {"id": 2})
            await until(api, created=2, status="reading")


@pytest.mark.parametrize(
    ("broker", "more", "field"),
    [
        ({"address": "10.0.0.1:6379"}, {}, "broker.address"),
        ({"password": {"secret": "absent"}}, {}, "broker.password"),
        ({"type": "kafka", "topic": "t"}, {}, "broker.stream"),
        ({"group": "a b"}, {}, "broker.group"),
        ({}, {"key": "payload.id"}, "key"),
        ({}, {"job": {}}, "job.task"),
        ({}, {"job": {"task": "t", "cron": "* * * * *"}}, "job.cron"),
        ({}, {"job": {"task": "t", "key": "k"}}, "job.key"),
        ({}, {"job": {"task": {"$from": "body.task"}}}, "job.task"),
        ({}, {"job": {"task": "t", "queue": {"$from": "body.queue"}}}, "job.queue"),
        ({}, {"job": {"task": "t", "args": {"a": {"$from": "env.HOME"}}}}, "job.args.a"),
        ({}, {"job": {"task": "t", "args": {"a": {"$from": "body", "x": 1}}}}, "job.args.a"),
        ({}, {"job": {"task": "t", "priority": "most"}}, "job.priority"),
        ({}, {"job": {"task": "t", "priority": {"$from": "body.p", "default": "most"}}}, "job.priority"),
        ({}, {"job": {"target": {"type": "http", "url": {"$from": "body.url"}}}}, "job.target.url"),
        ({}, {"job": {"target": {"type": "http", "url": "http://10.0.0.1/"}}}, "job.target.url"),
        (
            {},
            {"job": {"target": {"type": "http", "url": "https://a.example", "headers": {"A": {"$from": "key"}}}}},
            "job.target.headers.A",
        ),
        ({}, {"job": {"target": {"type": "shell", "command": "rm"}}}, "job.target.command"),
    ],
)
async def test_what_is_refused(quiet_url: str, broker: dict[str, Any], more: dict[str, Any], field: str) -> None:
    async with served(quiet_url) as api:
        place = {"type": "redis", "address": "r.example.com:6379", "stream": "s", **broker}
        answer = await api.ask("PUT", "/v1/sources/orders", {"broker": place, "job": {"task": "t"}, **more})
        assert (answer.status, answer.json.get("field")) == (422, field), answer.json
        assert answer.json["remedy"]
        assert (await api.get("/v1/sources")).json["items"] == []


async def test_the_client_and_the_commands(quiet_url: str, redis: RedisServer) -> None:
    async with served(quiet_url, allowed_networks=LOCAL) as api, reading(api):
        async with AsyncClient(api.url, api.root) as client:
            by_id = await client.put_source("orders", at(redis), {"task": "ship"}, key="body.id")
            assert (by_id.name, by_id.key) == ("orders", "body.id")
            with pytest.raises(InvalidInput):
                await client.put_source("orders", at(redis), {"task": {"$from": "body"}})
            assert (await client.pause_source("orders")).status == "paused"
            assert (await client.resume_source("orders")).status != "paused"
            assert (await client.get_source("orders")).bad == 0

        environ = {"DUETIME_URL": api.url, "DUETIME_KEY": api.root, "NO_COLOR": "1"}

        async def run(*arguments: str) -> Any:
            done = await asyncio.to_thread(CliRunner().invoke, application, [*arguments, "--json"], env=environ)
            assert done.exit_code == 0, done.output
            return json.loads(done.stdout)

        job, place = json.dumps({"task": "ship"}), json.dumps(at(redis))
        assert (await run("sources", "set", "more", "--broker", place, "--job", job, "--on-bad", "stop"))[
            "on_bad"
        ] == "stop"
        assert (await run("sources", "pause", "more"))["status"] == "paused"
        assert (await run("sources", "show", "more"))["name"] == "more"
        shown = await asyncio.to_thread(CliRunner().invoke, application, ["sources"], env=environ)
        assert "orders" in shown.output and "redis" in shown.output
        await run("sources", "delete", "more")
        assert [each["name"] for each in (await api.get("/v1/sources")).json["items"]] == ["orders"]
