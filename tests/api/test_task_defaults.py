"""What the decorator says of a task's jobs holds for every caller that submits them."""

from typing import Any

import pytest

from duetime import App, RetryPolicy
from duetime.ids import new_id
from duetime.model.access import Role
from duetime.model.defaults import decode_defaults
from duetime.model.worker import WorkerInfo
from tests.contract.hands import LEASE
from tests.support.served import Served
from tests.support.waiting import eventually
from tests.support.working import quick_settings, remote_worker

CAREFUL = {
    "queue": "billing",
    "priority": "HIGH",
    "timeout": 5.0,
    "delivery": "at_most_once",
    "concurrency_key": "bank",
    "concurrency": 2,
    "rate_key": "bank",
    "rate": "10/m",
    "warn_after": 3.0,
}
USUAL = {"queue": "default", "priority": "MEDIUM", "timeout": None, "delivery": "at_least_once", "rate": None}


def shop(database_url: str, **options: Any) -> App:
    app = App(settings=quick_settings(database_url))

    @app.task(name="charge", **{**CAREFUL, **options})
    async def charge(customer: int) -> None: ...

    @app.task(name="greet")
    async def greet() -> None: ...

    @app.task(name="fetch", retry=RetryPolicy(retries=7, base=1.0, give_up_on=(ValueError,)))
    async def fetch() -> None: ...

    return app


async def tell(api: Served, app: App) -> None:
    """Let a worker beside the database register, as one that starts now."""
    defaults = {name: task.defaults for name, task in app.tasks.items()}
    await api.store.leases.register(WorkerInfo(new_id(), "w", tuple(app.tasks), (), 1, defaults=defaults), LEASE)
    api.service.tasks._known.clear()


async def made(api: Served, **request: Any) -> dict[str, Any]:
    """The job as it is read back."""
    answer = await api.post("/v1/jobs", {"task": "charge", "args": {"customer": 7}, **request})
    assert answer.status == 201, answer.body
    job: dict[str, Any] = (await api.get(f"/v1/jobs/{answer.json['job_id']}")).json
    return job


async def test_a_job_gets_what_its_task_says(api: Served, database_url: str) -> None:
    before = await made(api)
    assert before.items() >= USUAL.items(), "nothing is known of it"
    await tell(api, shop(database_url))
    for request in ({}, {"tags": ["a"], "name": "n", "owner": "ann"}, {"cron": "0 9 * * *"}, {"run_in": "1h"}):
        job = await made(api, **request)
        assert job.items() >= CAREFUL.items(), request
        assert job["retry"]["retries"] == 0
    assert (await made(api, task="greet")).items() >= USUAL.items()
    retry = (await made(api, task="fetch", tags=["a"]))["retry"]
    assert (retry["retries"], retry["base"], retry["give_up_on"]) == (7, 1.0, ["ValueError"])


async def test_what_the_request_says_wins(api: Served, database_url: str) -> None:
    await tell(api, shop(database_url))
    asked = {"queue": "default", "priority": "MEDIUM", "timeout": 60.0, "delivery": "at_least_once", "rate": "1/h"}
    job = await made(api, **asked, retries=2)
    assert job.items() >= asked.items()
    assert (job["retry"]["retries"], job["concurrency_key"], job["rate_key"]) == (2, "bank", "bank")
    assert (await made(api, task="fetch", retries=1))["retry"].items() >= {"retries": 1, "base": 1.0}.items()
    refused = await api.post("/v1/jobs", {"task": "charge", "retries": 2})
    assert (refused.status, refused.json["field"]) == (422, "retries"), "it is never tried again"


async def test_batches_and_graphs_too(api: Served, database_url: str) -> None:
    await tell(api, shop(database_url))
    batch = await api.post("/v1/jobs/batch", [{"task": "charge"}, {"task": "charge", "queue": "mine"}])
    graph = await api.post("/v1/graphs", {"nodes": {"a": {"task": "charge"}, "b": {"task": "greet"}}})
    ids = [item["job"]["job_id"] for item in batch.json["items"]] + [node["job_id"] for node in graph.json["nodes"]]
    jobs = [(await api.get(f"/v1/jobs/{job_id}")).json for job_id in ids]
    assert [job["queue"] for job in jobs] == ["billing", "mine", "billing", "default"]
    assert [job["delivery"] for job in jobs] == ["at_most_once", "at_most_once", "at_most_once", "at_least_once"]


