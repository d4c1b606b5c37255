"""Idempotency keys of requests that submit nothing, over HTTP, by the clients and by an app on either side."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from duetime import App, AsyncClient, KeyReused, Settings
from tests.integration.conftest import app, database_url, migrated, served
from tests.support.served import Served
from tests.support.waiting import eventually
from tests.support.working import ended, working

__all__ = ["app", "database_url", "migrated", "served"]

RANGE = {"start": "2026-03-01T00:00:00Z", "end": "2026-03-01T03:00:00Z"}


def add_tasks(app: App) -> None:
    @app.task(name="fails", retries=0)
    async def fails() -> None:
        raise ValueError("no")

    @app.task(name="note")
    async def note() -> None: ...


@pytest.fixture
async def subjects(app: App) -> tuple[str, str]:
    """A recurring job, and a run that is a dead letter."""
    add_tasks(app)
    receipt = await app.submit("fails")
    async with working(app):
        run = await ended(app, receipt)
        await eventually(lambda: run.state.is_end)
    recurring = await app.schedule("note", every="1h", start_at="2026-03-01T00:00:00Z")
    return recurring.job_id, str(receipt.run_id)


async def runs(app: App, subjects: tuple[str, str]) -> int:
    dead = (await app.run(subjects[1])).job_id
    return len(await app.runs(subjects[0])) + len(await app.runs(dead))


REQUESTS = {
    "trigger": ("/v1/jobs/{0}/trigger", None, None),
    "backfill": ("/v1/jobs/{0}/backfill", RANGE, {**RANGE, "rate": 5}),
    "retry": ("/v1/runs/{1}/retry", None, None),
    "replay": ("/v1/dead-letters/replay", {}, {"limit": 5}),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_over_http(app: App, served: Served, subjects: tuple[str, str], name: str) -> None:
    template, body, other = REQUESTS[name]
    path, how = template.format(*subjects), {"headers": {"Idempotency-Key": "k"}}
    first = await served.post(path, body, **how)
    assert first.status < 300, first.body
    count = await runs(app, subjects)
    again = await served.post(path, body, **how)
    assert (again.status, again.json) == (first.status, first.json)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert await runs(app, subjects) == count
    if other is not None:
        refused = await served.post(path, other, **how)
        assert (refused.status, refused.code) == (422, "idempotency_key_reused")
    submitted = await served.post("/v1/jobs", {"task": "note"}, **how)
    assert submitted.code == "idempotency_key_reused"


async def test_by_the_client(app: App, served: Served, subjects: tuple[str, str]) -> None:
    job, run = subjects
    async with AsyncClient(served.url, served.root) as client:
        asks: list[tuple[Any, tuple[Any, ...]]] = [
            (client.trigger_job, (job,)),
            (client.backfill_job, (job, RANGE["start"], RANGE["end"])),
            (client.retry_run, (run,)),
            (client.replay_dead_letters, ()),
        ]
        for number, (ask, arguments) in enumerate(asks):
            first = await ask(*arguments, idempotency_key=f"k{number}")
            count = await runs(app, subjects)
            assert await ask(*arguments, idempotency_key=f"k{number}") == first
            assert await runs(app, subjects) == count


@pytest.fixture(params=["beside", "over HTTP"])
async def either(request: pytest.FixtureRequest, app: App, served: Served) -> AsyncIterator[App]:
    if request.param == "beside":
        yield app
        return
    async with App(settings=Settings(url=served.url, key=served.root)) as remote:
        yield remote


async def test_by_an_app(app: App, either: App, subjects: tuple[str, str]) -> None:
    job, run = subjects
    triggered = await either.trigger(job, idempotency_key="a")
    assert (await either.trigger(job, idempotency_key="a")).id == triggered.id
    made = await either.backfill(job, RANGE["start"], RANGE["end"], idempotency_key="b")
    assert made == 3
    assert await either.backfill(job, RANGE["start"], RANGE["end"], idempotency_key="b") == 3
    retried = await either.retry(run, idempotency_key="c")
    assert retried.replays == run
    assert (await either.retry(run, idempotency_key="c")).id == retried.id
    assert (await either.retry(run)).id == retried.id, "a run is repeated once, without a key too"
    with pytest.raises(KeyReused):
        await either.retry(run, idempotency_key="a")
    assert await runs(app, subjects) == 1 + 3 + 2
