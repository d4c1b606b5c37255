"""Every POST takes an idempotency key: done once, answered with the first answer again, refused for another request."""

import asyncio
import json
from typing import Any

import pytest

from duetime.api.endpoint import Endpoint
from duetime.api.table import ENDPOINTS
from duetime.model.access import Role
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import DEFAULT_TENANT
from duetime.wire.workers import TOKEN_HEADER
from tests.support.request_fields import BASES, plain_body
from tests.support.served import Answer, Served

POSTS = [endpoint for endpoint in ENDPOINTS if endpoint.method == "POST"]
KEYED = [endpoint for endpoint in POSTS if endpoint.repeats != "by nature"]
AS_IT_STANDS = {"rerun_graph", "restore_archive", "run_archive", "resume_job", "reset_breaker", "retry_run"}
"""What this moment does not allow is refused with a key as without one, and the key is free again."""
BODIES: dict[str, Any] = {
    "claim_runs": {"claim_no": 1, "room": 1, "wait": 0},
    "preview_schedule": {"schedule": "every hour"},
    "replay_dead_letters": {},
    "discard_dead_letters": {},
    "rotate_signing_secret": {},
    "rotate_key": {},
    "delete_tenant": {"confirm": "gone"},
    "complete_run": {},
    "preview_bulk_action": {"action": "pause", "jobs": {}},
    "create_bulk_action": {"action": "pause", "jobs": {}},
}


async def things(api: Served) -> dict[str, str]:
    """One of each thing that a path names, used by nothing else."""
    job = (await api.post("/v1/jobs", {"task": "t", "every": "1h", "start_at": "2026-03-01T00:00:00Z"})).json
    run = (await api.post("/v1/jobs", {"task": "t"})).json
    worker = (await api.post("/v1/workers", {"name": "w", "tasks": ["none"]})).json
    graph = (await api.post("/v1/graphs", {"nodes": {"a": {"task": "t"}}})).json
    key = (await api.post("/v1/admin/keys", {"role": "viewer", "name": "k"})).json
    broker = {"type": "redis", "address": "redis.example.com:6379", "stream": "orders"}
    await api.ask("PUT", "/v1/sources/orders", {"broker": broker, "job": {"task": "t"}, "paused": True})
    bulk = (await api.post("/v1/bulk-actions", {"action": "pause", "jobs": {}})).json
    await api.post(f"/v1/bulk-actions/{bulk['bulk_id']}/stop")  # a tenant may have 20 that are not over
    await api.ask("PUT", "/v1/checkins/backup", {"every": 60})
    await api.ask("PUT", "/v1/subscriptions/ops", BASES["put_subscription"])
    await api.post("/v1/admin/tenants", {"name": "gone"})
    await api.post("/login", {"key": api.root}, key=None)
    session = (await api.get("/v1/sessions")).json["items"][0]
    return {
        "job_id": job["job_id"],
        "run_id": run["run_id"],
        "worker_id": worker["worker_id"],
        TOKEN_HEADER: worker["token"],
        "session_id": session["session_id"],
        "graph_id": graph["graph_id"],
        "key_id": key["key_id"],
        "queue": "mail",
        "source": "orders",
        "bulk_id": bulk["bulk_id"],
        "checkin": "backup",
        "subscription": "ops",
        "event": "success",
        "tenant": "gone",
        "day": "2026-03-01",
        "token": "x",
    }


async def ask(api: Served, endpoint: Endpoint, there: dict[str, str], key: str) -> Answer:
    headers = {"Idempotency-Key": key} | {name: there[name] for name in endpoint.required_headers}
    body = BODIES.get(endpoint.name, BASES.get(endpoint.name))
    if body is None:
        body = plain_body(endpoint)
    raw = b"hello" if endpoint.body is bytes else json.dumps(body).encode()
    return await api.ask("POST", endpoint.path.format_map(there), raw=raw, headers=headers)


