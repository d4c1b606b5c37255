"""One idempotency key, one job: whatever happens to the answer."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import asyncpg
import pytest

from duetime import AsyncClient
from duetime.api.data_folder import make_root_key
from duetime.engine import submit_batcher
from duetime.engine.intake import prepare
from duetime.ids import show
from duetime.model.access import Role
from duetime.model.lists import JobFilter
from duetime.store.address import open_ready, store_for
from tests.contract.hands import hand
from tests.support.command import ROOT
from tests.support.served import Served
from tests.support.working import ENCRYPTION, quick_settings

JOB = {"task": "charge", "args": {"amount": 5}}


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


async def test_the_first_answer_again(api: Served) -> None:
    for given in ({}, {"run_in": "1h"}, {"every": "1h"}, {"run_at": "2080-01-01T00:00:00Z"}):
        key = f"key {given}"
        first = await api.post("/v1/jobs", JOB | given, headers=keyed(key))
        again = await api.post("/v1/jobs", JOB | given, headers=keyed(key))
        assert (first.status, again.status) == (201, 201)
        assert first.body == again.body
        assert "Idempotency-Replayed" not in first.headers and again.headers["Idempotency-Replayed"] == "true"
        in_body = await api.post("/v1/jobs", JOB | given | {"idempotency_key": key})
        assert in_body.body == first.body, "the header and the field are one key"


async def test_another_body(api: Served) -> None:
    await api.post("/v1/jobs", JOB, headers=keyed("one"))
    for other in ({"args": {"amount": 6}}, {"priority": "HIGH"}, {"run_in": 5}, {"owner": "bob"}, {"tags": ["x"]}):
        answer = await api.post("/v1/jobs", JOB | other, headers=keyed("one"))
        assert (answer.status, answer.code) == (422, "idempotency_key_reused"), other
    answer = await api.post("/v1/jobs", JOB | {"idempotency_key": "two"}, headers=keyed("one"))
    assert (answer.status, answer.json["field"]) == (422, "idempotency_key")
    assert (await api.store.reads.counts()).runs == 1


async def test_a_refusal_is_not_remembered(api: Served) -> None:
    assert (await api.post("/v1/jobs", JOB | {"cron": "x"}, headers=keyed("one"))).status == 422
    assert (await api.post("/v1/jobs", JOB, headers=keyed("one"))).status == 201


async def test_tenants_do_not_share_keys(api: Served) -> None:
    other = await api.key(Role.SUBMITTER, (await api.tenant("other")).id)
    first = await api.post("/v1/jobs", JOB, headers=keyed("one"))
    theirs = await api.post("/v1/jobs", {"task": "else"}, headers=keyed("one"), key=other)
    assert theirs.status == 201 and theirs.json["job_id"] != first.json["job_id"]


async def test_a_twin_that_has_not_committed(api: Served, database_url: str) -> None:
    if not database_url.startswith("postgresql"):
        return  # one thread writes the file: there is no such twin
    connection = await asyncpg.connect(database_url)
    try:
        async with connection.transaction():
            twin = prepare(task="charge", args=JOB["args"], max_payload=1000, idempotency_key="one")  # type: ignore[arg-type]
            await api.store.caller_transactions.submit_within(connection, 1, twin)
            answer = await api.post("/v1/jobs", JOB, headers=keyed("one"))
            assert (answer.status, answer.code) == (409, "idempotency_key_in_flight")
            assert answer.headers["Retry-After"] == "1"
        assert (await api.post("/v1/jobs", JOB, headers=keyed("one"))).headers["Idempotency-Replayed"] == "true"
    finally:
        await connection.close()


async def test_a_thousand_at_once(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit_batcher, "LONGEST_WAIT", 60)
    monkeypatch.setattr(submit_batcher, "ANSWER_TIMEOUT", 60)

    async def create() -> tuple[int, bytes]:
        while True:
            answer = await api.post("/v1/jobs", JOB, headers=keyed("one"))
            if answer.status != 409:
                return answer.status, answer.body

    answers = await asyncio.gather(*(create() for _ in range(1000)))
    assert {status for status, _ in answers} == {201}
    assert len({body for _, body in answers}) == 1, "all get the first answer"
    assert (await api.store.reads.counts()).runs == 1


async def test_a_batch(api: Served) -> None:
    batch = [JOB, {"task": "t", "run_in": "1h"}]
    first = await api.post("/v1/jobs/batch", batch, headers=keyed("one"))
    again = await api.post("/v1/jobs/batch", batch, headers=keyed("one"))
    assert first.body == again.body and again.headers["Idempotency-Replayed"] == "true"
    for other in (batch[:1], [*batch, JOB], list(reversed(batch))):
        answer = await api.post("/v1/jobs/batch", other, headers=keyed("one"))
        assert (answer.status, answer.code) == (422, "idempotency_key_reused")
    counts = await api.store.reads.counts()
    assert (counts.runs, counts.jobs) == (1, 1)


async def test_a_job_with_a_key_is_the_same_in_any_batch(api: Served) -> None:
    first, later = {"task": "t", "key": "first"}, {"task": "t", "key": "later", "run_in": "1h"}
    async with AsyncClient(api.url, api.root) as client:
        made = [item.job for item in (await client.create_jobs([first, later])).items]
        worker = await hand(api.store)
        assert show("run", (await worker.claim_one()).run_id) == made[0].run_id, "the first one has started"
        third = {"task": "t", "key": "third"}
        again = await client.create_jobs([third, later, first])
        alone = [await client.create_job(**job) for job in (first, later)]
        by_itself = await client.create_jobs([first])
    found = [again.items[2].job, again.items[1].job, *alone]
    assert [receipt.job_id for receipt in found] == [receipt.job_id for receipt in made] * 2
    assert not any(receipt.created for receipt in found) and again.items[0].job.created
    assert found[1].next_run == found[3].next_run == made[1].next_run, "its hour goes on"
    assert (by_itself.items[0].job.job_id, by_itself.items[0].job.created) == (made[0].job_id, False)


@contextmanager
def server(database_url: str, *arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
    environ |= {"DUETIME_DATABASE_URL": database_url, "DUETIME_PORT": "0", "PYTHONPATH": str(ROOT)}
    environ["DUETIME_ENCRYPTION_KEYS"] = ENCRYPTION
    command = [sys.executable, "-m", "tests.support.dying_server", *arguments]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


async def test_a_server_that_dies_between_commit_and_answer(database_url: str) -> None:
    store = store_for(quick_settings(database_url))
    await open_ready(store)
    root = (await make_root_key(store, "root")).text
    await store.close()

    headers = {"Authorization": f"Bearer {root}"} | keyed("one")
    async with aiohttp.ClientSession(headers=headers) as http:
        with server(database_url, "--die") as (process, url):
            try:
                await http.post(f"{url}/v1/jobs", json=JOB)
            except aiohttp.ClientError:
                pass
            else:
                raise AssertionError("it has answered")
            assert process.wait(10) == -9

        answers: list[Any] = []
        with server(database_url) as (_, url):
            for _ in range(2):
                async with http.post(f"{url}/v1/jobs", json=JOB) as answer:
                    assert (answer.status, answer.headers["Idempotency-Replayed"]) == (201, "true")
                    answers.append(await answer.json())
    await store.open()
    assert (await store.reads.counts()).runs == 1
    assert answers[0] == answers[1]
    [job] = (await store.lists.list_jobs(1, JobFilter())).items
    assert answers[0]["job_id"] == show("job", job.id)
    await store.close()


@pytest.mark.parametrize(
    "when",
    [
        {"when": "in 10 minutes"},
        {"when": "tomorrow at 8am", "tz": "Europe/Berlin"},
        {"when": "every 2 weeks at 9:00", "exclude": {"weekdays": ["SUN"]}},
        {"run_in": "P1M"},
        {"run_in": "2d", "tz": "Europe/Berlin"},
        {"every": "1h"},
    ],
)
async def test_what_is_counted_from_the_moment_of_asking_is_the_same_request(api: Served, when: dict[str, Any]) -> None:
    wish = {"task": "t", **when}
    first = await api.post("/v1/jobs", wish, headers=keyed("one"))
    again = await api.post("/v1/jobs", wish, headers=keyed("one"))
    assert (again.status, again.json["job_id"]) == (201, first.json["job_id"]), again.body
    named = [(await api.post("/v1/jobs", {**wish, "key": "k"})).json["job_id"] for _ in range(2)]
    assert named[0] == named[1]
