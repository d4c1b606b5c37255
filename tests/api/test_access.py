"""Every endpoint × every kind of caller: generated from the table, so that a new endpoint without a rule fails."""

import asyncio
import contextlib
import itertools
import re
from typing import Any

import pytest

from duetime.api import lookup_cache
from duetime.api.endpoint import Endpoint
from duetime.api.table import ENDPOINTS
from duetime.errors import StoreUnavailable
from duetime.ids import new_id, parse, show
from duetime.model.access import ALLOWED, Action, Role
from duetime.model.job import DEFAULT_TENANT
from tests.support.lying import Lie
from tests.support.served import Answer, Served
from tests.support.waiting import eventually

PINGS = {"ping", "ping_event", "ping_with_note", "ping_event_with_note"}
SSO = {"get_login_methods", "begin_sso_login", "finish_sso_login"}
OPEN = {"complete_run", "livez", "readyz", "openapi", "docs", "login", "login_with_key", "logout"} | SSO | PINGS
"""Endpoints that need no key. Add to them only for a good reason."""
KINDS = {
    "job_id": "job",
    "run_id": "run",
    "worker_id": "wrk",
    "key_id": "key",
    "payload_id": "pay",
    "session_id": "ses",
}

GUARDED = [endpoint for endpoint in ENDPOINTS if endpoint.may is not None]


def path_of(endpoint: Endpoint, names: dict[str, str] | None = None) -> str:
    """The path with ids that do not exist."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        kind: Any = KINDS.get(name)
        return (names or {}).get(name) or (show(kind, new_id()) if kind else "nobody")

    return re.sub(r"\{(\w+)\}", fill, endpoint.path)


async def ask(api: Served, endpoint: Endpoint, key: str | None, path: str | None = None) -> Answer:
    body = {} if endpoint.body is not None and endpoint.reads == "json" else None
    headers = dict.fromkeys(endpoint.required_headers, "nobodys")
    return await api.ask(endpoint.method, path or path_of(endpoint), body, key=key, headers=headers)


def test_only_these_are_open_to_everybody() -> None:
    assert {endpoint.name for endpoint in ENDPOINTS if endpoint.may is None} == OPEN


async def test_without_a_key(api: Served) -> None:
    for endpoint in GUARDED:
        for key in (None, "dt_live_nonsense", api.root[:-1] + ("1" if api.root.endswith("0") else "0")):
            answer = await ask(api, endpoint, key)
            assert (answer.status, answer.code) == (401, "unauthenticated"), endpoint.name
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")


async def test_a_key_that_is_forgotten_while_it_is_looked_at_is_asked_for_again(
    api: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = itertools.count(0.0, 0.7)  # a while goes by whenever the cache asks for the time
    monkeypatch.setattr(lookup_cache, "monotonic", lambda: next(moments))
    for _ in range(30):
        assert (await api.ask("GET", "/v1/jobs", key=api.root)).status == 200


async def test_with_the_wrong_role(api: Served) -> None:
    for role in (Role.ADMIN, Role.OPERATOR, Role.SUBMITTER, Role.VIEWER, Role.WORKER):
        key = await api.key(role)
        for endpoint in GUARDED:
            if endpoint.may in ALLOWED[role] or endpoint.name == "watch_events":
                continue
            answer = await ask(api, endpoint, key)
            assert (answer.status, answer.code) == (403, "forbidden"), (role, endpoint.name)


async def test_with_the_right_role(api: Served) -> None:
    """A key with the right role is let in: whatever the answer is, it is not 401 or 403."""
    for role in (Role.ADMIN, Role.OPERATOR, Role.SUBMITTER, Role.VIEWER, Role.WORKER):
        key = await api.key(role)
        for endpoint in GUARDED:
            if endpoint.may in ALLOWED[role] and endpoint.name != "watch_events":
                answer = await ask(api, endpoint, key)
                assert answer.status not in (401, 403), (role, endpoint.name, answer.body)
                assert answer.status < 500, (role, endpoint.name, answer.body)


BY_ID = [endpoint for endpoint in GUARDED if set(endpoint.parameters) & KINDS.keys()]


async def test_another_tenants_things_are_missing(api: Served) -> None:
    """The answer for another tenant's id is the one for an id that does not exist, byte for byte."""
    theirs = await api.tenant("theirs")
    names = await things_of(api, await api.key(Role.ADMIN, theirs.id))
    ours = await api.key(Role.ADMIN, (await api.tenant("ours")).id)
    for endpoint in BY_ID:
        if not set(endpoint.parameters) <= names.keys() or endpoint.may is Action.WORK:
            continue
        foreign, missing = path_of(endpoint, names), path_of(endpoint)
        found = [await ask(api, endpoint, ours, path) for path in (foreign, missing)]
        if found[0].status == 422:  # its body is refused before anything is looked for
            continue
        assert [answer.status for answer in found] == [404, 404], endpoint.name
        texts = [re.sub(r"(job|run|key|pay|ses)_[0-9a-z]{26}", r"\1_x", answer.body.decode()) for answer in found]
        assert texts[0] == texts[1], endpoint.name


