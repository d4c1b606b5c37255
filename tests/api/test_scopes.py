"""Every endpoint × callers with a scope: no row of another owner, no count that reveals one, no change of one.

The matrix is generated from the table of endpoints, like the one of roles: a new endpoint is closed to these callers,
and one that is opened must get through here.
"""

import ast
import inspect
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from duetime.api.endpoint import Endpoint
from duetime.api.table import ENDPOINTS
from duetime.errors import AccessDenied
from duetime.ids import new_id, show
from duetime.model.access import ALLOWED, Action, Role
from duetime.model.scope import Scope
from duetime.model.tenant import TenantLimits
from duetime.model.worker import WorkerInfo
from duetime.store.protocol.store import ROLES
from duetime.store.rules import list_pages
from duetime.store.wrappers import scoped
from tests.api.test_access import GUARDED, ask, path_of
from tests.contract.hands import LEASE, hand
from tests.support.served import Answer, Served
from tests.support.signing import ISSUER, jwks, token

OPEN = {endpoint.name for endpoint in ENDPOINTS if endpoint.scoped}
LATER = "2030-01-01T00:00:00Z"


async def register(api: Served, tenant: str = "default", role: str = "operator") -> None:
    body = {"issuer": ISSUER, "role": role, "jwks": jwks()}
    made = await api.ask("PUT", "/v1/issuers/app", body, headers={"Duetime-Tenant": tenant})
    assert made.status == 200, made.body


async def world(api: Served, owner: str | None, tenant: str = "default") -> dict[str, dict[str, str]]:
    """One job of each kind of an owner: a schedule, a one-off that waits, one that succeeded, one that is dead."""
    headers = {"Duetime-Tenant": tenant}
    mark = f"mark-{owner}"
    about = {"args": {"mark": mark}, "owner": owner, "name": mark, "tags": [mark], "retries": 0}

    async def make(**more: Any) -> dict[str, str]:
        made = await api.post("/v1/jobs", {"task": "greet", **about, **more}, headers=headers)
        assert made.status == 201, made.body
        return {name: made.json[name] for name in ("job_id", "run_id") if made.json[name] is not None}

    found = {"every": await make(every="1h", start_at=LATER), "waits": await make(run_at=LATER)}
    found |= {"done": await make(task="count"), "dead": await make()}
    worker = await hand(api.store)
    for run in await worker.claim():
        if show("job", run.job_id) == found["done"]["job_id"]:
            await worker.succeed(run, result=json.dumps(mark).encode())
        else:
            await worker.fail(run)
    return found


def theirs(things: dict[str, dict[str, str]]) -> list[str]:
    return [each for thing in things.values() for each in thing.values()]


BODIES: dict[str, Any] = {
    "create_job": {"task": "greet"},
    "create_jobs": [{"task": "greet"}],
    "change_job": {"name": "another"},
    "backfill_job": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"},
    "preview_schedule": {"schedule": "every hour"},
}


def paths(endpoint: Endpoint, things: dict[str, dict[str, str]]) -> list[str]:
    """The paths of an endpoint that name each of these things, or the one that names none."""
    if not endpoint.parameters:
        query = {"list_recent_runs": f"?job_ids={','.join(each['job_id'] for each in things.values())}"}
        return [endpoint.path + query.get(endpoint.name, "")]
    named = [thing for thing in things.values() if set(endpoint.parameters) <= thing.keys()]
    return [path_of(endpoint, thing) for thing in named]


async def asked(api: Served, endpoint: Endpoint, path: str, key: str, body: Any = None) -> Answer:
    given = body if body is not None else BODIES.get(endpoint.name)
    if given is None and endpoint.method == "POST":
        given = {}
    return await api.ask(endpoint.method, path, given, key=key)


def test_only_these_are_open_to_callers_with_a_scope() -> None:
    """A name that is added here was checked against all tests of this file."""
    assert {
        *("create_job", "create_jobs", "list_jobs", "get_job", "change_job", "delete_job", "get_job_status"),
        *("cancel_job", "pause_job", "resume_job", "trigger_job", "backfill_job", "list_runs_of_job", "list_runs"),
        *("get_run", "cancel_run", "retry_run", "list_dead_letters", "replay_dead_letters", "discard_dead_letters"),
        *("explain_run", "explain_job"),
        *("list_recent_runs", "preview_schedule", "watch_events", "get_me"),
    } == OPEN


