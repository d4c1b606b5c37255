"""Default options of a tenant: how they are set, and that every entry point applies them."""

import asyncio
from typing import Any

import asyncpg
import pytest

from duetime import App, AsyncClient, GraphPlan, Settings
from duetime.celery import Celery
from duetime.engine import quota
from duetime.ids import new_id
from duetime.model.access import Role
from duetime.model.worker import WorkerInfo
from tests.contract.hands import LEASE
from tests.support.served import Served
from tests.support.working import quick_settings

USUAL = {"queue": "bulk", "priority": "LOW", "timeout": 90.0, "expires_in": 3600.0, "archive_retention": 0.0}
ACME = {"Duetime-Tenant": "acme"}


async def set_to(api: Served, body: Any, method: str = "PUT", **how: Any) -> Any:
    answer = await api.ask(method, "/v1/defaults", body, **how)
    assert answer.status == 200, answer.body
    return answer.json


async def job(api: Served, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(f"/v1/jobs/{job_id}")).json
    return found


def add_task(app: App, **options: Any) -> Any:
    @app.task(name="greet", **options)
    async def greet() -> None: ...

    return greet


async def test_defaults_are_set_changed_and_removed(api: Served) -> None:
    acme = await api.tenant("acme")
    admin, viewer = await api.key(Role.ADMIN, acme.id), await api.key(Role.VIEWER, acme.id)
    assert (await api.get("/v1/defaults", key=viewer)).json == {}
    retry = {"retries": 5, "base": 1.0}
    assert (await set_to(api, {"timeout": "30s", "retry": retry}, key=admin))["timeout"] == "30s"
    found = await set_to(api, {"queue": "bulk", "timeout": None}, "PATCH", key=admin)
    assert (found["queue"], found["retry"]["retries"], "timeout" in found) == ("bulk", 5, False)
    assert (await api.get("/v1/admin/tenants/acme")).json["defaults"] == found
    assert (await api.get("/v1/defaults", headers=ACME)).json == found, "a root key names the tenant"
    assert (await api.get("/v1/defaults")).json == {}, "of the tenant default"
    for method, body, field in (
        ("PUT", {"timeout": "8d"}, "timeout"),
        ("PATCH", {"concurrency": 3}, "concurrency"),
        ("PATCH", {"delivery": "at_most_once"}, "retries"),
        ("PUT", {"name": "x"}, "name"),
        ("PUT", {"tz": "Atlantis"}, "tz"),
        ("PATCH", {"misfire": "never"}, "misfire"),
    ):
        refused = await api.ask(method, "/v1/defaults", body, key=admin)
        assert refused.status == 422 and field in refused.json.get("field", ""), refused.body
    assert (await api.get("/v1/defaults", key=viewer)).json == found, "what was refused changed nothing"
    for key in (viewer, await api.key(Role.OPERATOR, acme.id)):
        assert (await api.ask("PUT", "/v1/defaults", {}, key=key)).status == 403
    entries = (await api.get("/v1/audit", key=admin)).json["items"]
    assert [(each["action"], each["object"], each["detail"]) for each in entries] == [
        ("defaults.change", "acme", "queue, timeout"),
        ("defaults.set", "acme", "retry, timeout"),
    ]
    exported = (await api.get("/v1/export/settings", key=admin)).json["items"][0]
    assert exported["defaults"]["queue"] == "bulk"
    assert await set_to(api, {}, key=admin) == {}


async def test_changes_at_once_are_all_kept(api: Served) -> None:
    names = {"queue": "bulk", "priority": "LOW", "timeout": 5.0, "jitter": 3.0, "warn_after": 9.0, "overlap": "skip"}
    await asyncio.gather(*(set_to(api, {name: value}, "PATCH") for name, value in names.items()))
    assert (await api.get("/v1/defaults")).json == names


