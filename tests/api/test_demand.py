"""What an autoscaler is told over HTTP."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from duetime.api.lookup_cache import Memory
from duetime.client import AsyncClient
from duetime.model.access import Role
from duetime.model.tenant import TenantChange, TenantState
from tests.contract.hands import hand
from tests.support.served import Served


@pytest.fixture(autouse=True)
def nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Answers are shared for some seconds; these tests change what is read between two requests."""
    kept = Memory.put

    def put(self: Memory[Any, Any], key: Any, value: Any, seconds: float | None = None) -> Any:
        return kept(self, key, value, 0.0 if self._seconds < 60 else seconds)

    monkeypatch.setattr(Memory, "put", put)
    yield


async def demand(api: Served, queue: str = "default", **query: Any) -> dict[str, Any]:
    words = "&".join(f"{name}={value}" for name, value in query.items())
    answer = await api.get(f"/v1/queues/{queue}/demand?{words}")
    assert answer.status == 200, answer.json
    found: dict[str, Any] = answer.json
    return found


async def test_nothing_needs_no_worker(api: Served) -> None:
    found = await demand(api)
    assert (found["workers"], found["workers_now"], found["workers_ahead"], found["peak_at"]) == (0, 0, 0, None)
    assert (found["waiting"], found["running"], found["coming"], found["arrival_rate"]) == (0, 0, 0, 0.0)
    assert found["duration_from"] == "assumed" and "`duration`" in found["notes"][0] and not found["exact"]
    assert found["slots"] == api.service.settings.slots


async def test_what_waits_and_runs_needs_workers_now(api: Served) -> None:
    for _ in range(45):
        await api.post("/v1/jobs", {"task": "greet"})
    asked = {"slots": 10, "lag": "1s", "duration": "1h", "minutes": 0}
    found = await demand(api, **asked)
    assert (found["waiting"], found["running"], found["workers"]) == (45, 0, 9), "as many are expected to follow"
    assert found["exact"] and found["oldest_age"] >= 0 and found["arrival_rate"] > 0
    worker = await hand(api.store)
    runs = await worker.claim(20)
    found = await demand(api, **asked)
    assert (found["waiting"], found["running"], found["workers"], found["live_workers"]) == (25, 20, 9, 1)
    await worker.succeed(*runs)
    await worker.succeed(*await worker.claim(100))
    found = await demand(api, minutes=0)
    assert (found["waiting"], found["running"], found["duration_from"]) == (0, 0, "recent")
    assert found["workers_now"] == 1, "runs keep arriving, as far as is known"


async def test_a_herd_is_seen_ahead(api: Served) -> None:
    due = (datetime.fromisoformat((await demand(api))["at"]) + timedelta(minutes=3)).replace(microsecond=0)
    moment = due.isoformat().replace("+00:00", "Z")
    lines = b"\n".join([b'{"task": "greet", "run_at": "%s"}' % moment.encode()] * 300)
    sent = await api.ask("POST", "/v1/jobs/batch", raw=lines, headers={"Content-Type": "application/x-ndjson"})
    assert sent.status == 200
    asked = {"slots": 10, "lag": "1s", "duration": "1h"}
    found = await demand(api, minutes=5, **asked)
    assert (found["coming"], found["workers_now"], found["workers_ahead"], found["workers"]) == (300, 0, 30, 30)
    assert abs(datetime.fromisoformat(found["peak_at"]) - due) <= timedelta(seconds=1)
    assert found["exact"] or "sample" in found["notes"][0]
    found = await demand(api, minutes=2, **asked)
    assert (found["coming"], found["workers"]) == (0, 0)
    by_rate = await demand(api, minutes=5, lag="2s", duration="1ms", slots=1000, rate="50/s")
    assert by_rate["workers"] == 3
    await api.post("/v1/queues/default/pause")
    paused = await demand(api, minutes=5, **asked)
    assert (paused["paused"], paused["workers"]) == (True, 0)


async def test_limits_bound_the_answer(api: Served) -> None:
    for _ in range(40):
        await api.post("/v1/jobs", {"task": "greet"})
    await api.ask("PUT", "/v1/queues/default", {"running": 15})
    found = await demand(api, slots=10, duration="1h", lag="1s")
    assert found["workers"] == 2 and "limit" in found["notes"][-1]


async def test_durations_of_jobs_that_come_are_read_from_their_history(api: Served) -> None:
    made = (await api.post("/v1/jobs", {"task": "greet", "every": "2m", "queue": "reports"})).json
    assert (await demand(api, "reports", minutes=5))["coming"] == 2
    triggered = await api.post(f"/v1/jobs/{made['job_id']}/trigger", {})
    assert triggered.status in (200, 201)
    worker = await hand(api.store)
    await worker.succeed(*await worker.claim())
    api.service.seen_durations.clear()
    found = await demand(api, "reports", minutes=5)
    assert found["duration_from"] in ("recent", "earlier")


async def test_another_tenant_sees_nothing_of_it(api: Served) -> None:
    await api.post("/v1/jobs", {"task": "greet"})
    await api.post("/v1/jobs", {"task": "greet", "every": "1m"})
    await (await hand(api.store)).claim()
    tenant = await api.tenant("acme")
    key = await api.key(Role.VIEWER, tenant.id)
    found = (await api.get("/v1/queues/default/demand", key=key)).json
    assert [found[name] for name in ("workers", "waiting", "running", "coming", "arrival_rate")] == [0, 0, 0, 0, 0.0]


async def test_a_suspended_tenant_needs_no_workers(api: Served) -> None:
    tenant = await api.tenant("acme")
    key = await api.key(Role.OPERATOR, tenant.id)
    assert (await api.post("/v1/jobs", {"task": "greet"}, key=key)).status == 201
    assert (await api.get("/v1/queues/default/demand?duration=1s", key=key)).json["workers"] == 1
    await api.store.tenants.update_tenant(tenant.id, TenantChange(state=TenantState.SUSPENDED))
    found = (await api.get("/v1/queues/default/demand?duration=1s", key=key)).json
    assert (found["paused"], found["waiting"], found["workers"]) == (True, 1, 0)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("minutes=61", "minutes"),
        ("minutes=-1", "minutes"),
        ("minutes=soon", "minutes"),
        ("slots=0", "slots"),
        ("lag=0s", "lag"),
        ("lag=2h", "lag"),
        ("lag=late", "lag"),
        ("duration=0", "duration"),
        ("rate=many", "rate"),
        ("workers=3", "workers"),
    ],
)
async def test_bad_questions(api: Served, query: str, field: str) -> None:
    answer = await api.get(f"/v1/queues/default/demand?{query}")
    assert answer.status == 422 and field in answer.body.decode(), answer.json


async def test_the_client_asks_for_it(api: Served) -> None:
    await api.post("/v1/jobs", {"task": "greet"})
    async with AsyncClient(api.url, key=api.root) as client:
        found = await client.get_demand("default", minutes=1, slots=5, lag="5s", duration=2.5, rate="10/s")
    assert (found.workers, found.waiting, found.slots, found.lag, found.duration) == (1, 1, 5, 5.0, 2.5)
    assert (found.rate, found.minutes, found.duration_from) == ("10/s", 1, "given")
