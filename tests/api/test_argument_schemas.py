"""Arguments of jobs that come over HTTP are checked against the schema that the workers of their task have declared."""

from datetime import datetime
from typing import Any

import msgspec
import pytest

from duetime import App, AsyncClient
from duetime.codec.schema_types import MOST_BYTES, ArgumentCheck, encode_schema
from duetime.errors import InvalidInput, PayloadMismatch
from duetime.ids import new_id
from duetime.model.access import Role
from duetime.model.worker import WorkerInfo
from duetime.worker.task import argument_schemas
from tests.contract.hands import LEASE
from tests.support.served import Served
from tests.support.typed_tasks import CASES, Order
from tests.support.waiting import eventually
from tests.support.working import quick_settings, remote_worker

GOOD = {"order": CASES["order"].json, "at": "2026-01-02T09:00:00Z"}


def shop(database_url: str) -> App:
    app = App(settings=quick_settings(database_url))

    @app.task(name="ship")
    async def ship(order: Order, at: datetime, express: bool = False) -> None: ...

    @app.task(name="plain")
    async def plain(to, n=1):  # type: ignore[no-untyped-def]
        return to

    @app.task(name="any_fields")
    async def any_fields(to: str, **fields: Any) -> None: ...

    return app


async def tell(api: Served, app: App, tenant_id: int | None = None) -> None:
    """Let a worker beside the database register, as one that starts now."""
    defaults = {name: task.defaults for name, task in app.tasks.items()}
    schemas = argument_schemas(task.definition for task in app.tasks.values())
    worker = WorkerInfo(new_id(), "w", tuple(app.tasks), (), 1, tenant_id, defaults=defaults, schemas=schemas)
    await api.store.leases.register(worker, LEASE)


WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("ship", {**GOOD, "at": "tomorrow"}, "args.at", "Invalid RFC3339 encoded datetime"),
    ("ship", {**GOOD, "order": {**GOOD["order"], "id": "x"}}, "args.order.id", "expected int, got str"),
    ("ship", {**GOOD, "order": {**GOOD["order"], "lines": [{}]}}, "args.order.lines[0].name", "is required"),
    ("ship", {**GOOD, "express": 1}, "args.express", "expected bool, got int"),
    ("ship", {"at": GOOD["at"]}, "args.order", "is required"),
    ("ship", {**GOOD, "expres": True}, "args.expres", "is not known here"),
    ("plain", {"n": 3}, "args.to", "is required"),
    ("plain", {"to": 1, "m": 3}, "args.m", "is not known here"),
    ("any_fields", {"a": 1}, "args.to", "is required"),
]


async def test_arguments_that_do_not_fit_are_refused(api: Served, database_url: str) -> None:
    await tell(api, shop(database_url))
    for task, args, field, detail in WRONG:
        answer = await api.post("/v1/jobs", {"task": task, "args": args})
        found = (answer.status, answer.json.get("field"), answer.json.get("detail"))
        assert found == (422, field, detail), (task, args)
    for task, args in (("ship", GOOD), ("plain", {"to": [1]}), ("any_fields", {"to": "x", "more": {"a": 1}})):
        assert (await api.post("/v1/jobs", {"task": task, "args": args})).status == 201, task


async def test_batches_graphs_and_edits_are_checked_too(api: Served, database_url: str) -> None:
    await tell(api, shop(database_url))
    wrong = {"task": "ship", "args": {**GOOD, "at": 3}}
    right = {"task": "ship", "args": GOOD, "run_in": "1h"}
    answer = await api.post("/v1/jobs/batch?partial=true", [right, wrong])
    assert (answer.json["stored"], answer.json["refused"]) == (1, 1)
    assert answer.json["items"][1]["problem"]["field"] == "args.at"
    answer = await api.post("/v1/graphs", {"nodes": {"a": wrong}})
    assert (answer.status, answer.json["field"]) == (422, "nodes.a.args.at")
    job_id = (await api.post("/v1/jobs", right)).json["job_id"]
    answer = await api.ask("PATCH", f"/v1/jobs/{job_id}", {"args": wrong["args"]})
    assert (answer.status, answer.json["field"]) == (422, "args.at")
    assert (await api.ask("PATCH", f"/v1/jobs/{job_id}", {"args": {**GOOD, "express": True}})).status == 200


async def test_a_remote_worker_tells_its_schemas(api: Served, database_url: str) -> None:
    app = shop(database_url)
    async with remote_worker(app, api.url, await api.key(Role.WORKER)):
        await eventually(lambda: api.store.queues.task_schemas(1))
        async with AsyncClient(api.url, api.root) as client:
            found = await client.get_task("ship")
        assert (await api.get("/v1/tasks/unknown")).status == 404
    assert found.arguments == app.tasks["ship"].definition.schema()
    assert list(found.arguments["$defs"]["ship"]["properties"]) == ["order", "at", "express"], "in this order"
    answer = await api.post("/v1/jobs", {"task": "ship", "args": {}})
    assert (answer.status, answer.json["field"]) == (422, "args.order"), "while no worker is up, too"
    other = await api.tenant("other")
    assert await api.store.queues.task_schemas(other.id) == {}