async def test_every_entry_point_applies_them(api: Served, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await set_to(api, USUAL)
    one = (await api.post("/v1/jobs", {"task": "greet"})).json["job_id"]
    batch = (await api.post("/v1/jobs/batch", [{"task": "greet"}, {"task": "greet", "queue": "default"}])).json
    first, second = (item["job"]["job_id"] for item in batch["items"])
    graph = await api.post("/v1/graphs", {"nodes": {"a": {"task": "greet"}, "b": {"task": "greet"}}})
    made = [one, first, *(node["job_id"] for node in graph.json["nodes"])]
    assert (await job(api, second))["queue"] == "default", "an option that is given counts first"

    settings = Settings(url=api.url, key=await api.key(Role.OPERATOR))
    async with App(settings=settings) as remote:
        made.append((await add_task(remote).submit()).job_id)
    async with AsyncClient(api.url, api.root) as client:
        assert (await client.get_defaults()).queue == "bulk"
        made.append((await client.create_job("greet")).job_id)

    app = App(settings=quick_settings(database_url))
    greet = add_task(app)
    with app.using_store(api.store):
        made.append((await greet.submit()).job_id)
        made += [each.job_id for each in await app.submit_many([greet.bind(), greet.bind()])]
        shop = Celery("shop", app)
        ship = shop.task(name="ship")(lambda: None)
        made.append((await asyncio.to_thread(ship.delay)).id)
        plain = await app.job((await greet.options(queue="default", priority="HIGH").submit()).job_id)
        assert (plain.queue, plain.tier.name, plain.timeout_ms) == ("default", "HIGH", 90_000)
        if database_url.startswith("postgres"):
            connection = await asyncpg.connect(database_url)
            made.append((await greet.options(connection=connection).submit()).job_id)
            await connection.close()
        for job_id in made:
            assert (await job(api, job_id)).items() >= USUAL.items()
        # A change reaches an app within some seconds, and changes no stored job.
        await set_to(api, {"queue": "slow", "tz": "Europe/Berlin", "overlap": "skip"})
        monkeypatch.setattr(quota, "REMEMBERED", 0.0)
        after = await greet.submit()
        recurring = await greet.bind().schedule(cron="0 9 * * *")
        assert (await app.preview("0 9 * * *")).zone == "Europe/Berlin"
    await app.shut_down()
    assert (await job(api, after.job_id))["queue"] == "slow"
    assert (await job(api, one)).items() >= USUAL.items()
    over_http = (await api.post("/v1/jobs", {"task": "greet", "cron": "0 9 * * *"})).json["job_id"]
    for job_id in (recurring.job_id, over_http):
        found = await job(api, job_id)
        assert (found["schedule"]["tz"], found["overlap"]) == ("Europe/Berlin", "skip")
    preview = await api.post("/v1/schedules/preview", {"cron": "0 9 * * *"})
    assert preview.json["schedule"]["tz"] == "Europe/Berlin"
    edited = await api.ask("PATCH", f"/v1/jobs/{over_http}", {"cron": "0 10 * * *"})
    assert edited.json["schedule"]["tz"] == "Europe/Berlin"


async def test_a_task_counts_before_its_tenant(api: Served, database_url: str) -> None:
    """Also where the task says what holds anyway: `queue="default"`."""
    app = App(settings=quick_settings(database_url))
    greet = add_task(app, queue="default", retries=2)
    worker = WorkerInfo(new_id(), "w", ("greet",), (), 1, defaults={"greet": greet.defaults})
    await api.store.leases.register(worker, LEASE)
    await set_to(api, {**USUAL, "retry": {"retries": 9, "base": 60.0}})
    one = (await api.post("/v1/jobs", {"task": "greet"})).json["job_id"]
    with app.using_store(api.store):
        other = (await greet.submit()).job_id
    for job_id in (one, other):
        found = await job(api, job_id)
        assert (found["queue"], found["priority"]) == ("default", "LOW")
        assert (found["retry"]["retries"], found["retry"]["base"]) == (2, 60.0)


async def test_a_repeated_request_is_the_same_after_a_change(api: Served, database_url: str) -> None:
    app = App(settings=quick_settings(database_url))
    greet = add_task(app)

    async def ask() -> list[str]:
        answer = await api.post("/v1/jobs", {"task": "greet"}, headers={"Idempotency-Key": "k"})
        app._stores._quotas.clear()
        app._stores._here.clear()
        plan = GraphPlan("g").add("a", greet.bind())
        graph = await app.submit_graph(plan, idempotency_key="graph")
        return [answer.json["job_id"], (await greet.options(idempotency_key="mine").submit()).job_id, str(graph.id)]

    with app.using_store(api.store):
        first = await ask()
        for usual in (USUAL, {"queue": "slow"}, {}):
            await set_to(api, usual)
            assert await ask() == first
