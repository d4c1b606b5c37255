"""A queue goes through a stream: who may set it, what is checked first, what is shown."""

import asyncio
from collections.abc import Iterator
from itertools import product
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

from duetime.cli.main import application
from duetime.engine.configured_streams import ConfiguredStreams
from duetime.model.access import Role
from duetime.model.job import DEFAULT_TENANT
from tests.contract.hands import hand
from tests.support.brokers import running
from tests.support.dumps import dumped
from tests.support.postgres import free_port
from tests.support.redis_server import RedisServer
from tests.support.served import Answer, Served, served
from tests.support.waiting import eventually

SECRET = "s3cret-of-the-broker"


@pytest.fixture
def redis() -> RedisServer:
    server = running(RedisServer)
    assert isinstance(server, RedisServer)
    return server


@pytest.fixture
def guarded() -> Iterator[RedisServer]:
    """A broker that asks for a password."""
    if (reason := RedisServer.missing()) is not None:
        pytest.skip(reason)
    with RedisServer() as server:
        with server.client() as client:
            client.config_set("requirepass", SECRET)
        yield server


async def put(api: Served, body: Any, queue: str = "mail", **how: Any) -> Answer:
    return await api.ask("PUT", f"/v1/queues/{queue}", body, **how)


async def current(api: Served) -> list[tuple[str, str]]:
    return [(each.queue, each.settings.address) for each in await api.store.streams.stream_queues() if each.current]


async def test_a_queue_is_set_to_a_stream_and_back(api: Served, redis: RedisServer) -> None:
    answer = await put(api, {"stream": {"address": redis.address, "max_depth": 10, "fallback": True}})
    assert answer.status == 200, answer.json
    view = answer.json
    assert view["kind"] == "stream"
    assert view["stream"] == {
        "broker": "redis",
        "address": redis.address,
        "only": False,
        "fallback": True,
        "max_depth": 10,
        "replicas": None,
        "generation": 1,
    }
    assert view["notes"], "how durable a run is"
    with redis.client() as client:
        assert client.exists("duetime_1_mail_high_1"), "the streams exist before the first run"
    changed = (await put(api, {"stream": {"max_depth": None, "only": True}})).json["stream"]
    assert (changed["max_depth"], changed["only"], changed["fallback"], changed["generation"]) == (None, True, True, 1)
    other = (await put(api, {"stream": {"address": redis.address.replace("/0", "/1")}})).json
    assert (other["stream"]["generation"], other["earlier_streams"]) == (2, 1)
    back = await put(api, {"stream": None})
    assert (back.json["kind"], back.json["stream"], back.json["earlier_streams"]) == ("store", None, 2)
    assert await current(api) == []
    actions = [each.entry.action for each in await api.store.audit.audit(DEFAULT_TENANT, None, 10)]
    assert actions.count("queues.stream") == 4


async def test_a_queue_without_runs_is_listed_with_its_stream(api: Served, redis: RedisServer) -> None:
    own = f"{redis.address}?prefix={uuid4().hex[:8]}"
    await put(api, {"stream": {"address": own}})
    await api.post("/v1/jobs", {"task": "t", "queue": "alpha"})
    submitted = await api.post("/v1/jobs", {"task": "t", "queue": "mail", "priority": "HIGH"})
    assert submitted.status == 201, submitted.json
    items = (await api.get("/v1/queues")).json["items"]
    assert [(item["name"], item["kind"]) for item in items] == [("alpha", "store"), ("mail", "stream")]
    assert items[0]["in_streams"] == []

    async def inside() -> list[tuple[str, int]]:
        found = (await api.get("/v1/queues/mail")).json["in_streams"]
        return [(each["priority"], each["depth"]) for each in found]

    await eventually(inside)  # depths are sampled
    assert await inside() == [("HIGH", 1)]


