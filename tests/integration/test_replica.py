"""Lists and figures from a streaming replica: how stale they say they are, and when the primary answers instead."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from duetime.api import application
from duetime.api import replica as replica_module
from duetime.api.table import ENDPOINTS
from tests.contract.worlds import execute, query
from tests.integration.test_hosts import migrate
from tests.support.postgres import Server, installed
from tests.support.served import Served, served
from tests.support.waiting import eventually

JOB = {"task": "greet", "run_in": "1h"}


@contextmanager
def replica_of(primary: Server) -> Iterator[Server]:
    replica = Server(installed()[0], copy_of=primary, follows=True)
    try:
        replica.start()
        yield replica
    finally:
        replica.close()


async def observe(api: Served, replica: Server) -> None:
    """As a node does every few seconds; waits until the replica has it."""
    now = await api.store.now()
    await api.store.clocks.keep_clock_seen(now, stepped=False)

    async def arrived() -> bool:
        return query(replica.dsn("duetime"), "select seen_at from duetime.clock_watch") == [(now,)]

    await eventually(arrived)
    assert api.service.replica is not None
    await api.service.replica.tick()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, a replica that answers late must not count as one that is away."""
    monkeypatch.setattr(replica_module, "_MEASURED_WITHIN", 1e6)
    for module in (replica_module, application):
        monkeypatch.setattr(module, "DEADLINE", 120.0)


async def test_lists_and_figures_of_a_replica() -> None:
    with Server(installed()[0]) as primary:
        dsn = primary.create_database("duetime")
        await migrate(dsn)
        with replica_of(primary) as replica:
            url, most = replica.dsn("duetime"), timedelta(hours=1)
            async with served(dsn, replica_url=url, replica_max_lag=most) as api:
                await answers_of(api, replica)
                await fallbacks(api, replica)


async def answers_of(api: Served, replica: Server) -> None:
    assert api.service.replica is not None
    before = await api.get("/v1/jobs")
    assert "duetime-stale" not in before.headers  # it was not measured yet
    job_id = (await api.post("/v1/jobs", JOB)).json["job_id"]
    await observe(api, replica)
    asked = [endpoint for endpoint in ENDPOINTS if endpoint.replica]
    assert {endpoint.name for endpoint in asked} >= {"list_jobs", "list_runs", "get_stats", "list_dead_letters"}
    for endpoint in asked:
        path = endpoint.path.replace("{job_id}", job_id)
        path += f"?job_ids={job_id}" if endpoint.name == "list_recent_runs" else ""
        answer = await api.get(path)
        assert answer.status == 200, answer.body
        stated = float(answer.headers["duetime-stale"])
        assert 0 < stated == answer.json["stale_seconds"]
        fresh = await api.get(path, headers={"Cache-Control": "no-cache"})
        assert "duetime-stale" not in fresh.headers
    assert [item["job_id"] for item in (await api.get("/v1/jobs")).json["items"]] == [job_id]


async def fallbacks(api: Served, replica: Server) -> None:
    found = api.service.replica
    assert found is not None
    execute(replica.dsn(), "select pg_wal_replay_pause()")
    newer = (await api.post("/v1/jobs", JOB)).json["job_id"]

    async def listed() -> tuple[bool, bool]:
        """Whether the newer job is in the list, and whether a replica gave the list."""
        answer = await api.get("/v1/jobs")
        return newer in answer.body.decode(), "duetime-stale" in answer.headers

    assert await listed() == (False, True)
    # What has not arrived there is not missing.
    runs = await api.get(f"/v1/jobs/{newer}/runs")
    assert (runs.status, "duetime-stale" in runs.headers) == (200, False)
    # It is further behind than is allowed.
    found._most = 0.001
    assert await listed() == (True, False)
    found._most = 3600.0
    assert await listed() == (False, True)
    # It is away: the next request finds out, and the one after that does not try.
    replica.stop_immediately()
    assert await listed() == (True, False)
    assert found.stale() is None
    await found.tick()
    assert found.stale() is None
