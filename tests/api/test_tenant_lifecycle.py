"""Deletion, usage and export of tenants, as operators and admins ask for them."""

import asyncio
import json
from datetime import timedelta
from typing import Any

from duetime.engine.eraser import Eraser
from duetime.engine.exporter import SECTIONS
from duetime.ids import new_id
from duetime.model.access import Role
from tests.support.served import Served

ACME = {"Duetime-Tenant": "acme"}


async def erased(api: Served, number: int) -> dict[str, Any]:
    """Let the eraser work to the end."""
    eraser = Eraser(api.store, quiet=timedelta(0), cancel_timeout=timedelta(0), interval=timedelta(milliseconds=1))
    async with asyncio.timeout(100):
        while (found := (await api.get(f"/v1/admin/erasures/{number}")).json)["status"] != "DONE":
            await eraser.tick()
            await api.store.claims.tidy_lanes()
    return dict(found)


async def test_a_tenant_is_deleted_by_its_name(api: Served) -> None:
    acme = await api.tenant("acme")
    key = await api.key(Role.ADMIN, acme.id)
    await api.ask("PATCH", "/v1/admin/tenants/acme", {"tier": "gold"})
    wrong = await api.post("/v1/admin/tenants/acme/delete", {"confirm": "amce"})
    assert (wrong.status, wrong.json["field"]) == (422, "confirm")
    for grace in ("400d", "-1s", "soon"):
        wrong = await api.post("/v1/admin/tenants/acme/delete", {"confirm": "acme", "grace": grace})
        assert (wrong.status, wrong.json["field"]) == (422, "grace"), grace
    assert (await api.post("/v1/admin/tenants/default/delete", {"confirm": "default"})).status == 409
    assert (await api.post("/v1/admin/tenants/nobody/delete", {"confirm": "nobody"})).status == 404
    assert (await api.get("/v1/admin/tenants/acme")).json["state"] == "ACTIVE", "nothing of this had an effect"

    planned = await api.post("/v1/admin/tenants/acme/delete", {"confirm": "acme", "grace": "7d"})
    assert (planned.status, planned.json["status"], planned.json["tenant"]) == (202, "WAITING", "acme")
    assert (await api.get("/v1/jobs", key=key)).status == 200, "it can be read and exported"
    refused = await api.post("/v1/jobs", {"task": "t"}, key=key)
    assert (refused.status, refused.code) == (403, "tenant_deleting")
    assert (await api.ask("PATCH", "/v1/admin/tenants/acme", {"state": "ACTIVE"})).status == 409
    assert (await api.post("/v1/admin/tenants/acme/undelete")).json["state"] == "ACTIVE"
    assert (await api.post("/v1/admin/tenants/acme/undelete")).status == 409
    assert (await api.get(f"/v1/admin/erasures/{acme.id}")).status == 404

    await api.post("/v1/admin/tenants/acme/delete", {"confirm": "acme"})
    report = await erased(api, acme.id)
    assert (report["number"], report["tenant"], report["problem"]) == (acme.id, None, None)
    assert report["removed"]["api_keys"] == 1
    assert report["removed"]["audit"] >= 1
    assert (await api.get("/v1/admin/tenants/acme")).status == 404
    assert b"acme" not in (await api.get("/v1/audit?all=true")).body
    entries = {each["action"]: each["object"] for each in (await api.get("/v1/audit?all=true")).json["items"]}
    assert entries["tenants.delete"] == entries["tenants.erased"] == f"tenant {acme.id}"
    assert [each["number"] for each in (await api.get("/v1/admin/erasures?name=acme")).json["items"]] == [acme.id]
    assert (await api.get("/v1/admin/erasures?name=emca")).json["items"] == []
    for number in ("0", "x", "99999999999999999999"):
        assert (await api.get(f"/v1/admin/erasures/{number}")).status == 404
    again = (await api.post("/v1/admin/tenants", {"name": "acme"})).json
    assert again["number"] > acme.id
    assert (await api.get("/v1/audit", headers=ACME)).json["items"][-1]["action"] == "tenants.create"