@pytest.mark.parametrize("request_", [{}, {"rate": "5/m", "rate_key": "mine", "tags": ["a"]}])
async def test_a_request_is_the_same_after_a_deployment(
    api: Served, database_url: str, request_: dict[str, Any]
) -> None:
    job = {"task": "charge", "args": {"customer": 7}, **request_}
    graph = {"nodes": {"a": job}}
    asked = (("/v1/jobs", job), ("/v1/jobs/batch", [job]), ("/v1/graphs", graph))

    async def ask() -> list[Any]:
        answers = [await api.post(path, body, headers={"Idempotency-Key": path}) for path, body in asked]
        assert all(answer.status in (200, 201) for answer in answers), answers
        one, many, whole = (answer.json for answer in answers)
        return [one["job_id"], many["items"][0]["job"]["job_id"], whole["graph_id"]]

    first = await ask()
    await tell(api, shop(database_url))
    assert await ask() == first
    await tell(api, shop(database_url, queue="slow", timeout=9.0))
    assert await ask() == first
    assert (await api.post("/v1/jobs", {**job, "queue": "x"}, headers={"Idempotency-Key": "/v1/jobs"})).status == 422


async def test_a_named_job_follows_what_its_task_says(api: Served, database_url: str) -> None:
    named = {"key": "monthly", "every": "1h"}
    first = await made(api, **named)
    await tell(api, shop(database_url))
    again = await made(api, **named)
    assert (again["job_id"], again["version"]) == (first["job_id"], first["version"] + 1)
    assert again.items() >= CAREFUL.items()
    assert (await made(api, **named))["version"] == again["version"]


async def test_a_remote_worker_tells_it(api: Served, database_url: str) -> None:
    async with remote_worker(shop(database_url), api.url, await api.key(Role.WORKER)):
        told = await eventually(lambda: api.store.queues.task_defaults(1))
    assert told == {name: shop(database_url).tasks[name].defaults for name in ("charge", "fetch")}
    assert (await made(api)).items() >= CAREFUL.items(), "while no worker is up, too"
    other = await api.tenant("other")
    assert await api.store.queues.task_defaults(other.id) == {}


async def test_a_registration_is_checked(api: Served) -> None:
    for said, field in (
        ({"greet": {}}, "defaults.greet"),
        ({"charge": {"queue": "a b"}}, "defaults.charge.queue"),
        ({"charge": {"timeout": "8d"}}, "defaults.charge.timeout"),
        ({"charge": {"delivery": "at_most_once", "retries": 3}}, "defaults.charge.retries"),
        ({"charge": {"rate": "1/m"}}, "defaults.charge.rate_key"),
    ):
        body = {"name": "w", "tasks": ["charge"], "defaults": said}
        answer = await api.post("/v1/workers", body, key=await api.key(Role.WORKER))
        assert (answer.status, answer.json.get("field")) == (422, field), answer.body


async def test_a_key_that_is_bound_to_queues_leads_no_other_jobs_there(api: Served) -> None:
    """What it tells of tasks of other queues is left out: its app may have them, and other workers tell of them."""
    anyone, mail = await api.key(Role.WORKER), await api.key(Role.WORKER, queues=("mail",))

    async def tell(key: str, **defaults: dict[str, object]) -> None:
        body = {"name": "w", "tasks": list(defaults), "defaults": defaults}
        assert (await api.post("/v1/workers", body, key=key)).status == 201

    await tell(anyone, charge={"queue": "billing", "timeout": "1m"}, send={"queue": "mail"}, quiet={})
    await tell(mail, charge={"queue": "mail"}, quiet={"queue": "mail"})
    await tell(mail, send={"queue": "mail", "timeout": "2m"}, fresh={"queue": "mail"})
    await tell(mail, send={"queue": "billing"})
    told = await api.store.queues.task_defaults(1)
    assert {name: decode_defaults(said) for name, said in told.items()} == {
        "charge": {"queue": "billing", "timeout": "1m"},
        "send": {"queue": "mail", "timeout": "2m"},
        "fresh": {"queue": "mail"},
    }