def test_an_open_endpoint_asks_the_store_of_the_caller() -> None:
    """The store of the service knows no scopes: no module with an open endpoint names it, except where it begins and
    ends sessions."""
    for endpoint in ENDPOINTS:
        if not endpoint.scoped or endpoint.name == "get_me":
            continue
        module = inspect.getmodule(endpoint.handler)
        assert module is not None and module.__file__ is not None
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
                owner = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
                named = owner, node.attr
                assert named not in {("service", "store"), ("service", "intake")}, (endpoint.name, node.lineno)


async def test_a_store_with_a_scope_refuses_whatever_is_not_written_for_it(api: Served) -> None:
    seen = scoped.within(api.service.store, Scope(owner="ann"))
    written = {name: type(getattr(seen, name)) for name in ROLES}
    for name, kind in written.items():
        inner = getattr(api.service.store, name)
        for method in (each for each in dir(inner) if not each.startswith("_") and callable(getattr(inner, each))):
            if method not in vars(kind):
                with pytest.raises(AccessDenied):
                    getattr(getattr(seen, name), method)


async def test_closed_endpoints_are_closed_to_every_role(api: Served) -> None:
    for role in ("viewer", "submitter", "operator"):
        await register(api, role=role)
        key = await api.key(Role[role.upper()], owner="ann")
        for endpoint in GUARDED:
            if endpoint.name == "watch_events":
                continue
            for caller in (token("ann"), key):
                answer = await ask(api, endpoint, caller)
                allowed = endpoint.may in ALLOWED[Role[role.upper()]]
                if endpoint.scoped and allowed:
                    assert answer.status not in (401, 403), (role, endpoint.name, answer.body)
                else:
                    assert (answer.status, answer.code) == (403, "forbidden"), (role, endpoint.name, answer.body)
        await api.ask("DELETE", "/v1/issuers/app")


async def test_another_owners_things_are_missing_and_stay_as_they_are(api: Served) -> None:
    """Every open endpoint with each of another owner's ids: answered like an id that does not exist, byte for byte."""
    await register(api)
    bobs, nobodys = await world(api, "bob"), await world(api, None)
    secret = [*theirs(bobs), *theirs(nobodys), "mark-"]
    everything = await rows(api)
    for caller in (token("ann"), await api.key(Role.OPERATOR, owner="ann")):
        for endpoint in GUARDED:
            if not endpoint.scoped or endpoint.name in ("watch_events", "create_job", "create_jobs"):
                continue
            for path in [*paths(endpoint, bobs), *paths(endpoint, nobodys)]:
                answer = await asked(api, endpoint, path, caller)
                shown = answer.body.decode()
                if endpoint.parameters:
                    other = path_of(endpoint)
                    missing = await asked(api, endpoint, other, caller)
                    assert answer.status == 404, (endpoint.name, shown)
                    assert _plain(shown) == _plain(missing.body.decode()), endpoint.name
                else:
                    assert not any(each in shown for each in secret), (endpoint.name, shown)
            if endpoint.method != "GET":
                assert await rows(api) == everything, endpoint.name


def _plain(text: str) -> str:
    return re.sub(r"(job|run)_[0-9a-z]{26}", r"\1_x", text)


async def rows(api: Served) -> Any:
    """Everything there is about jobs and runs, as an operator sees it."""
    found = []
    for path in ("/v1/jobs", "/v1/runs", "/v1/dead-letters"):
        for item in (await api.get(path)).json["items"]:
            found.append({name: value for name, value in item.items() if name != "certain"})
    return found