async def things_of(api: Served, key: str) -> dict[str, str]:
    """One of everything, in the tenant of this key."""
    job = (await api.post("/v1/jobs", {"task": "t"}, key=key)).json
    made = (await api.post("/v1/admin/keys", {"role": "viewer", "name": "v"}, key=key)).json
    payload = (await api.post("/v1/payloads", raw=b"x", key=key)).json
    return {
        "job_id": job["job_id"],
        "run_id": job["run_id"],
        "key_id": made["key_id"],
        "payload_id": payload["payload_ref"],
        "session_id": await a_session(api, key),
    }


async def a_session(api: Served, key: str) -> str:
    await api.post("/login", {"key": key}, key=None)
    session_id: str = (await api.get("/v1/sessions", key=key)).json["items"][0]["session_id"]
    return session_id


async def test_a_root_key_names_its_tenant(api: Served) -> None:
    await api.tenant("acme")
    acme = {"Duetime-Tenant": "acme"}
    job_id = (await api.post("/v1/jobs", {"task": "t"}, headers=acme)).json["job_id"]
    assert (await api.get(f"/v1/jobs/{job_id}", headers=acme)).status == 200
    assert (await api.get(f"/v1/jobs/{job_id}")).status == 404, "without a name it acts in default"
    assert (await api.get("/v1/jobs", headers={"Duetime-Tenant": "nobody"})).status == 404


async def test_another_key_cannot_name_a_tenant(api: Served) -> None:
    acme = await api.tenant("acme")
    key = await api.key(Role.ADMIN, acme.id)
    assert (await api.get("/v1/jobs", key=key, headers={"Duetime-Tenant": "acme"})).status == 200
    assert (await api.get("/v1/jobs", key=key, headers={"Duetime-Tenant": "default"})).status == 403


async def test_a_suspended_tenant_reads_and_does_nothing_else(api: Served) -> None:
    acme = await api.tenant("acme")
    key = await api.key(Role.ADMIN, acme.id)
    assert (await api.ask("PATCH", "/v1/admin/tenants/acme", {"state": "SUSPENDED"})).json["state"] == "SUSPENDED"
    assert (await api.get("/v1/jobs", key=key)).status == 200
    answer = await api.post("/v1/jobs", {"task": "t"}, key=key)
    assert (answer.status, answer.code) == (403, "tenant_suspended")
    await api.ask("PATCH", "/v1/admin/tenants/acme", {"state": "ACTIVE"})
    assert (await api.post("/v1/jobs", {"task": "t"}, key=key)).status == 201


