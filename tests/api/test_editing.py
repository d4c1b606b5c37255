"""Editing jobs over HTTP, and calendars."""

from typing import Any

from tests.support.served import Answer, Served


async def change(api: Served, job_id: str, version: str | None = None, **what: Any) -> Answer:
    headers = {} if version is None else {"If-Match": version}
    return await api.ask("PATCH", f"/v1/jobs/{job_id}", what, headers=headers)


async def test_what_is_given_becomes_different(api: Served) -> None:
    made = (await api.post("/v1/jobs", {"task": "t", "every": "1h", "args": {"n": 1}, "tags": ["a"]})).json
    before = await api.get(f"/v1/jobs/{made['job_id']}")
    after = await change(api, made["job_id"], before.headers["ETag"], args={"n": 2}, priority="HIGH", timeout="5s")
    assert (after.status, after.headers["ETag"]) == (200, '"2"')
    different = {name for name, value in after.json.items() if value != before.json[name]}
    assert different == {"args", "priority", "timeout", "version"}
    assert (await change(api, made["job_id"], cron="0 9 * * *", tz="Asia/Tokyo")).json["schedule"]["tz"] == "Asia/Tokyo"
    assert (await change(api, made["job_id"], timeout=None)).json["timeout"] is None


async def test_owner_payload_and_tags(api: Served) -> None:
    stored = (
        await api.ask("POST", "/v1/payloads", raw=b"bytes", headers={"Content-Type": "application/octet-stream"})
    ).json
    wish = {"task": "t", "every": "1h", "owner": "u1", "tags": ["a"], "payload_ref": "s3://bucket/one"}
    job_id = (await api.post("/v1/jobs", wish)).json["job_id"]
    changed = (await change(api, job_id, owner="u2", payload_ref=stored["payload_ref"], tags=["b"])).json
    assert (changed["owner"], changed["payload_ref"], changed["tags"]) == ("u2", stored["payload_ref"], ["b"])
    for query, found in (("owner=u1", 0), ("owner=u2", 1), ("tag=a", 0), ("tag=b", 1)):
        assert len((await api.get(f"/v1/jobs?{query}")).json["items"]) == found, query
    changed = (await change(api, job_id, owner=None, payload_ref=None, tags=[])).json
    assert (changed["owner"], changed["payload_ref"], changed["tags"]) == (None, None, [])
    assert (await api.get("/v1/jobs?owner=u2")).json["items"] == []
    refused = await change(api, job_id, owner="\n")
    assert (refused.status, refused.json["field"]) == (422, "owner")
    assert (await change(api, job_id, owner="")).status == 422


async def test_null_takes_away_a_name_and_stands_for_no_bound(api: Served) -> None:
    wish = {"task": "t", "name": "n", "every": "1h", "end_at": "2040-01-01T00:00:00Z", "exclude": {"weekdays": ["SUN"]}}
    job_id = (await api.post("/v1/jobs", wish)).json["job_id"]
    changed = (await change(api, job_id, name=None)).json
    assert (changed["name"], changed["schedule"]["end_at"]) == (None, "2040-01-01T00:00:00Z")
    assert (await api.get("/v1/jobs?name=n")).json["items"] == []
    schedule = (await change(api, job_id, when="2h", start_at=None, end_at=None, exclude=None)).json["schedule"]
    assert (schedule["start_at"], schedule["end_at"], schedule["exclude"]) == (None, None, None)
    assert (await change(api, job_id, name="")).status == 422
    assert (await change(api, job_id, end_at=None)).json["schedule"]["end_at"] is None


async def test_a_stale_version(api: Served) -> None:
    job_id = (await api.post("/v1/jobs", {"task": "t", "every": "1h"})).json["job_id"]
    assert (await change(api, job_id, '"1"', priority="HIGH")).status == 200
    answer = await change(api, job_id, '"1"', priority="LOW")
    assert (answer.status, answer.code) == (412, "stale_version")
    assert (await change(api, job_id, "*", priority="LOW")).status == 200
    assert (await change(api, job_id, "new", priority="LOW")).status == 422
    assert (await change(api, job_id, tz="Asia/Tokyo")).status == 200
    assert (await change(api, job_id, task="other")).json["field"] == "task"


async def test_calendars(api: Served) -> None:
    dates = ["2026-12-25", "2026-12-26"]
    assert (await api.ask("PUT", "/v1/calendars/holidays", {"dates": dates})).json["dates"] == dates
    assert (await api.get("/v1/calendars")).json["items"] == [
        {"name": "holidays", "dates": dates, "version": 1, "jobs": 0}
    ]
    assert (await api.get("/v1/calendars/nothing")).status == 404
    wish = {"task": "t", "when": "every day at 9:00", "exclude": {"weekdays": ["SUN"], "calendars": ["holidays"]}}
    made = (await api.post("/v1/jobs", wish)).json
    assert "holidays" in (await api.get(f"/v1/jobs/{made['job_id']}")).json["schedule"]["sentence"]
    answer = await api.ask("DELETE", "/v1/calendars/holidays")
    assert (answer.status, answer.code) == (409, "calendar_in_use")
    assert (await change(api, made["job_id"], cron="0 9 * * *", exclude=None)).status == 200
    assert (await api.ask("DELETE", "/v1/calendars/holidays")).json == {"deleted": True}
