"""A submission with a nonce: repeating it creates nothing twice, and its id is computed."""

from datetime import datetime, timedelta

import pytest

from duetime import AsyncClient, ids
from duetime.clock import SystemClock
from duetime.model import nonce as nonces
from tests.support.served import Served

JOB = {"task": "charge", "args": {"amount": 5}}


def with_nonce(nonce: object) -> dict[str, str]:
    return {"Duetime-Nonce": str(nonce)}


async def test_a_repeated_request_gets_the_first_answer(api: Served) -> None:
    nonce = ids.new_id()
    first = await api.post("/v1/jobs", JOB, headers=with_nonce(nonce))
    again = await api.post("/v1/jobs", JOB, headers=with_nonce(nonce))
    assert (first.status, again.status) == (201, 201) and first.body == again.body
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.json["job_id"] == ids.show("job", ids.id_from_nonce(nonce, 1))
    assert first.json["via"] == "store"
    assert (await api.store.reads.counts()).runs == 1
    other = await api.post("/v1/jobs", JOB | {"priority": "HIGH"}, headers=with_nonce(nonce))
    assert (other.status, other.code) == (422, "idempotency_key_reused")


async def test_a_repeated_batch_gets_the_first_answer_in_its_order(api: Served) -> None:
    nonce, jobs = ids.new_id(), [JOB | {"args": {"amount": number}} for number in range(20)]
    first = await api.post("/v1/jobs/batch", jobs, headers=with_nonce(nonce))
    again = await api.post("/v1/jobs/batch", jobs, headers=with_nonce(nonce))
    assert first.status == 200 and first.body == again.body
    found = [item["job"]["job_id"] for item in first.json["items"]]
    assert found == [ids.show("job", ids.id_from_nonce(nonce, 1, place)) for place in range(20)] == sorted(found)


async def test_a_nonce_that_is_not_valid_changes_nothing(api: Served) -> None:
    late = nonces.moved(ids.new_id(), -700)
    for headers in (with_nonce("x"), with_nonce(late), {**with_nonce(ids.new_id()), "Idempotency-Key": "mine"}):
        for path, body in (("/v1/jobs", JOB), ("/v1/jobs/batch", [JOB])):
            answer = await api.post(path, body, headers=headers)
            assert (answer.status, answer.json["field"]) == (422, "Duetime-Nonce"), headers
    assert (await api.store.reads.counts()).runs == 0


class Slow:
    """A clock that is an hour behind."""

    def now(self) -> datetime:
        return SystemClock().now() - timedelta(hours=1)


async def test_a_client_with_a_wrong_clock_follows_the_servers(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.ids.time.time_ns", lambda: int(Slow().now().timestamp() * 1e9))
    monkeypatch.setattr("duetime.client.transport.SystemClock", Slow)
    async with AsyncClient(api.url, api.root) as client:
        first, second = [await client.create_job("charge") for _ in range(2)]
    assert first.job_id != second.job_id
    for receipt in (first, second):
        assert abs(ids.time_of(ids.parse("job", receipt.job_id)) - SystemClock().now()) < timedelta(minutes=5)
    assert (await api.store.reads.counts()).runs == 2