async def test_no_count_reveals_another_owner(api: Served) -> None:
    """What a user sees in a tenant of its own is what it sees in one that is full of others, ids and times apart."""
    asks: list[tuple[str, str, Any]] = [
        ("GET", "/v1/me", None),
        *(("GET", f"/v1/jobs{query}", None) for query in QUERIES),
        *(("GET", f"/v1/runs{query}", None) for query in RUN_QUERIES),
        *(("GET", f"/v1/dead-letters{query}", None) for query in ("", "?page_size=1", "?task=greet")),
        ("POST", "/v1/dead-letters/replay", {}),
        ("POST", "/v1/dead-letters/discard", {}),
        ("GET", "/v1/stats", None),
        ("GET", "/v1/fires", None),
        ("GET", "/v1/queues", None),
        ("GET", "/v1/dead-letters/groups", None),
        ("GET", "/v1/recent-runs?job_ids=job_00000000000000000000000000", None),
    ]
    seen = {}
    for tenant in ("alone", "full"):
        await api.tenant(tenant)
        await register(api, tenant)
        if tenant == "full":
            for other in ("bob", None, "bob", "carl"):
                await world(api, other, tenant)
        await world(api, "ann", tenant)
        caller = token("ann", aud=f"duetime:{tenant}")
        seen[tenant] = [
            _same((await api.ask(method, path, body, key=caller)).body.decode(), tenant) for method, path, body in asks
        ]
    for (_, path, _), alone, full in zip(asks, seen["alone"], seen["full"], strict=True):
        assert alone == full, path


QUERIES = (
    *("", "?page_size=1", "?status=FAILED", "?status=PENDING", "?owner=ann", "?owner=bob", "?name=mark-bob"),
    *("?name=mark-ann", "?tag=mark-bob", "?task=greet", "?queue=default", "?queue=other", "?recurring=true", "?key=k"),
    *("?search=mark", "?search=mark-bob", "?search=bob", "?search=greet", "?search=job_"),
)
RUN_QUERIES = ("", "?page_size=1", "?status=FAILED", "?status=SUCCEEDED", "?owner=ann", "?owner=bob", "?task=count")


def _same(text: str, tenant: str) -> str:
    """A body without what differs from one world to the next: ids, times, cursors, and the tenant's name."""
    text = re.sub(r'"next_cursor":"[^"]*"', '"next_cursor":"x"', _plain(text))
    text = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z|\+00:00|, UTC)", "T", text)
    text = re.sub(r'"(lag|retry_delay|ready|worker_id)":("[^"]*"|[\d.e-]+)', r'"\1":0', text)
    return text.replace(tenant, "tenant")


async def pages(api: Served, path: str, key: str, size: int = 1) -> list[Any]:
    found, cursor = [], None
    for _ in range(50):
        mark = "&" if "?" in path else "?"
        page = (await api.get(f"{path}{mark}page_size={size}" + (f"&cursor={cursor}" if cursor else ""), key=key)).json
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            return found
    raise AssertionError("the list has no end")