async def test_what_is_in_a_stream_needs_workers(api: Served) -> None:
    """And while its broker does not answer, no live worker is given up."""
    if (reason := RedisServer.missing()) is not None:
        pytest.skip(reason)
    await hand(api.store)

    async def demand() -> dict[str, Any]:
        found = await api.get("/v1/queues/default/demand?slots=5&lag=1s&duration=1h")
        assert found.status == 200, found.json
        told: dict[str, Any] = found.json
        return told

    with RedisServer() as broker:
        assert (await put(api, {"stream": {"address": broker.address}}, "default")).status == 200
        for _ in range(12):
            assert (await api.post("/v1/jobs", {"task": "greet"})).json["via"] == "stream"

        async def seen() -> bool:
            return (await demand())["in_streams"] == 12

        await eventually(seen)  # depths are sampled, and answers are shared for some seconds
        found = await demand()
        assert (found["workers"], found["waiting"], found["live_workers"]) == (3, 0, 1)

    async def gone() -> bool:
        return any("broker" in note for note in (await demand())["notes"])

    await eventually(gone)
    assert ((await demand())["workers"], (await demand())["in_streams"]) == (1, 0)


async def test_only_a_root_key_sets_a_stream(api: Served, redis: RedisServer) -> None:
    for role, stream in product((Role.ADMIN, Role.OPERATOR), ({"address": redis.address}, None)):
        key = await api.key(role)
        refused = await put(api, {"stream": stream, "running": 3}, key=key)
        assert (refused.status, refused.code, refused.json["field"]) == (403, "forbidden", "stream")
    assert await current(api) == []
    assert (await api.get("/v1/queues/mail")).json["running_limit"] is None, "nothing changed"
    assert (await put(api, {"running": 3}, key=key)).status == 200


async def test_a_password_is_never_shown_and_the_address_only_to_root(
    api: Served, database_url: str, guarded: RedisServer
) -> None:
    address = guarded.address.replace("redis://", f"redis://:{SECRET}@")
    answer = await put(api, {"stream": {"address": address}})
    assert answer.status == 200, answer.json
    shown = answer.json["stream"]["address"]
    assert "***" in shown and str(guarded.port) in shown
    seen = [answer, await api.get("/v1/queues"), await api.get("/v1/queues/mail"), await api.get("/v1/audit")]
    viewer = await api.get("/v1/queues/mail", key=await api.key(Role.VIEWER))
    assert (viewer.json["stream"]["broker"], viewer.json["stream"]["address"]) == ("redis", None)
    assert all(SECRET.encode() not in each.body for each in (*seen, viewer))
    trail = await api.get("/v1/audit", key=await api.key(Role.ADMIN))
    assert trail.json["items"][0]["detail"] == "redis, generation 1"
    assert str(guarded.port).encode() not in trail.body, "only a root key sees addresses"
    await api.service.tick()
    assert not any(SECRET.encode() in value for _, _, value in dumped(database_url)), "the database does not have it"
    assert await current(api) == [("mail", address)]
    kept = await put(api, {"stream": {"only": True}})
    assert (kept.status, kept.json["stream"]["generation"]) == (200, 1)
    wrong = await put(api, {"stream": {"address": guarded.address}})
    assert wrong.status in (422, 503)
    assert SECRET.encode() not in wrong.body
    assert await current(api) == [("mail", address)]


WRONG: list[tuple[Any, str]] = [
    ({}, "stream"),
    ({"only": True}, "stream"),
    ({"address": "ftp://a"}, "stream"),
    ({"address": "redis"}, "stream"),
    ({"address": ""}, "stream.address"),
    ({"address": "redis://h/0?prefix=%2F"}, "stream"),
    ({"address": "sqs://eu-west-1", "replicas": 1}, "replicas"),
    ({"address": "redis://h/0", "max_depth": 0}, "stream.max_depth"),
    ({"address": "redis://h/0", "replicas": 0}, "stream.replicas"),
    ({"address": "redis://h/0", "depth": 1}, "stream.depth"),
]


async def test_a_wrong_stream_is_refused(api: Served) -> None:
    for stream, field in WRONG:
        answer = await put(api, {"stream": stream})
        assert (answer.status, answer.json["field"]) == (422, field), answer.json
    assert await api.store.streams.stream_queues() == []


async def test_a_broker_that_does_not_answer_changes_nothing(api: Served) -> None:
    answer = await put(api, {"stream": {"address": f"redis://127.0.0.1:{free_port()}/0"}, "running": None})
    assert (answer.status, answer.code, answer.json["field"]) == (503, "broker_unavailable", "stream.address")
    assert "Redis: " in answer.json["detail"]
    assert answer.json["detail"].endswith(": nothing was changed")
    assert await api.store.streams.stream_queues() == []


