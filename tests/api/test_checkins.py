"""Check-ins over HTTP: the address is shown once, and is all that a ping needs."""

from urllib.parse import urlsplit

from tests.support.served import Served, served


async def address(api: Served, **given: object) -> str:
    answer = await api.ask("PUT", "/v1/checkins/backup", {"every": 60, **given})
    assert answer.status == 200
    path: str = urlsplit(answer.json["ping_url"]).path
    return path


async def test_pings_need_no_key_and_are_recorded(api: Served) -> None:
    ping = await address(api)
    assert (await api.get("/v1/checkins/backup")).json["status"] == "new"
    assert (await api.ask("GET", f"{ping}/start", key=None)).status == 200
    assert (await api.get("/v1/checkins/backup")).json["status"] == "running"
    assert (await api.ask("POST", f"{ping}/3", raw=b"\x00\xffdisk full\n", key=None)).status == 200
    (shown,) = (await api.get("/v1/checkins")).json["items"]
    assert (shown["last_ping"], shown["exit_code"], shown["note"][-9:], shown["pings"]) == ("fail", 3, "disk full", 2)
    assert (await api.ask("HEAD", ping, key=None)).status == 200
    assert (await api.ask("POST", ping, key=None)).status == 200
    assert (await api.get("/v1/checkins/backup")).json["status"] == "up"
    answer = await api.ask("GET", f"{ping}/finished", key=None)
    assert (answer.status, answer.json["field"]) == (422, "event")
    assert (await api.ask("POST", ping, raw=b"x" * 5000, key=None)).status == 413


async def test_the_address_is_shown_once_and_rotates(api: Served) -> None:
    ping = await address(api)
    token = ping.rpartition("/")[2]
    assert len(token) >= 32
    again = await api.ask("PUT", "/v1/checkins/backup", {"every": 90})
    assert again.json["ping_url"] is None and again.json["every"] == 90
    assert token not in (await api.get("/v1/checkins")).body.decode()
    fresh = urlsplit((await api.post("/v1/checkins/backup/rotate")).json["ping_url"]).path
    assert fresh != ping
    assert (await api.ask("GET", ping, key=None)).status == 404
    assert (await api.ask("GET", fresh, key=None)).status == 200
    assert (await api.ask("DELETE", "/v1/checkins/backup")).status == 200
    assert (await api.ask("GET", fresh, key=None)).status == 404


async def test_pings_are_limited(api: Served) -> None:
    ping = await address(api)
    found = [(await api.ask("GET", ping, key=None)).status for _ in range(30)]
    assert found[:20] == [200] * 20 and 429 in found


async def test_guesses_are_limited_and_known_addresses_are_not(database_url: str) -> None:
    async with served(database_url, failed_logins=3) as api:
        ping = await address(api)
        assert (await api.ask("GET", ping, key=None)).status == 200
        found = [(await api.ask("GET", f"/v1/ping/guess{index}", key=None)).status for index in range(5)]
        assert found == [404, 404, 404, 429, 429]
        assert (await api.ask("GET", ping, key=None)).status == 200


async def test_what_makes_no_sense_is_refused(api: Served) -> None:
    for body, field in (
        ({}, "every"),
        ({"every": 1}, "every"),
        ({"every": 60, "cron": "* * * * *"}, "every"),
        ({"cron": "every day"}, "cron"),
        ({"cron": "* * * * *", "tz": "Moon/Base"}, "tz"),
        ({"every": 60, "grace": -1}, "grace"),
    ):
        answer = await api.ask("PUT", "/v1/checkins/backup", body)
        assert (answer.status, answer.json["field"]) == (422, field), body
    assert (await api.get("/v1/checkins")).json["items"] == []


async def test_rules_about_jobs(api: Served) -> None:
    job_id = (await api.post("/v1/jobs", {"task": "t", "every": "1h"})).json["job_id"]
    rule = {"figure": "no_success", "threshold": 90_000, "job_id": job_id}
    answer = await api.ask("PUT", "/v1/alerts/silent", rule)
    assert (answer.status, answer.json["job_id"], answer.json["topic"]) == (200, job_id, "job.silent")
    for wrong, status in (({"job_id": "job_x"}, 422), ({"task": "t"}, 422), ({"figure": "backlog"}, 422)):
        assert (await api.ask("PUT", "/v1/alerts/other", rule | wrong)).status == status, wrong
    assert len((await api.get("/v1/alerts")).json["items"]) == 1