async def test_every_post_is_done_once(api: Served) -> None:
    wrong = []
    for endpoint in POSTS:
        there = await things(api) if endpoint.parameters else {}
        key = f"key of {endpoint.name}"
        first = await ask(api, endpoint, there, key)
        counts = await _counts(api)
        again = await ask(api, endpoint, there, key)
        if endpoint.repeats == "by nature":
            fine = first.status == again.status and "Idempotency-Replayed" not in again.headers
        elif first.status >= 400:
            fine = endpoint.name in AS_IT_STANDS and first.body == again.body
        else:
            fine = (first.status, again.status) == (endpoint.status, endpoint.status) and same(first, again)
            fine = fine and "Idempotency-Replayed" not in first.headers
            fine = fine and again.headers.get("Idempotency-Replayed") == "true" and await _counts(api) == counts
            another = (
                ("/v1/jobs/batch", b'[{"task": "u"}]') if endpoint.name == "create_jobs" else ("/v1/payloads", b"y")
            )
            other = await api.post(another[0], raw=another[1], headers={"Idempotency-Key": key})
            fine = fine and other.json.get("code") == "idempotency_key_reused"
        if not fine:
            wrong.append((endpoint.name, first.status, first.body[:200], again.status, again.body[:200]))
    assert not wrong


def same(first: Answer, again: Answer) -> bool:
    """But for `created`, which a repeated submission tells otherwise."""
    return _without(first.json) == _without(again.json)


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without(each) for name, each in value.items() if name != "created"}
    return [_without(each) for each in value] if isinstance(value, list) else value


async def _counts(api: Served) -> Any:
    """How many there are of what a POST can make."""
    counts = await api.store.reads.counts()
    keys = len(await api.store.access.keys(DEFAULT_TENANT)) + len(await api.store.access.keys(None))
    workers = (await api.get("/v1/workers")).json["items"]
    secrets = (await api.get("/v1/signing-secrets")).json["items"]
    tenants = (await api.get("/v1/admin/tenants")).json["items"]
    return counts, keys, len(workers), len(secrets), len(tenants)


def test_the_header_is_documented_on_every_post() -> None:
    assert all("Idempotency-Key" in endpoint.headers for endpoint in POSTS)
    assert {"create_key", "create_payload", "create_tenant", "register_worker"} <= {each.name for each in KEYED}


async def test_a_kept_answer_opens_for_its_caller_alone(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of a key is in the answer that made it: a copy of the database and other callers do not get it."""
    kept: list[bytes] = []
    end_request = api.store.answers.end_request

    async def watched(tenant_id: int, request: KeyedRequest, answer: bytes | None) -> None:
        kept.append(answer or b"")
        await end_request(tenant_id, request, answer)

    monkeypatch.setattr(api.store.answers, "end_request", watched)
    body, headers = {"role": "viewer", "name": "k"}, {"Idempotency-Key": "once"}
    admin, other = await api.key(Role.ADMIN), await api.key(Role.ADMIN)
    first = await api.post("/v1/admin/keys", body, headers=headers, key=admin)
    assert first.status == 201, first.body
    stranger = await api.post("/v1/admin/keys", body, headers=headers, key=other)
    assert (stranger.status, stranger.code) == (422, "idempotency_key_reused")
    again = await api.post("/v1/admin/keys", body, headers=headers, key=admin)
    assert again.body == first.body and again.headers["Idempotency-Replayed"] == "true"
    assert len(kept) == 1 and first.json["key"].encode() not in kept[0]


async def test_the_same_request_twice_at_once(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is told to wait, and what was refused can be asked again."""
    go_on, began = asyncio.Event(), asyncio.Event()
    put_payload = api.store.payloads.put_payload

    async def slow(*given: Any) -> None:
        began.set()
        await go_on.wait()
        await put_payload(*given)

    monkeypatch.setattr(api.store.payloads, "put_payload", slow)
    headers = {"Idempotency-Key": "k"}
    first = asyncio.create_task(api.post("/v1/payloads", raw=b"x", headers=headers))
    await asyncio.wait_for(began.wait(), 20)
    second = await api.post("/v1/payloads", raw=b"x", headers=headers)
    assert (second.status, second.code) == (409, "idempotency_key_in_flight")
    go_on.set()
    done = await first
    third = await api.post("/v1/payloads", raw=b"x", headers=headers)
    assert third.json == done.json
    refused = {"Idempotency-Key": "refused"}
    assert (await api.post("/v1/admin/tenants", {"name": "default"}, headers=refused)).code == "name_taken"
    assert (await api.post("/v1/admin/tenants", {"name": "fresh"}, headers=refused)).status == 201