async def test_a_broker_that_would_lose_runs_is_refused(api: Served) -> None:
    if (reason := RedisServer.missing()) is not None:
        pytest.skip(reason)
    with RedisServer(maxmemory="100mb", maxmemory_policy="allkeys-lru") as evicting:
        answer = await put(api, {"stream": {"address": evicting.address}})
    assert (answer.status, answer.code) == (422, "invalid_input")
    assert "noeviction" in answer.body.decode()
    assert await api.store.streams.stream_queues() == []


async def test_a_queue_has_limits_or_a_stream(api: Served, redis: RedisServer) -> None:
    stream = {"stream": {"address": redis.address}}
    for limit in ({"running": 5}, {"rate": "10/s"}):
        assert (await put(api, limit)).status == 200
        refused = await put(api, stream)
        assert (refused.status, refused.json["field"]) == (422, "stream")
        together = await put(api, {**stream, **limit})
        assert (together.status, await current(api)) == (422, [])
        assert (await put(api, dict.fromkeys(limit))).status == 200
    await put(api, {"running": 5})
    both = await put(api, {**stream, "running": None})
    assert (both.status, both.json["kind"], both.json["running_limit"]) == (200, "stream", None)
    for limit in ({"running": 5}, {"rate": "10/s"}):
        refused = await put(api, limit)
        assert (refused.status, refused.json["field"]) == (422, next(iter(limit)))
    back = await put(api, {"stream": None, "running": 5})
    assert (back.status, back.json["kind"], back.json["running_limit"]) == (200, "store", 5)


async def test_a_server_without_keys_says_that_the_stream_is_open(database_url: str, redis: RedisServer) -> None:
    async with served(database_url, encryption_keys=()) as api:
        answer = await put(api, {"stream": {"address": redis.address}})
        assert any("encryption keys" in note for note in answer.json["notes"])
        assert any("encryption keys" in note for note in (await api.get("/v1/queues/mail")).json["notes"])


async def test_the_command_sets_and_shows_a_stream(api: Served, redis: RedisServer) -> None:
    environ = {"DUETIME_URL": api.url, "DUETIME_KEY": api.root, "COLUMNS": "200", "NO_COLOR": "1"}

    async def queues(*arguments: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, application, ("queues", *arguments), env=environ)

    made = await queues("set", "mail", "--stream", redis.address, "--only", "--fallback", "--max-depth", "100")
    assert made.exit_code == 0, made.output
    assert redis.address in made.stdout
    assert made.stderr.strip(), "the sentences of the check"
    (queue,) = await api.store.streams.stream_queues()
    assert (queue.settings.only, queue.settings.fallback, queue.settings.max_depth) == (True, True, 100)
    assert (await queues("set", "mail", "--not-only", "--max-depth", "none")).exit_code == 0
    (queue,) = await api.store.streams.stream_queues()
    assert (queue.settings.only, queue.settings.fallback, queue.settings.max_depth) == (False, True, None)
    assert "redis" in (await queues("list")).stdout
    assert "stream" in (await queues("show", "mail")).stdout
    for wrong in (("set", "mail"), ("set", "mail", "--store", "--only"), ("set", "mail", "--max-depth", "much")):
        refused = await queues(*wrong)
        assert (refused.exit_code, refused.stdout) == (2, "")
    assert (await queues("set", "mail", "--store")).exit_code == 0
    assert await current(api) == []


async def test_the_settings_set_streams_once_at_start(api: Served, redis: RedisServer) -> None:
    other = f"{redis.address}?prefix=other"
    away = f"redis://127.0.0.1:{free_port()}/0"
    configured = ConfiguredStreams(api.store.streams, {"mail": redis.address, "sms": away}, sealed=True)
    assert await configured.tick() < 60, "one broker does not answer"
    assert await current(api) == [("mail", redis.address)]
    await put(api, {"stream": {"address": other, "only": True}})
    await configured.tick()
    assert await current(api) == [("mail", other)], "a later change stays"
    again = ConfiguredStreams(api.store.streams, {"mail": redis.address}, sealed=True)
    assert await again.tick() > 60
    (mail,) = [each for each in await api.store.streams.stream_queues() if each.current]
    assert (mail.settings.address, mail.settings.only) == (redis.address, True)
    await ConfiguredStreams(api.store.streams, {"mail": redis.address}, sealed=True).tick()
    assert len(await api.store.streams.stream_queues()) == 3, "the same address begins no generation"