@pytest.mark.parametrize("state", ["SUSPENDED", "DELETING"])
async def test_access_to_a_tenant_that_is_closed_can_be_taken_away(api: Served, state: str) -> None:
    await api.tenant("acme")
    there = {"Duetime-Tenant": "acme"}
    made = (await api.post("/v1/admin/keys", {"role": "viewer", "name": "leaked"}, headers=there)).json
    if state == "SUSPENDED":
        assert (await api.ask("PATCH", "/v1/admin/tenants/acme", {"state": state})).status == 200
    else:
        assert (await api.post("/v1/admin/tenants/acme/delete", {"confirm": "acme", "grace": "7d"})).status < 300
    keys = (await api.get("/v1/admin/keys", headers=there)).json["items"]
    assert [key["name"] for key in keys if key["revoked_at"] is None] == ["leaked"]
    answer = await api.post(f"/v1/admin/keys/{made['key_id']}/rotate", headers=there)
    assert answer.status == 403, "a new key would be access"
    assert (await api.post(f"/v1/admin/keys/{made['key_id']}/revoke", headers=there)).status == 200
    assert (await api.get("/v1/runs", key=made["key"])).status == 401


async def test_how_often_a_tenant_fires_is_a_limit(api: Served) -> None:
    made = (await api.post("/v1/admin/tenants", {"name": "acme"})).json
    assert made["limits"]["fires_per_second"] == 100.0, "unless it is said"
    made = (await api.post("/v1/admin/tenants", {"name": "fast", "limits": {"fires_per_second": 2500}})).json
    assert made["limits"]["fires_per_second"] == 2500.0
    change = {"limits": {"fires_per_second": 0.5}}
    assert (await api.ask("PATCH", "/v1/admin/tenants/acme", change)).json["limits"]["fires_per_second"] == 0.5
    for wrong in (0, -1, 1e10, "many"):
        answer = await api.ask("PATCH", "/v1/admin/tenants/acme", {"limits": {"fires_per_second": wrong}})
        assert (answer.status, answer.json["field"]) == (422, "limits.fires_per_second")


@pytest.mark.parametrize("role", ["admin", "viewer"])
async def test_a_key_works_until_it_is_revoked(api: Served, role: str) -> None:
    made = (await api.post("/v1/admin/keys", {"role": role, "name": "one"})).json
    assert made["key"].startswith("dt_live_") and made["hint"][:8] == "dt_live_"
    assert (await api.get("/v1/jobs", key=made["key"])).status == 200
    revoked = await api.post(f"/v1/admin/keys/{made['key_id']}/revoke")
    assert revoked.json["revoked_at"] is not None
    assert (await api.get("/v1/jobs", key=made["key"])).status == 401


@pytest.mark.parametrize("where", ["here", "elsewhere"])
async def test_a_stream_of_events_ends_with_its_key(api: Served, where: str) -> None:
    made = (await api.post("/v1/admin/keys", {"role": "viewer", "name": "one"})).json
    headers = {"Authorization": f"Bearer {made['key']}"}
    async with api.http.get(f"{api.url}/v1/events", headers=headers) as stream:
        await stream.content.readuntil(b"\n\n")
        if where == "here":
            await api.post(f"/v1/admin/keys/{made['key_id']}/revoke")
            await api.post("/v1/jobs", {"task": "t"})
        else:
            await api.store.access.revoke_key(DEFAULT_TENANT, parse("key", made["key_id"]))
        assert b"event:" not in await asyncio.wait_for(stream.read(), 12)


async def test_a_stream_of_events_outlives_a_store_that_is_away(api: Served) -> None:
    key = await api.key(Role.VIEWER)
    async with api.http.get(f"{api.url}/v1/events", headers={"Authorization": f"Bearer {key}"}) as stream:
        await stream.content.readuntil(b"\n\n")
        lie = Lie(api.store, "key_by_hash")
        await eventually(lambda: lie.told)
        await api.post("/v1/jobs", {"task": "t"})
        assert b"event: submitted" in await asyncio.wait_for(stream.content.readuntil(b"\n\n"), 20)


