"""Figures over HTTP: the dashboard is made of them, and every other client may ask for them."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from duetime.ids import parse
from duetime.model.access import Role
from tests.contract.hands import hand
from tests.support.served import Served


async def ended(api: Served) -> list[str]:
    """One run that succeeded and one that failed; returns their jobs."""
    made = [(await api.post("/v1/jobs", {"task": "greet"})).json for _ in range(2)]
    worker = await hand(api.store)
    runs = sorted(await worker.claim(), key=lambda run: run.job_id)
    await worker.succeed(runs[0])
    await worker.fail(runs[1])
    return [each["job_id"] for each in made]


async def test_how_a_tenant_stands(api: Served) -> None:
    await ended(api)
    await api.post("/v1/jobs", {"task": "nobody_has_this"})
    await api.post("/v1/jobs", {"task": "greet", "every": "1h"})
    await api.post("/v1/queues/mail/pause")
    found = (await api.get("/v1/stats")).json
    assert sum(step["succeeded"] for step in found["steps"]) == 1
    assert sum(step["failed"] for step in found["steps"]) == 1
    assert len(found["steps"]) == 60 and found["step"] == 5.0
    assert found["lag"]["p50"] <= found["lag"]["p95"] <= found["lag"]["most"]
    assert found["jobs"] == {"value": 1, "kind": "exact"} == found["dead_letters"]
    assert found["depth"] == {"high": 0, "medium": 1, "low": 0, "capped": False}
    assert [(each["task"], each["has_worker"]) for each in found["waiting"]] == [("nobody_has_this", False)]
    assert found["failing"] == [{"task": "greet", "failed": 1, "attempts": 2}]
    assert (found["paused_queues"], found["workers"], found["slots"]) == (["mail"], 1, 10)


async def test_a_stranger_sees_nothing_of_it(api: Served) -> None:
    jobs = await ended(api)
    tenant = await api.tenant("acme")
    key = await api.key(Role.VIEWER, tenant.id)
    found = (await api.get("/v1/stats", key=key)).json
    assert sum(step["succeeded"] + step["failed"] for step in found["steps"]) == 0
    assert (found["jobs"]["value"], found["dead_letters"]["value"], found["failing"]) == (0, 0, [])
    recent = (await api.get(f"/v1/recent-runs?job_ids={jobs[0]}", key=key)).json
    assert recent["items"] == [{"job_id": jobs[0], "runs": []}]
    await api.post("/v1/jobs", {"task": "greet", "every": "10m"})
    assert (await api.get("/v1/fires", key=key)).json["items"] == []


async def test_what_is_to_come(api: Served) -> None:
    await api.post("/v1/jobs", {"task": "greet", "every": "10m", "queue": "mail"})
    found = (await api.get("/v1/fires")).json
    assert [(each["queue"], each["count"]) for each in found["items"]] == [("mail", 1)] * len(found["items"])
    assert len(found["items"]) in (5, 6) and found["exact"]
    start = datetime.fromisoformat(found["start"])
    end = (start + timedelta(days=7)).isoformat().replace("+00:00", "Z")
    week = (await api.get(f"/v1/fires?end={end}&step=1d")).json
    assert sum(each["count"] for each in week["items"]) == pytest.approx(6 * 24 * 7, abs=2)


async def test_a_cell_lists_the_jobs_that_it_counts(api: Served) -> None:
    """Also where their next fire lies before it; page by page; of one queue or of all."""
    often = [await _made(api, every="10m", queue="mail") for _ in range(3)]
    seldom = await _made(api, every="90m", queue="mail")
    other = await _made(api, cron="*/5 * * * *")
    await _made(api, every="90d")
    start = datetime.fromisoformat((await api.get("/v1/fires")).json["start"]) + timedelta(hours=2)
    end = start + timedelta(minutes=50)
    span = {name: moment.isoformat().replace("+00:00", "Z") for name, moment in (("start", start), ("end", end))}
    found = (await api.get(f"/v1/fires?start={span['start']}&end={span['end']}&step=50m")).json
    assert found["exact"] and found["estimate"] is None
    assert {each["queue"]: each["count"] for each in found["items"]} == {"mail": 15, "default": 10}
    listed = f"/v1/jobs?fires_from={span['start']}&fires_until={span['end']}&page_size=2"
    assert await _listed(api, listed) == {**dict.fromkeys(often, 5), other: 10}
    assert await _listed(api, f"{listed}&queue=mail") == dict.fromkeys(often, 5)
    assert seldom not in await _listed(api, listed)


async def _made(api: Served, **what: str) -> str:
    return str((await api.post("/v1/jobs", {"task": "greet", **what})).json["job_id"])


async def _listed(api: Served, path: str) -> dict[str, int]:
    found: list[tuple[str, int]] = []
    cursor = ""
    while True:
        page = (await api.get(path + cursor)).json
        found += [(job["job_id"], job["fires"]) for job in page["items"]]
        if page["next_cursor"] is None:
            assert len(found) == len(dict(found))
            return dict(found)
        cursor = f"&cursor={page['next_cursor']}"


async def test_the_last_runs_of_jobs(api: Served) -> None:
    jobs = await ended(api)
    found = (await api.get(f"/v1/recent-runs?job_ids={','.join(jobs)}")).json["items"]
    assert {each["job_id"]: [run["status"] for run in each["runs"]] for each in found} == {
        jobs[0]: ["SUCCEEDED"],
        jobs[1]: ["FAILED"],
    }
    assert all(run["duration"] >= 0 for each in found for run in each["runs"])


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/stats?window=10s", "window"),
        ("/v1/stats?window=2d", "window"),
        ("/v1/fires?step=1ms", "step"),
        ("/v1/fires?step=1s", "step"),
        ("/v1/fires?end=2020-01-01T00:00:00Z", "end"),
        ("/v1/fires?end=2999-01-01T00:00:00Z&step=1d", "end"),
        ("/v1/fires?start=soon", "start"),
        ("/v1/jobs?fires_from=2026-01-01T00:00:00Z", "fires_until"),
        ("/v1/jobs?fires_from=2026-01-01T00:00:00Z&fires_until=2999-01-01T00:00:00Z", "fires_until"),
        ("/v1/jobs?fires_from=2026-01-01T00:00:00Z&fires_until=2026-01-02T00:00:00Z&name=a", "name"),
        ("/v1/recent-runs?job_ids=job_nonsense", "job_ids"),
        (f"/v1/recent-runs?job_ids={','.join(['job_00000000000000000000000000'] * 101)}", "job_ids"),
        ("/v1/recent-runs", "job_ids"),
    ],
)
async def test_what_cannot_be_meant_is_refused(api: Served, path: str, field: str) -> None:
    answer = await api.get(path)
    assert (answer.status, answer.json["field"]) == (422, field)


async def test_who_asks(api: Served) -> None:
    found = (await api.get("/v1/me", key=await api.key(Role.VIEWER))).json
    assert (found["role"], found["tenant"], found["may"]) == ("viewer", "default", ["read"])
    root = (await api.get("/v1/me")).json
    assert root["role"] == "root" and "manage_tenants" in root["may"]


async def log_in(api: Served, key: str, **headers: str) -> Any:
    return await api.post("/login", {"key": key}, key=None, headers=headers)


async def test_a_key_begins_a_session(api: Served) -> None:
    answer = await log_in(api, api.root)
    cookie = answer.headers["Set-Cookie"]
    assert answer.status == 200 and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    session = {"Cookie": cookie.partition(";")[0]}
    assert (await api.get("/v1/me", key=None, headers=session)).json["role"] == "root"
    foreign = {**session, "Sec-Fetch-Site": "cross-site"}
    assert (await api.post("/v1/jobs", {"task": "t"}, key=None, headers=foreign)).status == 403
    out = await api.post("/logout", key=None, headers=session)
    assert "Max-Age=0" in out.headers["Set-Cookie"]


async def test_a_wrong_key_begins_none(api: Served) -> None:
    viewer = await api.key(Role.VIEWER)
    for wrong in ("dt_live_nonsense", viewer[:-1] + ("0" if viewer[-1] != "0" else "1"), "x"):
        answer = await log_in(api, wrong)
        assert (answer.status, answer.code, "Set-Cookie" in answer.headers) == (401, "unauthenticated", False)


async def test_another_site_cannot_log_anybody_in(api: Served) -> None:
    answer = await log_in(api, api.root, **{"Sec-Fetch-Site": "cross-site"})
    assert (answer.status, "Set-Cookie" in answer.headers) == (403, False)


async def test_pages_and_files(api: Served) -> None:
    page = await api.get("/", key=None)
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html")
    assert page.headers["Cache-Control"] == "no-cache"
    policy = page.headers["Content-Security-Policy"]
    assert "unsafe" not in policy and "script-src 'self'" in policy
    text = page.body.decode()
    assert "<script>" not in text and "style=" not in text
    address = text.partition('<script type="module" src="')[2].partition('"')[0]
    script = await api.get(address, key=None, headers={"Accept-Encoding": "gzip"})
    assert script.status == 200 and "immutable" in script.headers["Cache-Control"]
    assert (await api.get("/jobs/job_x", key=None)).body == page.body
    assert (await api.post("/jobs", key=None)).status == 405
    for missing in (
        "/assets/other/dashboard.js",
        address.replace("dashboard.js", "../files.py"),
        address + "x",
        "/nowhere",
    ):
        assert (await api.get(missing, key=None)).status == 404, missing


async def test_trends_of_a_day_and_a_week(api: Served) -> None:
    await ended(api)
    await api.store.trends.count_trends(await api.store.now() + timedelta(minutes=2))
    for name, steps, seconds in (("hour", 60, 60), ("day", 96, 900), ("week", 168, 3600)):
        found = (await api.get(f"/v1/trends?range={name}")).json
        assert (len(found["steps"]), found["step"], found["exact"]) == (steps, seconds, True)
        filled = [step for step in found["steps"] if step["duration"]]
        if name != "hour":  # the current minute is not over
            assert [(step["succeeded"], step["failed"], step["retried"]) for step in filled] == [(1, 1, 0)]
            assert filled[0]["lag"]["p50"] <= filled[0]["lag"]["p95"] < 60
    refused = await api.get("/v1/trends?range=month")
    assert (refused.status, refused.json["field"]) == (422, "range")
    tenant = await api.tenant("acme")
    theirs = (await api.get("/v1/trends?range=day", key=await api.key(Role.VIEWER, tenant.id))).json
    assert not any(step["succeeded"] or step["duration"] for step in theirs["steps"])


async def test_the_pace_of_a_queue_and_workers_that_left(api: Served) -> None:
    await ended(api)
    await api.post("/v1/jobs", {"task": "nobody_has_this"})
    (queue,) = (await api.get("/v1/queues")).json["items"]
    assert queue["arrival_rate"] > queue["completion_rate"] > 0 and queue["running"] == 0
    assert datetime.fromisoformat(queue["oldest_at"]) <= await api.store.now()
    (worker,) = (await api.get("/v1/workers")).json["items"]
    assert worker["running"] == 0
    (seen,) = (await api.get("/v1/workers", key=await api.key(Role.ADMIN))).json["items"]
    assert seen.get("running") is None, "runs of other tenants would count too"
    await api.store.leases.leave(parse("wrk", worker["worker_id"]))
    found = (await api.get("/v1/workers")).json
    assert found["items"] == []
    (past,) = found["past"]
    assert (past["worker_id"], past["state"], past["task_count"]) == (worker["worker_id"], "ENDED", 2)
    assert (past["held"], past["runs"]) == (0, [])
