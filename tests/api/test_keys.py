"""Keys: when they expire, where they work, and what they may pass on."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from duetime.api import authentication
from duetime.clock import ManualClock
from duetime.ids import parse
from duetime.model.access import Role
from duetime.model.job import DEFAULT_TENANT
from tests.support.served import Served, served

HERE, ELSEWHERE = "127.0.0.0/8", "192.0.2.0/24"


async def make(api: Served, key: str = "", **fields: Any) -> Any:
    body = {"role": "admin", "name": "one"} | fields
    answer = await api.post("/v1/admin/keys", body, key=key or api.root)
    assert answer.status == 201, answer.body
    return answer.json


def lasts(made: Any) -> timedelta | None:
    if made["expires_at"] is None:
        return None
    return datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])


def near(found: timedelta | None, wanted: timedelta) -> bool:
    return found is not None and abs(found - wanted) < timedelta(minutes=1)


async def at(api: Served, **ahead: float) -> str:
    return (await api.store.now() + timedelta(**ahead)).isoformat()


async def test_a_new_key_expires_unless_it_is_told_not_to(api: Served) -> None:
    assert near(lasts(await make(api)), timedelta(days=90))
    assert near(lasts(await make(api, role="root")), timedelta(days=90))
    assert near(lasts(await make(api, expires_at=await at(api, days=400))), timedelta(days=400))
    endless = await make(api, expires_at="never")
    assert lasts(endless) is None
    answer = await api.post("/v1/admin/keys", {"role": "viewer", "name": "v", "expires_at": "2020-01-01T00:00:00Z"})
    assert (answer.status, answer.json["field"]) == (422, "expires_at")


async def test_a_key_that_is_used_shortly_before_it_expires_is_told_once(
    api: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await make(api, expires_at=await at(api, minutes=10))
    far = await make(api)

    async def told() -> list[str]:
        for _ in range(2):
            api.service.gate.forget()
            for each in (made, far):
                assert (await api.get("/v1/jobs", key=each["key"])).status == 200
        return [record.getMessage() for record in caplog.records if "expires at" in record.getMessage()]

    assert await told() == [], "they have most of their lives before them"
    monkeypatch.setattr(
        authentication, "_clock", ManualClock(datetime.fromisoformat(made["expires_at"]) - timedelta(seconds=50))
    )
    (line,) = await told()
    assert made["key_id"] in line


async def test_how_long_keys_live_is_a_setting(database_url: str) -> None:
    for lifetime, wanted in ((timedelta(days=7), timedelta(days=7)), (timedelta(0), None)):
        async with served(database_url, key_lifetime=lifetime) as api:
            found = lasts(await make(api))
            assert found is None if wanted is None else near(found, wanted)


async def test_rotation_keeps_never_and_renews_what_expires(api: Served) -> None:
    for expiry, wanted in (("never", None), (await at(api, days=3), timedelta(days=90))):
        made = await make(api, expires_at=expiry)
        rotated = (await api.post(f"/v1/admin/keys/{made['key_id']}/rotate")).json
        assert lasts(rotated) is None if wanted is None else near(lasts(rotated), wanted)


@pytest.mark.parametrize("role", ["admin", "root"])
async def test_no_key_outlives_the_key_that_makes_it(api: Served, role: str) -> None:
    mine = await make(api, role=role, expires_at=await at(api, days=2))
    root = "?root=true" if role == "root" else ""
    other = await make(api, expires_at="never")
    ways: list[tuple[str, dict[str, Any]]] = [
        ("/v1/admin/keys", {"role": "viewer", "name": "v"}),
        ("/v1/admin/keys", {"role": role, "name": "v"}),
        (f"/v1/admin/keys/{other['key_id']}/rotate", {}),
        (f"/v1/admin/keys/{mine['key_id']}/rotate{root}", {"overlap": "7d"}),
    ]
    for path, body in ways:
        for longer in ("never", await at(api, days=3)):
            answer = await api.post(path, body | {"expires_at": longer}, key=mine["key"])
            assert (answer.status, answer.code, answer.json["field"]) == (403, "forbidden", "expires_at"), path
            assert "outlive" in answer.json["detail"]
        shorter = await api.post(path, body | {"expires_at": await at(api, days=1)}, key=mine["key"])
        assert near(lasts(shorter.json), timedelta(days=1))
        if "rotate" in path:
            path = path.replace(other["key_id"], shorter.json["key_id"])
        usual = await api.post(path, body, key=mine["key"])
        assert usual.json["expires_at"] == mine["expires_at"], "as long as it may be"


async def test_a_session_passes_on_no_more_than_its_key(api: Served) -> None:
    mine = await make(api, expires_at=await at(api, days=2))
    answer = await api.post("/login", {"key": mine["key"]}, key=None)
    own = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0], "Sec-Fetch-Site": "same-origin"}
    wish = {"role": "admin", "name": "more", "expires_at": "never"}
    assert (await api.post("/v1/admin/keys", wish, key=None, headers=own)).status == 403
    made = await api.post("/v1/admin/keys", {"role": "admin", "name": "less"}, key=None, headers=own)
    assert made.json["expires_at"] <= mine["expires_at"]


async def test_a_key_that_was_revoked_elsewhere_makes_no_other(api: Served) -> None:
    """Others remember a key for some seconds; that is not enough to make one that stays."""
    mine = await make(api)
    assert (await api.get("/v1/jobs", key=mine["key"])).status == 200
    await api.store.access.revoke_key(DEFAULT_TENANT, parse("key", mine["key_id"]))
    assert (await api.get("/v1/jobs", key=mine["key"])).status == 200, "it is remembered"
    assert (await api.post("/v1/admin/keys", {"role": "admin", "name": "more"}, key=mine["key"])).status == 401


async def test_the_last_root_key_stays(api: Served) -> None:
    (mine,) = (await api.get("/v1/admin/keys?root=true")).json["items"]
    answer = await api.post(f"/v1/admin/keys/{mine['key_id']}/revoke?root=true")
    assert (answer.status, answer.code, answer.json["field"]) == (409, "conflict", "key_id")
    other = await make(api, role="root")
    path = f"/v1/admin/keys/{mine['key_id']}/revoke?root=true"
    assert (await api.post(path, key=other["key"])).status == 200
    assert (await api.get("/v1/jobs")).status == 401


async def test_a_key_works_from_its_networks_only(api: Served) -> None:
    here = await make(api, networks=[HERE, "::1"])
    assert here["networks"] == [HERE, "::1/128"]
    assert (await api.get("/v1/jobs", key=here["key"])).status == 200
    there = await make(api, networks=[ELSEWHERE])
    for method, path in (("GET", "/v1/jobs"), ("POST", "/v1/jobs"), ("GET", "/v1/events"), ("GET", "/v1/me")):
        answer = await api.ask(method, path, key=there["key"])
        assert (answer.status, answer.code) == (403, "address_not_allowed")
        assert "127.0.0.1" in answer.json["detail"]
    assert (await api.get("/v1/jobs", key=there["key"], headers={"X-Forwarded-For": "192.0.2.1"})).status == 403
    answer = await api.post("/login", {"key": there["key"]}, key=None)
    assert (answer.status, answer.code, "Set-Cookie" in answer.headers) == (403, "address_not_allowed", False)
    (listed, *_) = [key for key in (await api.get("/v1/admin/keys")).json["items"] if key["key_id"] == there["key_id"]]
    assert listed["networks"] == [ELSEWHERE]
    assert listed["last_used_at"] is None, "it was refused"


async def test_networks_are_checked(api: Served) -> None:
    for wrong in (
        "",
        "localhost",
        "192.0.2.1/24",
        "192.0.2.0/33",
        "::/129",
        "fe80::1%eth0",
        "::ffff:192.0.2.0/120",
        "1",
    ):
        answer = await api.post("/v1/admin/keys", {"role": "viewer", "name": "v", "networks": ["::1", wrong]})
        assert answer.status == 422, wrong
        assert answer.json["field"].startswith("networks")
    many = [f"10.0.{number}.0/24" for number in range(101)]
    assert (await api.post("/v1/admin/keys", {"role": "viewer", "name": "v", "networks": many})).status == 422
    made = await make(api, networks=["10.0.0.0/8", "10.0.0.0/255.0.0.0", "2001:DB8::/32"])
    assert made["networks"] == ["10.0.0.0/8", "2001:db8::/32"]


async def test_behind_a_trusted_proxy_the_client_counts(database_url: str) -> None:
    async with served(database_url, trusted_proxies=("127.0.0.1/32", "10.0.0.0/8")) as api:
        key = await api.key(Role.VIEWER, networks=(ELSEWHERE, "2001:db8::/32"))
        cases = {
            "192.0.2.7": 200,
            "2001:db8::7": 200,
            "::ffff:192.0.2.7": 200,
            "192.0.2.7, 10.1.2.3": 200,  # two proxies of ours
            "203.0.113.1, 192.0.2.7": 200,
            "192.0.2.7, 203.0.113.1": 403,  # the client wrote the first one
            "192.0.2.7, nonsense": 403,
            "192.0.2.7:443": 403,
            "10.1.2.3": 403,
            "": 403,
        }
        for forwarded, status in cases.items():
            answer = await api.get("/v1/jobs", key=key, headers={"X-Forwarded-For": forwarded})
            assert answer.status == status, forwarded
        headers = {"X-Forwarded-For": "192.0.2.7"}
        answer = await api.post("/login", {"key": key}, key=None, headers=headers)
        cookie = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
        assert (await api.get("/v1/me", key=None, headers=headers | cookie)).status == 200
        taken = await api.get("/v1/me", key=None, headers={"X-Forwarded-For": "203.0.113.1"} | cookie)
        assert (taken.status, taken.code) == (403, "address_not_allowed"), "a session works where its key does"
        (session,) = (await api.get("/v1/sessions", key=key, headers=headers)).json["items"]
        assert session["address"] == "192.0.2.7"


async def test_a_key_bound_to_networks_passes_on_no_others(api: Served) -> None:
    mine = await make(api, networks=[HERE])
    assert (await make(api, mine["key"], role="viewer"))["networks"] == [HERE]
    assert (await make(api, mine["key"], role="viewer", networks=["127.0.0.1"]))["networks"] == ["127.0.0.1/32"]
    free = await make(api)
    for path, body in (
        ("/v1/admin/keys", {"role": "admin", "name": "n", "networks": []}),
        ("/v1/admin/keys", {"role": "admin", "name": "n", "networks": [HERE, ELSEWHERE]}),
        (f"/v1/admin/keys/{mine['key_id']}/rotate", {"networks": []}),
        (f"/v1/admin/keys/{free['key_id']}/rotate", {}),
    ):
        answer = await api.post(path, body, key=mine["key"])
        assert (answer.status, answer.code, answer.json["field"]) == (403, "forbidden", "networks"), path
    rotated = (await api.post(f"/v1/admin/keys/{mine['key_id']}/rotate", key=mine["key"])).json
    assert rotated["networks"] == [HERE]
    assert (await api.post(f"/v1/admin/keys/{rotated['key_id']}/rotate", {"networks": []})).json["networks"] == []