@pytest.mark.parametrize("most", [500, 2])
async def test_a_user_sees_all_of_its_own(api: Served, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Also if it has more jobs than are looked at one by one."""
    monkeypatch.setattr("duetime.store.shared.lists.MOST_OWNED", most)
    assert list_pages.MOST_OWNED == 500
    await register(api)
    mine, _ = await world(api, "ann"), await world(api, "bob")
    again = await world(api, "ann")
    runs = {each["run_id"] for world in (mine, again) for each in world.values() if "run_id" in each}
    ended = {world[name]["run_id"] for world in (mine, again) for name in ("done", "dead")}
    for key, of in ((token("ann"), ""), ("", "?owner=ann")):
        jobs = await pages(api, f"/v1/jobs{of}", key)
        assert {each["job_id"] for each in jobs} == {each["job_id"] for w in (mine, again) for each in w.values()}
        listed = [each["run_id"] for each in await pages(api, f"/v1/runs{of}", key)]
        assert ended <= set(listed) <= runs
        assert most == 2 or listed == sorted(listed, reverse=True)
        assert len(listed) == len(set(listed))
        failed = await pages(api, f"/v1/runs{of or '?'}{'&' if of else ''}status=FAILED", key, 2)
        assert {each["run_id"] for each in failed} == {mine["dead"]["run_id"], again["dead"]["run_id"]}
    dead = await pages(api, "/v1/dead-letters", token("ann"))
    assert {each["run_id"] for each in dead} == {mine["dead"]["run_id"], again["dead"]["run_id"]}
    assert (await api.get("/v1/runs?owner=nobody")).json["items"] == []


async def test_a_user_controls_its_own(api: Served) -> None:
    await register(api)
    mine, key = await world(api, "ann"), token("ann")
    job = f"/v1/jobs/{mine['every']['job_id']}"
    for action in ("pause", "resume", "trigger", "cancel"):
        assert (await api.post(f"{job}/{action}", key=key)).status < 300, action
    assert (await api.get(job, key=key)).json["args"] == {"mark": "mark-ann"}
    waits = f"/v1/jobs/{mine['waits']['job_id']}"
    assert (await api.ask("PATCH", waits, {"name": "mine"}, key=key)).json["name"] == "mine"
    assert (await api.ask("DELETE", waits, key=key)).status == 200
    assert (await api.get(waits, key=key)).status == 404
    run = f"/v1/runs/{mine['dead']['run_id']}"
    assert (await api.get(run, key=key)).json["status"] == "FAILED"
    assert (await api.post(f"{run}/retry", key=key)).status == 200
    recent = (await api.get(f"/v1/recent-runs?job_ids={mine['done']['job_id']}", key=key)).json["items"]
    assert len(recent[0]["runs"]) == 1
    again = await world(api, "ann")
    discard = {"run_id": again["dead"]["run_id"]}
    assert (await api.post("/v1/dead-letters/discard", discard, key=key)).json == {"discarded": 1}
    await api.service.trail.flush()
    assert {each["actor"] for each in (await api.get("/v1/audit")).json["items"]} >= {"app: ann"}


async def test_what_a_user_creates_is_its_own(api: Served) -> None:
    await register(api)
    bobs, key = await world(api, "bob"), token("ann")
    made = (await api.post("/v1/jobs", {"task": "greet", "run_at": LATER}, key=key)).json
    assert (await api.get(f"/v1/jobs/{made['job_id']}")).json["owner"] == "ann"
    batch = (await api.post("/v1/jobs/batch", [{"task": "greet"}, {"task": "greet", "owner": "ann"}], key=key)).json
    for item in batch["items"]:
        assert (await api.get(f"/v1/jobs/{item['job']['job_id']}")).json["owner"] == "ann"
    refused: list[tuple[dict[str, Any], int, str | None]] = [
        ({"owner": "bob"}, 422, "owner"),
        ({"key": "mine"}, 422, "key"),
        ({"concurrency_key": "all"}, 422, "concurrency_key"),
        ({"rate_key": "all", "rate": "1/s"}, 422, "rate_key"),
        ({"payload_ref": show("pay", new_id())}, 422, "payload_ref"),
        ({"task": None, "target": {"type": "http", "url": "https://example.com"}}, 422, "target"),
        ({"task": None, "callback_url": "https://example.com"}, 422, "callback_url"),
        ({"depends_on": [bobs["waits"]["job_id"]]}, 404, None),
        ({"after": {"job": bobs["every"]["job_id"]}}, 404, None),
    ]
    before = await rows(api)
    for wrong, status, field in refused:
        body = {name: value for name, value in {"task": "greet", **wrong}.items() if value is not None}
        answer = await api.post("/v1/jobs", body, key=key)
        assert (answer.status, answer.json.get("field")) == (status, field), (wrong, answer.body)
        batch = await api.post("/v1/jobs/batch", [body], key=key)
        assert batch.status in (404, 422), (wrong, batch.body)
    for wrong, field in (
        ({"owner": "bob"}, "owner"),
        ({"owner": None}, "owner"),
        ({"concurrency_key": "all"}, "concurrency_key"),
        ({"payload_ref": show("pay", new_id())}, "payload_ref"),
    ):
        answer = await api.ask("PATCH", f"/v1/jobs/{made['job_id']}", wrong, key=key)
        assert (answer.status, answer.json["field"]) == (422, field), answer.body
    assert await rows(api) == before


async def test_a_user_cannot_change_a_limit_that_others_share(api: Served) -> None:
    """The last run with a key sets the limit for all jobs that have it, also where the key comes from the task."""
    await register(api)
    key = token("ann")
    limits = {"concurrency_key": "smtp", "concurrency": 5, "rate_key": "mails", "rate": "100/s"}
    worker = {"name": "w", "tasks": ["mail"], "defaults": {"mail": limits}}
    assert (await api.post("/v1/workers", worker, key=await api.key(Role.WORKER))).status == 201
    api.service.tasks._known.clear()
    made = (await api.post("/v1/jobs", {"task": "mail", "run_at": LATER}, key=key)).json["job_id"]
    shown = (await api.get(f"/v1/jobs/{made}", key=key)).json
    assert {name: shown[name] for name in limits} == limits
    for wrong in ({"concurrency": 1}, {"rate": "1/7d"}):
        [field] = wrong
        answers = [
            await api.post("/v1/jobs", {"task": "mail", "run_at": LATER, **wrong}, key=key),
            await api.ask("PATCH", f"/v1/jobs/{made}", wrong, key=key),
        ]
        assert [(each.status, each.json.get("field")) for each in answers] == [(422, field)] * 2, answers
        assert (await api.ask("PATCH", f"/v1/jobs/{made}", {field: None}, key=key)).status == 422
    assert (await api.get(f"/v1/jobs/{made}", key=key)).json == shown


async def test_a_full_tenant_does_not_say_how_much_others_have(api: Served) -> None:
    await api.tenant("full", limits=TenantLimits(stored_jobs=2))
    await register(api, "full")
    others = [{"task": "greet", "owner": "bob", "run_at": LATER}] * 2
    assert (await api.post("/v1/jobs/batch", others, headers={"Duetime-Tenant": "full"})).status == 200
    key = token("ann", aud="duetime:full")
    for path, body in (("/v1/jobs", {"task": "greet"}), ("/v1/jobs/batch", [{"task": "greet"}])):
        answer = await api.post(path, body, key=key)
        assert (answer.code, answer.json["detail"]) == ("quota_exceeded", "the tenant has reached a limit")


async def test_a_parent_of_another_owner_is_missing_like_any_other(api: Served) -> None:
    await register(api)
    bobs, key = await world(api, "bob"), token("ann")
    for field, given in (("depends_on", lambda job: [job]), ("after", lambda job: {"job": job})):
        answers = [
            await api.post("/v1/jobs", {"task": "greet", field: given(job)}, key=key)
            for job in (bobs["waits"]["job_id"], show("job", new_id()))
        ]
        assert _plain(answers[0].body.decode()) == _plain(answers[1].body.decode())


Repeated = Callable[[Served, str, str], Awaitable[Answer]]


async def _submit(api: Served, key: str, name: str) -> Answer:
    return await api.post("/v1/jobs", {"task": "greet"}, key=key, headers={"Idempotency-Key": name})


async def _in_body(api: Served, key: str, name: str) -> Answer:
    return await api.post("/v1/jobs", {"task": "greet", "idempotency_key": name}, key=key)


async def _by_nonce(api: Served, key: str, name: str) -> Answer:
    return await api.post("/v1/jobs", {"task": "greet"}, key=key, headers={"Duetime-Nonce": name})


async def _batch(api: Served, key: str, name: str) -> Answer:
    return await api.post("/v1/jobs/batch", [{"task": "greet"}], key=key, headers={"Idempotency-Key": name})


async def test_idempotency_keys_of_owners_never_meet(api: Served) -> None:
    await register(api)
    for repeated in (_submit, _in_body, _by_nonce, _batch):
        await never_meet(api, repeated)


async def never_meet(api: Served, repeated: Repeated) -> None:
    name = str(new_id())
    answers = {owner: await repeated(api, key, name) for owner, key in _callers().items()}
    jobs = {owner: re.findall(r"job_\w{26}", answer.body.decode())[0] for owner, answer in answers.items()}
    assert len(set(jobs.values())) == 3, answers
    for owner, key in _callers().items():
        again = await repeated(api, key, name)
        assert re.findall(r"job_\w{26}", again.body.decode())[0] == jobs[owner], owner
        assert again.headers["Idempotency-Replayed"] == "true" if repeated is not _batch else True


def _callers() -> dict[str, str]:
    return {"the operator": "", "ann": token("ann"), "bob": token("bob")}


async def test_answers_that_are_kept_belong_to_one_owner(api: Served) -> None:
    await register(api)
    mine, bobs = await world(api, "ann"), await world(api, "bob")
    for owner, things in (("ann", mine), ("bob", bobs)):
        for action, name in (("pause", "every"), ("trigger", "every")):
            path, headers = f"/v1/jobs/{things[name]['job_id']}/{action}", {"Idempotency-Key": "the same"}
            key = token(owner)
            first = await api.post(path, {}, key=key, headers={"Idempotency-Key": f"the same {action}"})
            again = await api.post(path, {}, key=key, headers={"Idempotency-Key": f"the same {action}"})
            assert first.status < 300 and headers and (again.status, again.body) == (first.status, first.body)
            assert again.headers["Idempotency-Replayed"] == "true"


async def test_a_cursor_belongs_to_one_owner(api: Served) -> None:
    await register(api)
    await world(api, "ann")
    cursor = (await api.get("/v1/jobs?page_size=1", key=token("ann"))).json["next_cursor"]
    assert (await api.get(f"/v1/jobs?page_size=1&cursor={cursor}", key=token("ann"))).status == 200
    for key in (token("bob"), ""):
        assert (await api.get(f"/v1/jobs?page_size=1&cursor={cursor}", key=key)).code == "invalid_cursor"


async def test_an_error_names_a_key_as_the_caller_gave_it(api: Served) -> None:
    await register(api)
    things = await world(api, "ann")
    ann, headers = token("ann"), {"Idempotency-Key": "it's mine"}
    job = f"/v1/jobs/{things['every']['job_id']}"
    span = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
    for path, first, other in (
        ("/v1/jobs", {"task": "greet"}, {"task": "count"}),
        ("/v1/jobs/batch", [{"task": "greet", "idempotency_key": "it's mine"}], None),
        (f"{job}/backfill", span, None),
        (f"{job}/pause", {}, None),
    ):
        sent = {} if path.endswith("batch") else headers
        answer = await api.post(path, first if other is None else other, key=ann, headers=sent)
        if other is not None:
            answer = await api.post(path, first, key=ann, headers=sent)
        assert answer.status == 422 and "it's mine" in answer.json["detail"], answer.body
        assert "scoped" not in answer.json["detail"]


async def test_a_user_with_a_renewed_token_is_the_same_caller(api: Served) -> None:
    await register(api)
    job = f"/v1/jobs/{(await world(api, 'ann'))['every']['job_id']}"
    first, second = token("ann"), token("ann", jti="another")
    assert first != second
    headers = {"Idempotency-Key": "k"}
    paused = await api.post(f"{job}/pause", {}, key=first, headers=headers)
    again = await api.post(f"{job}/pause", {}, key=second, headers=headers)
    assert (again.status, again.body) == (200, paused.body)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (await api.post(f"{job}/resume", {}, key=second, headers=headers)).status == 422, "another request"


async def test_nothing_that_others_do_is_in_warnings_and_headers(api: Served) -> None:
    """Neither the names of other tasks, nor how much of the tenant's limits is used."""
    await register(api)
    await api.ask("PATCH", "/v1/admin/tenants/default", {"limits": {"submissions_per_second": 1000}})
    worker = WorkerInfo(new_id(), "w", ("bobs.secret_task",), (), 1)
    await api.store.leases.register(worker, LEASE)
    for key in (token("ann"), await api.key(Role.OPERATOR, owner="ann")):
        made = await api.post("/v1/jobs", {"task": "secret_task"}, key=key)
        batch = await api.post("/v1/jobs/batch", [{"task": "secret_task"}], key=key)
        warnings = [*made.json["warnings"], *batch.json["items"][0]["job"]["warnings"]]
        assert len(warnings) == 2 and not any("bobs" in each for each in warnings)
        for answer in (made, batch, await api.get("/v1/jobs", key=key)):
            assert "tenant" not in answer.headers.get("RateLimit", ""), answer.headers
    assert "RateLimit" not in (await api.post("/v1/jobs", {"task": "count"}, key=token("ann"))).headers
    plain = await api.post("/v1/jobs", {"task": "secret_task"})
    assert "bobs" in plain.json["warnings"][0]
    everyone = await api.post("/v1/jobs", {"task": "count"}, key=await api.key(Role.OPERATOR))
    assert '"tenant-submissions"' in everyone.headers["RateLimit"]


async def test_a_stream_of_events_tells_a_user_of_its_own_only(api: Served) -> None:
    await register(api)
    headers = {"Authorization": f"Bearer {token('ann')}"}
    async with api.http.get(f"{api.url}/v1/events", headers=headers) as stream:
        await stream.content.readuntil(b"\n\n")
        bobs = await world(api, "bob")
        both = [{"task": "greet", "owner": owner, "run_at": LATER} for owner in ("bob", "ann", "bob")]
        made = (await api.post("/v1/jobs/batch", both)).json["items"]
        last = (await api.post("/v1/jobs", {"task": "greet", "owner": "ann"})).json
        heard = b""
        while last["job_id"].encode() not in heard and last["run_id"].encode() not in heard:
            heard += await stream.content.readuntil(b"\n\n")
    seen = set(re.findall(r"(?:job|run)_\w{26}", heard.decode()))
    assert seen <= {made[1]["job"]["job_id"], last["job_id"], last["run_id"]} and made[1]["job"]["job_id"] in seen
    assert not seen & set(theirs(bobs))


async def test_a_stream_beats_also_while_others_are_busy(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise silence would say that others are, and clients and proxies would close it."""
    monkeypatch.setattr("duetime.api.routes.events.HEARTBEAT", 0.0)
    monkeypatch.setattr("duetime.api.routes.events.REMEMBERED", 0.05)
    await register(api)
    async with api.http.get(f"{api.url}/v1/events", headers={"Authorization": f"Bearer {token('ann')}"}) as stream:
        await stream.content.readuntil(b"\n\n")
        for _ in range(3):
            await api.post("/v1/jobs", {"task": "greet", "owner": "bob", "run_at": LATER})
            assert (await stream.content.readuntil(b"\n\n")).endswith(b": still here\n\n")


async def test_streams_with_a_scope_ask_the_store_once_for_a_page(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost does not grow with streams × events."""
    await register(api)
    store = api.service.events._store
    pages, asked = [], []
    events, facts = store.events.events, store.lists.facts_of_jobs

    async def read(*given: Any) -> Any:
        found = await events(*given)
        pages.extend([len(found)] if found else [])
        return found

    async def look(*given: Any) -> Any:
        asked.append(given)
        return await facts(*given)

    monkeypatch.setattr(store.events, "events", read)
    monkeypatch.setattr(store.lists, "facts_of_jobs", look)
    async with AsyncExitStack() as opened:
        streams = []
        for owner in ("ann", "bob", "cat", "dan"):
            headers = {"Authorization": f"Bearer {token(owner)}"}
            streams.append(await opened.enter_async_context(api.http.get(f"{api.url}/v1/events", headers=headers)))
            await streams[-1].content.readuntil(b"\n\n")
        for number in range(8):
            for owner in ("ann", "bob", "cat", "dan"):
                await api.post("/v1/jobs", {"task": "greet", "owner": owner, "run_at": LATER, "name": f"{number}"})
        for stream in streams:
            for _ in range(8):
                assert b"event: submitted" in await stream.content.readuntil(b"\n\n")
    assert sum(pages) >= 32
    assert len(asked) <= len(pages)


async def test_a_stream_ends_when_its_issuer_narrows_the_scope(api: Served) -> None:
    await register(api)
    async with api.http.get(f"{api.url}/v1/events", headers={"Authorization": f"Bearer {token('ann')}"}) as stream:
        await stream.content.readuntil(b"\n\n")
        await api.ask("PUT", "/v1/issuers/app", {"issuer": ISSUER, "jwks": jwks(), "tag": "public"})
        await api.post("/v1/jobs", {"task": "greet", "owner": "ann"})
        assert b"event:" not in await stream.read()


async def test_a_job_leaves_a_queue_with_its_runs(api: Served) -> None:
    """A run keeps the queue that it had, but belongs to the scope of its job."""
    body = {"task": "greet", "queue": "slow", "every": "1h", "start_at": LATER, "retries": 0}
    job = f"/v1/jobs/{(await api.post('/v1/jobs', body)).json['job_id']}"
    await api.post(f"{job}/trigger")
    worker = await hand(api.store)
    [run] = await worker.claim()
    await worker.fail(run)
    key = await api.key(Role.OPERATOR, queues=("slow",))
    for path in ("/v1/runs", "/v1/dead-letters"):
        assert len((await api.get(path, key=key)).json["items"]) == 1
    assert (await api.ask("PATCH", job, {"queue": "fast"})).status == 200
    for path in ("/v1/runs", "/v1/dead-letters"):
        assert (await api.get(path, key=key)).json["items"] == []


async def test_a_deleted_and_a_transferred_job(api: Served) -> None:
    """A job belongs to the owner that it has now, with all its runs."""
    await register(api)
    mine = await world(api, "ann")
    job = f"/v1/jobs/{mine['every']['job_id']}"
    await api.post(f"{job}/trigger")
    assert (await api.ask("PATCH", job, {"owner": "bob"})).status == 200
    assert (await api.get(job, key=token("ann"))).status == 404
    [run] = (await api.get(f"{job}/runs", key=token("bob"))).json["items"]
    assert (await api.get(f"/v1/runs/{run['run_id']}", key=token("bob"))).status == 200
    assert (await api.get(f"/v1/runs/{run['run_id']}", key=token("ann"))).status == 404
    await api.ask("DELETE", job)
    assert (await api.get(f"/v1/runs/{run['run_id']}", key=token("bob"))).status == 404


@pytest.mark.parametrize(("scope", "field"), [({"tag": "mark-ann"}, "tags"), ({"queues": ["slow"]}, "queue")])
async def test_keys_of_a_tag_or_a_queue(api: Served, scope: dict[str, Any], field: str) -> None:
    mine, bobs = await world(api, "ann"), await world(api, "bob")
    slow = (await api.post("/v1/jobs", {"task": "greet", "queue": "slow", "run_at": LATER})).json["job_id"]
    made = (await api.post("/v1/admin/keys", {"role": "operator", "name": "team", **scope})).json
    assert {name: made[name] for name in scope} == scope
    key = made["key"]
    inside = {each["job_id"] for each in mine.values()} if field == "tags" else {slow}
    outside = {slow, *(each["job_id"] for each in (*bobs.values(), *mine.values()))} - inside
    assert {each["job_id"] for each in await pages(api, "/v1/jobs", key, 200)} == inside
    for job_id in outside:
        assert (await api.get(f"/v1/jobs/{job_id}", key=key)).status == 404
    created = (await api.post("/v1/jobs", {"task": "greet", "run_at": LATER}, key=key)).json["job_id"]
    assert (await api.get(f"/v1/jobs/{created}", key=key)).status == 200
    out = {"tags": ["other"]} if field == "tags" else {"queue": "default"}
    answer = await api.ask("PATCH", f"/v1/jobs/{created}", out, key=key)
    assert (answer.status, answer.json["field"]) == (422, next(iter(scope)).removesuffix("s")), answer.body
    rotated = (await api.post(f"/v1/admin/keys/{made['key_id']}/rotate", {})).json
    assert {name: rotated[name] for name in scope} == scope
    assert {each["job_id"] for each in await pages(api, "/v1/jobs", rotated["key"], 200)} == inside | {created}


async def test_a_session_of_a_key_has_its_scope(api: Served) -> None:
    await world(api, "bob")
    made = (await api.post("/v1/admin/keys", {"role": "viewer", "name": "ann", "owner": "ann"})).json
    login = await api.post("/login", {"key": made["key"]}, key=None)
    cookie = {"Cookie": login.headers["Set-Cookie"].partition(";")[0]}
    assert (await api.get("/v1/jobs", key=None, headers=cookie)).json["items"] == []
    assert (await api.get("/v1/me", key=None, headers=cookie)).json["scope"]["owner"] == "ann"


async def test_a_key_with_a_scope_that_cannot_be(api: Served) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"role": "admin", "owner": "ann"}, "owner"),
        ({"role": "root", "tag": "t"}, "tag"),
        ({"role": "worker", "owner": "ann"}, "owner"),
        ({"role": "admin", "queues": ["q"]}, "queues"),
        ({"role": "viewer", "queues": ["q", "r"]}, "queues"),
        ({"role": "viewer", "owner": "a\nb"}, "owner"),
    ]
    for wrong, field in refused:
        answer = await api.post("/v1/admin/keys", {"name": "k", **wrong})
        assert (answer.status, answer.json["field"]) == (422, field)


def test_a_scope_can_manage_nothing() -> None:
    """What belongs to the whole tenant is closed, whatever the role."""
    for endpoint in ENDPOINTS:
        if endpoint.may not in (Action.READ, Action.SUBMIT, Action.CONTROL):
            assert not endpoint.scoped, endpoint.name