@pytest.mark.parametrize(
    ("schemas", "field"),
    [
        ({"greet": {}}, "schemas.greet"),
        ({"charge": []}, "schemas.charge"),
        ({"charge": True}, "schemas.charge"),
        ({"charge": {"description": "x" * MOST_BYTES}}, "schemas.charge"),
        ({"charge": {"enum": [0] * 1001}}, "schemas.charge"),
    ],
)
async def test_a_registration_is_checked(api: Served, schemas: Any, field: str) -> None:
    body = {"name": "w", "tasks": ["charge"], "defaults": {"charge": {}}, "schemas": schemas}
    answer = await api.post("/v1/workers", body, key=await api.key(Role.WORKER))
    assert (answer.status, answer.json.get("field")) == (422, field), answer.body


async def test_a_key_that_is_bound_to_queues_sets_no_other_schemas(api: Served) -> None:
    anyone, mail = await api.key(Role.WORKER), await api.key(Role.WORKER, queues=("mail",))
    body = {"name": "w", "tasks": ["charge"], "defaults": {"charge": {"queue": "billing"}}, "schemas": {"charge": {}}}
    assert (await api.post("/v1/workers", body, key=anyone)).status == 201
    before = await api.store.queues.task_schemas(1)
    body |= {"defaults": {"charge": {"queue": "mail"}}, "schemas": {"charge": {"required": ["never"]}}}
    assert (await api.post("/v1/workers", body, key=mail)).status == 201
    assert await api.store.queues.task_schemas(1) == before


def nested(depth: int) -> dict[str, Any]:
    return {} if not depth else {"type": "array", "items": nested(depth - 1)}


def laughing(levels: int) -> dict[str, Any]:
    """Each definition names the next one twice."""
    parts = {
        f"d{n}": {"properties": {side: {"$ref": f"#/$defs/d{n + 1}"} for side in ("a", "b")}} for n in range(levels)
    }
    return {"$ref": "#/$defs/d0", "$defs": parts}


@pytest.mark.parametrize(
    "schema",
    [
        laughing(100),
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "http://127.0.0.1/schema"}}},
        {"properties": {"a": {"type": "string", "pattern": "(a+)+$"}}},
        {"properties": {"a": {"type": ["string", 3, None, []]}}},
        {"properties": {"a": {"type": "integer", "minimum": 2**70, "maximum": -1}}},
        {"properties": {"a": {"type": "string", "minLength": -1}}},
        {"properties": {"a": {"enum": []}, "b": {"enum": [{}]}, "c": {"const": 1.5}, "d": {"enum": [2**64]}}},
        {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "string", "format": "date"}]}}},
        {"properties": {"a": {"format": 3, "type": "string"}, "b": {"allOf": []}, "c": {"anyOf": 1}}},
        {"properties": {"a": {"type": "array", "prefixItems": [{}, 3], "minItems": 2, "maxItems": 2}}},
        {"properties": [], "required": 3, "type": "object"},
        {"$defs": 3, "$ref": 7, "type": {"a": 1}},
        {"properties": {"": {}, "a b": {}, "ü": {}, "__class__": {}}},
        nested(30),
    ],
)
def test_any_schema_can_be_compiled(schema: dict[str, Any]) -> None:
    check = ArgumentCheck(encode_schema(schema, "schema"))
    for args in (b"{}", b'{"a":"' + b"a" * 40 + b'!"}', b'{"a":{"a":{"b":{}}}}', b'{"a":[1,2]}'):
        try:
            check.check(args)
        except InvalidInput as error:
            assert (error.field or "").startswith("args")


@pytest.mark.parametrize("schema", [nested(40), {"enum": list(range(2000))}, {"title": "x" * 40_000}])
def test_large_schemas_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        encode_schema(schema, "schema")


@pytest.mark.parametrize("name", CASES)
def test_the_server_refuses_nothing_that_the_worker_accepts(name: str) -> None:
    async def take(value):  # type: ignore[no-untyped-def]
        return value

    take.__annotations__ = {"value": CASES[name].kind}
    definition = App().task(take).definition
    check = ArgumentCheck(encode_schema(definition.schema(), "schema"))
    for case in CASES.values():
        body = msgspec.json.encode({"value": case.json})
        try:
            definition.decode(body)
        except PayloadMismatch:
            assert case is not CASES[name]
        else:
            check.check(body)
    with pytest.raises(InvalidInput, match=r"args.other: is not known here"):
        check.check(msgspec.json.encode({"value": CASES[name].json, "other": 1}))
