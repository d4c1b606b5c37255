"""Every kind of row that a tenant can create is bounded: by a limit of the tenant, or by what is said here."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duetime.engine import quota as quota_module
from duetime.engine.outbox import Outbox
from duetime.model.access import Role
from duetime.model.notification import QUEUE, Email, Message, Subscription, Topic
from duetime.model.tenant import DEFAULT_LIMITS, FIRST_LIMITS, TenantLimits
from duetime.store.postgres import PostgresStore
from duetime.store.rules.quotas import QUOTAS
from duetime.store.sqlite import SqliteStore
from duetime.wire.workers import TOKEN_HEADER
from tests.support.served import Answer, Served
from tests.support.waiting import eventually

ARGS = {"text": "x" * 100}
SIZE = len(json.dumps(ARGS, separators=(",", ":")))
MOST = 10
SECRET = {"value": "s3cret-value", "hosts": ["example.com"]}


@dataclass
class Client:
    """A tenant with limits, and what it may ask for."""

    api: Served
    tenant_id: int
    tenant: str
    worker_key: str = ""
    made: list[Any] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: Any = None, **how: Any) -> Answer:
        """As the operator, in the name of the tenant, so that it needs no key of its own."""
        headers = {"Duetime-Tenant": self.tenant, **how.pop("headers", {})}
        return await self.api.ask(method, path, body, headers=headers, **how)

    async def work(self, method: str, path: str, body: Any = None, **how: Any) -> Answer:
        return await self.api.ask(method, path, body, key=self.worker_key, **how)

    async def forget(self, table: str) -> None:
        """Remove what the pruner removes once it is old enough."""
        store: Any = self.api.store
        if isinstance(store, PostgresStore):
            async with store.database.connection() as connection:
                await connection.execute(f"delete from duetime.{table} where tenant_id = $1", self.tenant_id)
        else:
            delete = f"delete from {table} where tenant_id = ?"
            await store.database.run(lambda connection, _: connection.raw.execute(delete, (self.tenant_id,)))


Make = Callable[[Client, int], Awaitable[Answer]]
Remove = Callable[[Client, Any], Awaitable[object]]


@dataclass(frozen=True)
class Kind:
    make: Make
    """Asks for one more."""
    remove: Remove
    """Removes what was made, given the answer."""
    each: int = 1
    """How much of the limit one takes."""


def put(path: str, body: Any) -> Make:
    return lambda client, number: client.ask("PUT", f"{path}/name{number}", body)


def delete(path: str, name: str = "name") -> Remove:
    return lambda client, made: client.ask("DELETE", f"{path}/{made[name]}")


async def make_job(client: Client, number: int) -> Answer:
    return await client.ask("POST", "/v1/jobs", {"task": "t", "every": "1h", "args": ARGS})


async def keyed(client: Client, number: int) -> Answer:
    return await client.ask("POST", "/v1/jobs", {"task": "t"}, headers={"Idempotency-Key": f"k{number}"})


async def graph(client: Client, number: int) -> Answer:
    return await client.ask("POST", "/v1/graphs", {"nodes": {"a": {"task": "t"}}})


async def end_graph(client: Client, made: Any) -> None:
    await client.ask("POST", f"/v1/graphs/{made['graph_id']}/cancel")
    while await client.api.store.graphs.settle(100):
        pass


async def payload(client: Client, number: int) -> Answer:
    return await client.ask("POST", "/v1/payloads", raw=b"x" * 900)


async def named_queue(client: Client, number: int) -> Answer:
    return await client.ask("POST", f"/v1/queues/name{number}/pause")


async def rotate(client: Client, number: int) -> Answer:
    return await client.ask("POST", "/v1/signing-secrets/rotate", {"overlap": "1h"})


async def api_key(client: Client, number: int) -> Answer:
    return await client.ask("POST", "/v1/admin/keys", {"role": "viewer", "name": "one more"})


async def worker(client: Client, number: int) -> Answer:
    return await client.work("POST", "/v1/workers", {"name": "w", "tasks": ["t"]})


async def told_task(client: Client, number: int) -> Answer:
    told = {f"t{number}": {"queue": "slow"}}
    made = await client.work("POST", "/v1/workers", {"name": "w", "tasks": list(told), "defaults": told})
    if made.status == 201:
        await leave(client, made.json)
    return made


async def leave(client: Client, made: Any) -> None:
    path, headers = f"/v1/workers/{made['worker_id']}", {TOKEN_HEADER: made["token"]}
    assert (await client.work("DELETE", path, headers=headers)).status < 300


async def bulk(client: Client, number: int) -> Answer:
    return await client.ask("POST", "/v1/bulk-actions", {"action": "pause", "jobs": {"queue": f"q{number}"}})


SOURCE = {"broker": {"type": "redis", "address": "r.example.com:1", "stream": "s"}, "job": {"task": "t"}}
ISSUER = {"issuer": "https://app.example.com", "jwks_url": "https://app.example.com/jwks"}
KINDS = {
    "stored_jobs": Kind(make_job, delete("/v1/jobs", "job_id")),
    "stored_bytes": Kind(make_job, delete("/v1/jobs", "job_id"), SIZE),
    "idempotency_keys": Kind(keyed, lambda client, _: client.forget("keys")),
    "graphs": Kind(graph, end_graph),
    "payloads": Kind(payload, delete("/v1/payloads", "payload_ref")),
    # Encrypted, they are longer than what was sent, by less than a tenth.
    "payload_bytes": Kind(payload, delete("/v1/payloads", "payload_ref"), 990),
    "calendars": Kind(put("/v1/calendars", {"dates": ["2026-01-01"]}), delete("/v1/calendars")),
    "queues": Kind(named_queue, lambda client, made: client.ask("POST", f"/v1/queues/{made['name']}/resume")),
    "subscriptions": Kind(
        put("/v1/subscriptions", {"to": {"type": "webhook", "url": "https://example.com/"}, "topics": ["*"]}),
        delete("/v1/subscriptions"),
    ),
    "sources": Kind(put("/v1/sources", SOURCE), delete("/v1/sources")),
    "issuers": Kind(put("/v1/issuers", ISSUER), delete("/v1/issuers")),
    "bulk_actions": Kind(bulk, lambda client, made: client.ask("POST", f"/v1/bulk-actions/{made['bulk_id']}/stop")),
    "alerts": Kind(put("/v1/alerts", {"figure": "dead_letters", "threshold": 1}), delete("/v1/alerts")),
    "checkins": Kind(put("/v1/checkins", {"every": 60}), delete("/v1/checkins")),
    "secrets": Kind(put("/v1/secrets", SECRET), delete("/v1/secrets")),
    "signing_secrets": Kind(
        rotate, lambda client, _: client.ask("POST", "/v1/signing-secrets/rotate", {"overlap": "0s"})
    ),
    "api_keys": Kind(api_key, lambda client, made: client.ask("POST", f"/v1/admin/keys/{made['key_id']}/revoke")),
    "workers": Kind(worker, leave),
    "worker_tasks": Kind(worker, leave),
    "tasks": Kind(told_task, lambda client, _: client.forget("tasks")),
}

BOUNDED = {
    "jobs": ("stored_jobs", "stored_bytes"),
    "runs": ("stored_jobs", "stored_bytes"),
    "keys": ("idempotency_keys",),
    "graphs": ("graphs",),
    "payloads": ("payloads", "payload_bytes"),
    "calendars": ("calendars",),
    "queues": ("queues",),
    "stream_queues": ("queues",),
    "subscriptions": ("subscriptions",),
    "sources": ("sources",),
    "issuers": ("issuers",),
    "bulk_actions": ("bulk_actions",),
    "alerts": ("alerts",),
    "checkins": ("checkins",),
    "tenant_secrets": ("secrets",),
    "signing_secrets": ("signing_secrets",),
    "api_keys": ("api_keys",),
    "workers": ("workers", "worker_tasks"),
    "tasks": ("tasks",),
}
"""Tables, and the limits of a tenant that bound their rows."""

OF_A_JOB = "rows of a stored job or live run, of which each has a bounded number"
FOR_A_WHILE = "what has happened: as many as there were runs and requests, for as long as their retention"
OF_THE_SERVICE = "made by nodes and operators, never by a request of a tenant"
EXCEPTIONS = {
    "cursors": OF_A_JOB,
    "labels": OF_A_JOB,
    "terms": OF_A_JOB,
    "search_index": OF_THE_SERVICE,
    "calendar_users": OF_A_JOB,
    "payload_refs": OF_A_JOB,
    "dependents": OF_A_JOB,
    "edges": OF_A_JOB,
    "nodes": OF_A_JOB,
    "followers": OF_A_JOB,
    "claims": OF_A_JOB,
    "cancels": OF_A_JOB,
    "handovers": OF_A_JOB,
    "live_logs": OF_A_JOB,
    "holds": OF_A_JOB,
    "starts": "a hundred for each limit, which go with it",
    "limits": "one for each key of a live run, and for an hour after; of queues: `queues`; of targets: as breakers",
    "suspects": "one for each task or recurring job that has lost workers, which go with it",
    "past_workers": "100 for each tenant",
    "trends": "one for each minute of a day and each hour of nine days in which runs ended",
    "lanes": "the setting lanes_per_tenant",
    "lane_requests": "the setting lanes_per_tenant",
    "lane_changes": "two for each lane that wakes, for an hour",
    "breakers": "one for each target that runs have failed at, until an hour after it closed",
    "attempts": "one a second for each target that runs have tried, for as long as a breaker looks back",
    "history": FOR_A_WHILE,
    "archive_parts": FOR_A_WHILE,
    "usage": "one for each tenant, day and queue, for usage_retention",
    "usage_days": "one for each day with history, for usage_retention",
    "usage_place": OF_THE_SERVICE,
    "erasures": "one for each tenant that was deleted",
    "archive_days": "one for each day with history, in the database or in files",
    "spent": "one for each run that went through a stream, for two days and as long as its stream holds older runs",
    "dead_letters": FOR_A_WHILE,
    "deleted_jobs": FOR_A_WHILE,
    "ended": "ends that have not been handed on: of live runs, for a moment",
    "events": "one for each batch of changes, for ten minutes, or until they were told",
    "audit": "one for each administrative request, and one a second for each key that submits; it is only added to",
    "sessions": "50 for each API key, and for each person",
    "login_links": "20 for each API key",
    "fire_rates": "one for each tenant with a limit on its fires",
    "token_buckets": "one for each tenant and API key with a rate, while it is in use",
    "tenants": OF_THE_SERVICE,
    "data_keys": OF_THE_SERVICE,
    "secrets": OF_THE_SERVICE,
    "meta": OF_THE_SERVICE,
    "listening": OF_THE_SERVICE,
    "event_places": OF_THE_SERVICE,
    "notifying": OF_THE_SERVICE,
    "clock_watch": OF_THE_SERVICE,
    "schema_versions": OF_THE_SERVICE,
    "function_files": OF_THE_SERVICE,
}


async def tables(api: Served) -> dict[str, int]:
    """The tables of the schema, and how many rows they have."""
    store: Any = api.store
    if isinstance(store, PostgresStore):
        async with store.database.connection() as connection:
            # A partition is part of its table.
            names = await connection.fetch(
                "select relname from pg_class c where c.relnamespace = 'duetime'::regnamespace"
                " and c.relkind in ('r', 'p') and not c.relispartition"
            )
            return {row[0]: await connection.fetchval(f"select count(*) from duetime.{row[0]}") for row in names}
    assert isinstance(store, SqliteStore)

    def read(connection: Any, _now: int) -> dict[str, int]:
        names = connection.raw.execute(
            # An index of texts has tables of its own: it is part of `terms`.
            "select name from sqlite_master where type = 'table' and name not like 'sqlite%'"
            " and name not like 'term\\_grams%' escape '\\'"
        )
        return {
            name: connection.raw.execute(f"select count(*) from {name}").fetchone()[0] for (name,) in names.fetchall()
        }

    return await store.database.run(read)


async def client_with(api: Served, **limits: Any) -> Client:
    made = await api.tenant("acme", limits=TenantLimits(**limits))
    return Client(api, made.id, "acme", await api.key(Role.WORKER, made.id))


@pytest.fixture(autouse=True)
def counts_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_module, "_COUNT_AGAIN", 0.0)


@pytest.mark.parametrize("name", KINDS)
async def test_a_tenant_has_as_much_of_each_kind_as_it_may(api: Served, name: str) -> None:
    kind = KINDS[name]
    before = 1 if name == "api_keys" else 0  # the key of its worker
    client = await client_with(api, **{name: (MOST + before) * kind.each})
    answers = await asyncio.gather(*(kind.make(client, number) for number in range(2 * MOST)))
    made = [answer.json for answer in answers if answer.status < 300]
    assert len(made) == MOST, [answer.json for answer in answers]

    rows = await tables(api)
    refused = await kind.make(client, 99)
    assert (refused.status, refused.code, refused.json["field"]) == (403, "quota_exceeded", f"limits.{name}")
    assert f"{(MOST + before) * kind.each:,}" in refused.json["detail"] and name in refused.json["remedy"]
    left = await tables(api)
    del rows["audit"], left["audit"]  # who submitted is written down every second
    assert left == rows, "nothing of it is stored"
    assert {answer.code for answer in answers if answer.status >= 300} == {"quota_exceeded"}

    await kind.remove(client, made[0])

    async def room() -> bool:
        return (await kind.make(client, 100)).status < 300

    await eventually(room)
    if name not in ("idempotency_keys", "tasks", "signing_secrets"):  # of which more than one was removed
        assert (await kind.make(client, 101)).code == "quota_exceeded"


RETENTIONS = {"history_days", "archive_days"}
"""They bound for how long rows are kept, and refuse none."""


def test_every_limit_on_rows_is_tried() -> None:
    assert set(KINDS) | RETENTIONS == {"stored_jobs", *QUOTAS}
    assert {limit for limits in BOUNDED.values() for limit in limits} == set(KINDS)


async def test_every_table_is_bounded(api: Served) -> None:
    """A new table needs a limit, or a reason why it needs none; docs/quotas.md tells it too."""
    found = set(await tables(api))
    assert found - set(BOUNDED) - set(EXCEPTIONS) == set()
    page = (Path(__file__).parents[2] / "docs/quotas.md").read_text()
    assert [table for table in sorted(found) if f"`{table}`" not in page] == []


def test_the_defaults_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/quotas.md").read_text()
    for name in set(TenantLimits.__struct_fields__) - RETENTIONS:
        cells = [_shown(getattr(limits, name)) for limits in (DEFAULT_LIMITS, FIRST_LIMITS)]
        assert f"| `{name}` | {cells[0]} | {cells[1]} |" in page, name


def _shown(limit: float | None) -> str:
    if limit is None:
        return "no limit"
    return f"{limit / 1024**3:g} GiB" if limit >= 1024**3 else f"{limit:,}".removesuffix(".0")


async def test_what_is_there_is_changed_at_the_limit(api: Served) -> None:
    """An upsert that adds nothing is never refused, even when the limit is below what there is."""
    client = await client_with(api, calendars=1, secrets=1, queues=1)
    for path, body in (("calendars/a", {"dates": []}), ("secrets/a", SECRET), ("queues/a", {"running": 1})):
        assert (await client.ask("PUT", f"/v1/{path}", body)).status == 200
    assert (
        await client.ask("PATCH", "/v1/admin/tenants/acme", {"limits": {"calendars": 0, "queues": 0}})
    ).status == 200
    assert (await client.ask("PUT", "/v1/calendars/a", {"dates": ["2026-01-01"]})).status == 200
    assert (await client.ask("PUT", "/v1/secrets/a", SECRET | {"value": "another-value"})).status == 200
    assert (await client.ask("PUT", "/v1/queues/a", {"running": 2})).status == 200
    assert (await client.ask("POST", "/v1/queues/a/pause")).status == 200, "it has a name already"
    assert (await client.ask("POST", "/v1/jobs", {"task": "t", "queue": "a"})).status == 201


async def test_queues_that_jobs_name_are_counted(api: Served) -> None:
    client = await client_with(api, queues=2)
    for queue in ("one", "two", "one"):
        made = await client.ask("POST", "/v1/jobs", {"task": "t", "queue": queue, "every": "1h"})
        assert made.status == 201
    three = {"task": "t", "queue": "three"}
    assert (await client.ask("POST", "/v1/jobs", three)).json["field"] == "limits.queues"
    assert (await client.ask("POST", "/v1/queues/three/pause")).code == "quota_exceeded"
    assert (await client.ask("PUT", "/v1/queues/three", {"running": 1})).code == "quota_exceeded"
    assert (await client.ask("POST", "/v1/graphs", {"nodes": {"a": three}})).code == "quota_exceeded"
    job_id = made.json["job_id"]
    assert (await client.ask("PATCH", f"/v1/jobs/{job_id}", {"queue": "three"})).code == "quota_exceeded"
    both = [{"task": "t", "queue": "two"}, three]
    assert (await client.ask("POST", "/v1/jobs/batch", both)).code == "quota_exceeded"
    partly = await client.ask("POST", "/v1/jobs/batch?partial=true", both)
    assert (partly.status, partly.json["stored"], partly.json["refused"]) == (200, 1, 1)
    assert partly.json["items"][1]["problem"]["code"] == "quota_exceeded"
    assert (await client.ask("POST", "/v1/jobs", {"task": "other", "queue": "one"})).status == 201


async def test_a_batch_is_stored_whole_or_not_at_all(api: Served) -> None:
    client = await client_with(api, stored_jobs=3, stored_bytes=10 * SIZE)
    jobs = [{"task": "t"}] * 4
    assert (await client.ask("POST", "/v1/jobs/batch", jobs)).json["field"] == "limits.stored_jobs"
    assert (await api.store.reads.counts()).runs == 0
    large = [{"task": "t", "args": {"text": "x" * 6 * SIZE}}] * 2
    assert (await client.ask("POST", "/v1/jobs/batch", large)).json["field"] == "limits.stored_bytes"
    answer = await client.ask("POST", "/v1/jobs/batch?partial=true", jobs)
    assert (answer.json["stored"], answer.json["refused"]) == (3, 1)


async def test_runs_that_are_asked_for_need_room(api: Served) -> None:
    client = await client_with(api, stored_jobs=3)
    made = await client.ask("POST", "/v1/jobs", {"task": "t", "every": "1m", "start_at": "2026-01-01T00:00:00Z"})
    job = f"/v1/jobs/{made.json['job_id']}"
    past = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:05:00Z"}
    assert (await client.ask("POST", f"{job}/backfill", past)).code == "quota_exceeded"
    assert [(await client.ask("POST", f"{job}/trigger")).status for _ in range(3)] == [201, 201, 403]


async def test_new_tenants_have_defaults(api: Served) -> None:
    made = await api.post("/v1/admin/tenants", {"name": "acme", "limits": {"calendars": 5, "alerts": None}})
    assert (await api.store.tenants.tenant("acme")).limits == msgspec.structs.replace(
        DEFAULT_LIMITS, calendars=5, alerts=None
    )
    assert made.json["limits"] == msgspec.structs.asdict((await api.store.tenants.tenant("acme")).limits)
    changed = await api.ask("PATCH", "/v1/admin/tenants/acme", {"limits": {"secrets": 7, "calendars": None}})
    limits = changed.json["limits"]
    assert (limits["secrets"], limits["calendars"], limits["stored_jobs"]) == (7, None, DEFAULT_LIMITS.stored_jobs)
    assert (await api.ask("PATCH", "/v1/admin/tenants/acme", {"limits": {"secrets": -1}})).status == 422
    first = (await api.get("/v1/admin/tenants/default")).json["limits"]
    assert first == msgspec.structs.asdict(FIRST_LIMITS)


async def test_keys_that_are_over_do_not_pile_up(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.store.shared.access.DEAD_KEYS", 3)
    client = await client_with(api, api_keys=2)
    for _ in range(8):
        made = await api_key(client, 0)
        assert made.status == 201
        await client.ask("POST", f"/v1/admin/keys/{made.json['key_id']}/revoke")
    listed = (await client.ask("GET", "/v1/admin/keys")).json["items"]
    assert len(listed) <= 5 and made.json["key_id"] in [key["key_id"] for key in listed]


async def test_a_key_is_rotated_at_the_limit(api: Served) -> None:
    client = await client_with(api, api_keys=2)
    made = await api_key(client, 0)
    rotate = f"/v1/admin/keys/{made.json['key_id']}/rotate"
    assert (await client.ask("POST", rotate)).json["field"] == "limits.api_keys"
    assert (await client.ask("POST", rotate, {"overlap": 0})).status == 201


async def test_notifications_need_no_room_among_queues(api: Served) -> None:
    client = await client_with(api, queues=1)
    assert (await named_queue(client, 0)).status == 200
    letters = Outbox(api.store)
    subscription = Subscription("ops", Email("a@example.com"), (Topic.RUN_SUCCEEDED,))
    message = Message(Topic.RUN_SUCCEEDED, await api.store.now(), "it succeeded", {})
    assert await letters.send(client.tenant_id, [letters.write(client.tenant_id, subscription, message, "x")])
    assert (await api.store.queues.queue(client.tenant_id, QUEUE)).depth.medium == 1
    assert (await named_queue(client, 1)).code == "quota_exceeded"


async def test_what_is_asked_for_again_needs_no_room(api: Served) -> None:
    client = await client_with(api, stored_jobs=4, graphs=1, idempotency_keys=4)
    asked = [
        ("/v1/jobs", {"task": "t", "every": "1h", "key": "mine"}, {}),
        ("/v1/jobs", {"task": "t"}, {"Idempotency-Key": "job"}),
        ("/v1/graphs", {"nodes": {"a": {"task": "t"}}}, {"Idempotency-Key": "graph"}),
    ]
    first = [await client.ask("POST", path, body, headers=headers) for path, body, headers in asked]
    trigger = f"/v1/jobs/{first[0].json['job_id']}/trigger"
    asked.append((trigger, None, {"Idempotency-Key": "trigger"}))
    first.append(await client.ask("POST", trigger, headers={"Idempotency-Key": "trigger"}))
    assert [answer.status for answer in first] == [201] * 4
    for (path, body, headers), before in zip(asked, first, strict=True):
        again = await client.ask("POST", path, body, headers=headers)
        assert again.status in (200, 201), again.json
        (name,) = {"graph_id", "run_id"} & set(before.json) if path != "/v1/jobs" else ["job_id"]
        assert again.json[name] == before.json[name]
    batch = [{"task": "t", "every": "1h", "key": "mine"}, {"task": "t"}]
    assert (await client.ask("POST", "/v1/jobs/batch", batch)).code == "quota_exceeded"
    assert (await client.ask("POST", "/v1/jobs/batch", batch[:1])).json["stored"] == 1
    await client.ask("DELETE", f"/v1/jobs/{first[0].json['job_id']}")
    await client.ask("PATCH", "/v1/admin/tenants/acme", {"limits": {"stored_jobs": 0}})
    gone = await client.ask("POST", "/v1/jobs", {"task": "t", "every": "1h", "key": "mine"})
    assert gone.code == "quota_exceeded", "the key names no live job any more"