async def test_usage_is_a_list_or_a_file(api: Served) -> None:
    key = await api.key(Role.VIEWER)
    await api.post("/v1/jobs", {"task": "t", "queue": "mail"})
    jobs = (await api.get("/v1/jobs")).json["items"]
    await api.post(f"/v1/jobs/{jobs[0]['job_id']}/cancel")
    while await api.store.usage_counts.count_usage(await api.store.now()):
        pass
    answer = (await api.get("/v1/usage?by=queue", key=key)).json
    (row,) = answer["items"]
    assert (row["tenant"], row["queue"], row["runs"], row["attempts"], row["final"]) == (
        "default",
        "mail",
        1,
        0,
        False,
    )
    assert answer["counted_at"] is not None
    file = await api.get("/v1/usage?by=queue&format=csv", key=key)
    assert file.headers["Content-Type"].startswith("text/csv")
    head, line = file.body.decode().splitlines()
    assert head == "tenant,day,queue,runs,failed,attempts,seconds,bytes,final"
    assert line.startswith(f"default,{row['day']},mail,1,0,0,0.0,")
    everything = (await api.get("/v1/admin/usage?page_size=1")).json
    assert [(each["tenant"], each["queue"], each["runs"]) for each in everything["items"]] == [("default", None, 1)]
    assert (await api.get(f"/v1/admin/usage?page_size=1&cursor={everything['next_cursor']}")).json["items"] == []
    assert len((await api.get("/v1/admin/usage?format=csv")).body.splitlines()) == 2
    assert (await api.get("/v1/admin/usage", key=key)).status == 403
    for wrong in ("start_day=2026-13-01", "start_day=2027-01-02&end_day=2027-01-01", "start_day=2020-01-01&by=queue"):
        assert (await api.get(f"/v1/usage?{wrong}", key=key)).status == 422, wrong
    assert (await api.get("/v1/usage?start_day=2020-01-01&end_day=2020-01-31", key=key)).json["items"] == []


async def exported(api: Served, key: str) -> dict[str, list[dict[str, Any]]]:
    """All sections, page by page."""
    plan = (await api.post("/v1/export", key=key)).json
    assert tuple(plan["sections"]) == SECTIONS
    found: dict[str, list[dict[str, Any]]] = {}
    for section in plan["sections"]:
        cursor = ""
        found[section] = []
        while True:
            page = (await api.get(f"/v1/export/{section}{cursor}", key=key)).json
            found[section] += page["items"]
            if page["next_cursor"] is None:
                break
            cursor = f"?cursor={page['next_cursor']}"
    return found


async def test_an_export_holds_what_a_tenant_owns_and_nothing_of_others(api: Served) -> None:
    acme = await api.tenant("acme", encrypt_args=True)
    key = await api.key(Role.ADMIN, acme.id)
    await api.post("/v1/jobs", {"task": "theirs", "args": {"whose": "theirs"}})
    await api.post("/v1/jobs", {"task": "mine", "args": {"card": 42}, "every": "1h", "owner": "u1"}, key=key)
    waiting = [
        (await api.post("/v1/jobs", {"task": "mine", "args": {"number": number}}, key=key)).json["job_id"]
        for number in range(45)  # more than one part
    ]
    for job_id in waiting[:25]:
        await api.post(f"/v1/jobs/{job_id}/cancel", key=key)
    await api.ask("PUT", "/v1/secrets/token", {"value": "hush-hush", "hosts": ["example.com"]}, key=key)
    await api.ask("PUT", "/v1/calendars/rest", {"dates": ["2027-01-01"]}, key=key)
    await api.post("/v1/payloads", raw=b"large", key=key)
    await api.service.trail.flush()
    found = await exported(api, key)
    text = json.dumps(found)
    assert "theirs" not in text
    assert "hush" not in text
    assert key not in text
    (settings,) = found["settings"]
    assert (settings["name"], settings["state"], settings["encrypt_args"]) == ("acme", "ACTIVE", True)
    (recurring,) = [each for each in found["jobs"] if each["recurring"]]
    assert (recurring["args"], recurring["state"]) == ({"card": 42}, "ACTIVE"), "content is decrypted"
    ended = {each["job_id"]: each for each in found["history"]}
    assert set(ended) == set(waiting[:25])
    assert ended[waiting[0]]["args"] == {"number": 0}
    assert (ended[waiting[0]]["end_state"], ended[waiting[0]]["task"]) == ("CANCELLED", "mine")
    assert {each["job_id"] for each in found["runs"]} == set(waiting[25:])
    assert found["payloads"][0]["body"] == {"base64": "bGFyZ2U="}
    assert [each["name"] for each in found["tenant_secrets"]] == ["token"]
    assert found["calendars"][0]["dates"] == ["2027-01-01"]
    assert {"tenants.export", "jobs.create"} <= {each["action"] for each in found["audit"]}
    assert [each["name"] for each in found["api_keys"]] == ["admin"]
    assert found["archive"] == []


async def test_an_export_is_for_admins_and_refuses_what_is_no_position(api: Served) -> None:
    assert (await api.post("/v1/export", key=await api.key(Role.OPERATOR))).status == 403
    key = await api.key(Role.ADMIN)
    assert (await api.get("/v1/export/tenants", key=key)).status == 404
    wrong = ("x", "W10=", "WzEsMl0=", "WyJ4Il0=", "e30=", f"WyI{new_id().hex}")
    for cursor in wrong:
        answer = await api.get(f"/v1/export/jobs?cursor={cursor}", key=key)
        assert (answer.status, answer.json["field"]) == (422, "cursor"), cursor
    assert (await api.get("/v1/export/archive?cursor=W10=", key=key)).status == 422