async def test_a_key_rotates_with_overlap(api: Served) -> None:
    old = (await api.post("/v1/admin/keys", {"role": "operator", "name": "old"})).json
    new = (await api.post(f"/v1/admin/keys/{old['key_id']}/rotate", {"overlap": "1h", "name": "new"})).json
    assert (new["role"], new["name"]) == ("operator", "new")
    for key in (old["key"], new["key"]):
        assert (await api.get("/v1/jobs", key=key)).status == 200
    gone = (await api.post(f"/v1/admin/keys/{new['key_id']}/rotate", {"overlap": 0})).json
    assert gone["name"] == "new"
    assert (await api.get("/v1/jobs", key=new["key"])).status == 401
    assert (await api.get("/v1/jobs", key=gone["key"])).status == 200


async def test_only_root_makes_root_keys(api: Served) -> None:
    admin = await api.key(Role.ADMIN)
    wish = {"role": "root", "name": "mine"}
    assert (await api.post("/v1/admin/keys", wish, key=admin)).status == 403
    assert (await api.get("/v1/admin/keys?root=true", key=admin)).status == 403
    assert (await api.get("/v1/audit?all=true", key=admin)).status == 403
    assert (await api.post("/v1/admin/keys", wish)).status == 201
    names = [key["name"] for key in (await api.get("/v1/admin/keys?root=true")).json["items"]]
    assert names == ["root", "mine"]


async def test_the_texts_of_keys_are_shown_once(api: Served) -> None:
    made = (await api.post("/v1/admin/keys", {"role": "viewer", "name": "one"})).json
    listed = await api.get("/v1/admin/keys")
    assert made["key"].encode() not in listed.body and made["hint"] in listed.body.decode()


async def test_the_audit_log_says_who_did_what(api: Served) -> None:
    key = await api.key(Role.ADMIN)
    job_id = (await api.post("/v1/jobs", {"task": "t", "every": "1h"}, key=key)).json["job_id"]
    await api.post(f"/v1/jobs/{job_id}/pause", key=key)
    await api.service.trail.flush()
    items = (await api.get("/v1/audit", key=key)).json["items"]
    # Submissions are noted once a second, everything else at once: which of them comes first is open.
    assert sorted((each["action"], each["object"], each["actor"]) for each in items) == [
        ("jobs.create", job_id, "admin"),
        ("jobs.pause", job_id, "admin"),
    ]


@pytest.mark.parametrize("happens", [True, False])
async def test_what_could_not_be_recorded_is_recorded_later_and_once(api: Served, happens: bool) -> None:
    key, lie = await api.key(Role.ADMIN), Lie(api.store, "record", happens=happens)
    job_id = (await api.post("/v1/jobs", {"task": "t"}, key=key)).json["job_id"]
    await eventually(lambda: lie.told)  # the service writes it down once a second
    with contextlib.suppress(StoreUnavailable):
        await api.service.trail.flush()
    items = (await api.get("/v1/audit", key=key)).json["items"]
    assert [(each["action"], each["object"]) for each in items] == [("jobs.create", job_id)]


async def test_a_job_whose_first_answer_was_lost_is_on_the_audit_log(api: Served) -> None:
    key = await api.key(Role.ADMIN)
    Lie(api.store, "submit")
    headers = {"Idempotency-Key": "once"}
    assert (await api.post("/v1/jobs", {"task": "t"}, key=key, headers=headers)).status == 503
    again = await api.post("/v1/jobs", {"task": "t"}, key=key, headers=headers)
    assert again.headers["Idempotency-Replayed"] == "true"
    await api.service.trail.flush()
    items = (await api.get("/v1/audit", key=key)).json["items"]
    assert [(each["action"], each["object"]) for each in items] == [("jobs.create", again.json["job_id"])]
