"""Sessions of browsers: they live on the server, end there, and cannot be made from what the database holds."""

import asyncio
import base64
import os
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from duetime.ids import parse
from duetime.model.access import Role
from duetime.model.job import DEFAULT_TENANT
from duetime.model.key_text import hash_of
from duetime.model.session import EVERYWHERE, MOST_AGENT
from tests.support.served import Answer, Served, served

SESSION = "duetime_session"
SECURE = f"__Host-{SESSION}"
OWN = {"Sec-Fetch-Site": "same-origin"}


def cookie_of(answer: Answer) -> dict[str, str]:
    assert answer.status in (200, 303), answer.body
    return {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}


async def log_in(api: Served, key: str = "", **headers: str) -> dict[str, str]:
    return cookie_of(await api.post("/login", {"key": key or api.root}, key=None, headers=headers))


async def is_in(api: Served, cookie: dict[str, str]) -> bool:
    answer = await api.get("/v1/me", key=None, headers=cookie)
    assert answer.status in (200, 401), answer.body
    return answer.status == 200


async def own_id(api: Served, cookie: dict[str, str]) -> str:
    items = (await api.get("/v1/sessions", key=None, headers=cookie)).json["items"]
    (session_id,) = [each["session_id"] for each in items if each["current"]]
    return str(session_id)


async def test_a_login_link_works_once(api: Served) -> None:
    made = await api.post("/v1/login-links")
    assert made.status == 201
    answer = await api.get(made.json["path"], key=None)
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    cookie = cookie_of(answer)
    assert "HttpOnly" in answer.headers["Set-Cookie"] and "SameSite=Strict" in answer.headers["Set-Cookie"]
    assert await is_in(api, cookie)
    assert (await api.get(made.json["path"], key=None)).status == 401

    foreign = cookie | {"Sec-Fetch-Site": "cross-site"}
    assert (await api.post("/v1/jobs", {"task": "t"}, key=None, headers=foreign)).status == 403
    assert (await api.post("/v1/jobs", {"task": "t"}, key=None, headers=cookie | OWN)).status == 201


async def test_a_session_cannot_prolong_itself_by_a_link(api: Served) -> None:
    answer = await api.post("/v1/login-links", key=None, headers=await log_in(api) | OWN)
    assert (answer.status, answer.code) == (403, "forbidden")


async def test_cookies_of_other_applications_on_the_host_are_passed_over(api: Served) -> None:
    cookie = (await log_in(api))["Cookie"]
    more = ('prefs={"a":1}; {}', "version=1; {}", "path; {}", "{}; domain=x", "{};a=b=c", "not_duetime_session=x; {}")
    for others in ("{}", *more):
        assert await is_in(api, {"Cookie": others.replace("{}", cookie)})
        assert not await is_in(api, {"Cookie": others.replace("{}", SESSION)})


async def test_logging_out_ends_the_session_on_the_server(api: Served) -> None:
    cookie, other = await log_in(api), await log_in(api)
    assert await is_in(api, cookie) and await is_in(api, other)
    answer = await api.post("/logout", key=None, headers=cookie)
    assert "Max-Age=0" in answer.headers["Set-Cookie"]
    assert not await is_in(api, cookie), "a copy of the cookie is of no use"
    assert await is_in(api, other)
    assert (await api.post("/logout", key=None, headers=cookie)).status == 200


async def test_logging_out_without_a_session_makes_the_server_forget_nothing(api: Served) -> None:
    changes = api.service.gate.changes
    for cookie in ("", f"{SESSION}={'x' * 43}", f"{SESSION}=short"):
        assert (await api.post("/logout", key=None, headers={"Cookie": cookie})).status == 200
    assert api.service.gate.changes == changes


async def test_a_session_is_read_once_for_many_requests(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    cookie, asked = await log_in(api), []
    look = api.store.sessions.session_of

    async def counted(hash: bytes) -> object:
        asked.append(hash)
        return await look(hash)

    monkeypatch.setattr(api.store.sessions, "session_of", counted)
    for _ in range(20):
        assert await is_in(api, cookie)
    assert len(asked) == 1
    await api.post(f"/v1/sessions/{await own_id(api, cookie)}/revoke")
    assert not await is_in(api, cookie), "at once where it was revoked"


async def test_sessions_end_with_their_key(api: Served) -> None:
    made = (await api.post("/v1/admin/keys", {"role": "viewer", "name": "one"})).json
    cookie = await log_in(api, made["key"])
    assert await is_in(api, cookie)
    await api.post(f"/v1/admin/keys/{made['key_id']}/revoke")
    assert not await is_in(api, cookie)


async def test_a_stream_ends_with_its_session(api: Served) -> None:
    cookie = await log_in(api, await api.key(Role.VIEWER))
    session_id = await own_id(api, cookie)
    async with api.http.get(f"{api.url}/v1/events", headers=cookie) as stream:
        await stream.content.readuntil(b"\n\n")
        await api.post(f"/v1/sessions/{session_id}/revoke")
        await api.post("/v1/jobs", {"task": "t"})
        assert b"event:" not in await asyncio.wait_for(stream.read(), 12)


async def test_who_sees_and_ends_which_sessions(api: Served) -> None:
    acme = await api.tenant("acme")
    keys = {
        "viewer": await api.key(Role.VIEWER, acme.id),
        "admin": await api.key(Role.ADMIN, acme.id),
        "stranger": await api.key(Role.ADMIN, DEFAULT_TENANT),
        "root": api.root,
    }
    cookies = {name: await log_in(api, key) for name, key in keys.items()}
    ids = {name: await own_id(api, cookie) for name, cookie in cookies.items()}

    async def seen(name: str, of: str) -> set[str] | int:
        headers = {"Duetime-Tenant": "acme"} if name == "root" else None
        answer = await api.get(f"/v1/sessions?of={of}", key=keys[name], headers=headers)
        if answer.status != 200:
            return answer.status
        return {other for other in ids if ids[other] in answer.body.decode()}

    for name in keys:
        assert await seen(name, "key") == {name}
    assert [await seen(name, "tenant") for name in keys] == [
        403,
        {"viewer", "admin"},
        {"stranger"},
        {"viewer", "admin"},
    ]
    assert [await seen(name, "all") for name in keys] == [403, 403, 403, set(keys)]

    async def end(name: str, other: str) -> int:
        return (await api.post(f"/v1/sessions/{ids[other]}/revoke", key=keys[name])).status

    assert [await end("viewer", other) for other in ("admin", "stranger", "root")] == [404, 404, 404]
    assert [await end("admin", other) for other in ("stranger", "root")] == [404, 404]
    assert [await end("admin", other) for other in ("viewer", "admin")] == [200, 200]
    assert [await end("root", other) for other in ("stranger", "root")] == [200, 200]
    assert [await is_in(api, cookie) for cookie in cookies.values()] == [False] * 4


async def test_what_a_session_says_of_its_browser_is_text(api: Served) -> None:
    agent = "Mozilla \x9b31m\t" + "x" * 5000
    await log_in(api, **{"User-Agent": agent})
    (found,) = (await api.get("/v1/sessions")).json["items"]
    assert found["user_agent"] == ("Mozilla Â?31m?" + "x" * 5000)[:MOST_AGENT]
    assert found["address"] == "127.0.0.1"


async def test_use_is_noted(api: Served) -> None:
    cookie = await log_in(api)
    assert await is_in(api, cookie)
    session_id = parse("ses", await own_id(api, cookie))
    touched = []

    async def touch(ids: list[object], idle: timedelta) -> None:
        touched.extend(ids)

    api.store.sessions.touch_sessions = touch  # type: ignore[method-assign,assignment]
    assert await is_in(api, cookie)
    await api.service.tick()
    assert session_id in touched


async def test_the_server_caps_the_life_of_a_session(database_url: str) -> None:
    limits = {"session_lifetime": timedelta(hours=1), "session_idle": timedelta(minutes=10)}
    async with served(database_url, **limits) as api:
        answer = await api.post("/login", {"key": api.root}, key=None)
        assert "Max-Age=3600" in answer.headers["Set-Cookie"]
        (found,) = await api.store.sessions.sessions(EVERYWHERE)
        assert found.ends_at - found.created_at == timedelta(hours=1)
        assert found.expires_at - found.created_at == timedelta(minutes=10)


async def test_a_shorter_lifetime_ends_sessions_that_run(database_url: str) -> None:
    """An operator that lowers the setting wants it for the sessions of today."""
    async with served(database_url, session_lifetime=timedelta(days=30)) as api:
        cookie = await log_in(api)
        assert await is_in(api, cookie)
    async with served(database_url, session_lifetime=timedelta(hours=1)) as api:
        assert await is_in(api, cookie)
        (shown,) = (await api.get("/v1/sessions?of=all")).json["items"]
        began, ends = (datetime.fromisoformat(shown[name]) for name in ("created_at", "ends_at"))
        assert ends - began == timedelta(hours=1)
    async with served(database_url, session_lifetime=timedelta(microseconds=1)) as api:
        assert not await is_in(api, cookie)
        assert (await api.get("/v1/sessions?of=all")).json["items"] == []


async def test_nothing_in_the_database_makes_a_session(api: Served, database_url: str) -> None:
    """A copy of the database is not enough to log in: no value in it, in any spelling, is a cookie, a link or a key."""
    await log_in(api)
    await api.post("/v1/login-links")
    await api.get("/v1/jobs?page_size=1")
    stored = set(values_in(database_url))
    assert sum(isinstance(value, bytes) and len(value) == 32 for value in stored) >= 3, "of a key, a session and a link"
    asked = 0
    for text in {spelling for value in stored for spelling in spellings(value)}:
        if not text.isascii() or len(text) != 43:
            continue  # not what the server takes for a token
        asked += 1
        for name in (SESSION, SECURE):
            assert not await is_in(api, {"Cookie": f"{name}={text}"}), text
        assert (await api.get(f"/login?token={quote(text, safe='')}", key=None)).status == 401
        assert (await api.get("/v1/me", key=text)).status == 401
    assert asked >= 3


def spellings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    if isinstance(value, bytes):
        yield value.hex()
        yield value.decode("latin-1")
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(value).decode()
            yield encode(value).decode().rstrip("=")


def values_in(database_url: str) -> Iterator[object]:
    """Every value of every table."""
    if database_url.startswith("sqlite"):
        # A copy, as it would be stolen: with what is still in the log beside it.
        with sqlite3.connect(Path(database_url.removeprefix("sqlite:///"))) as file:
            for (table,) in file.execute("select name from sqlite_master where type = 'table'").fetchall():
                for row in file.execute(f'select * from "{table}"'):
                    yield from row
        file.close()
        return
    with psycopg.connect(database_url) as connection:
        columns = (
            "select table_name, column_name, data_type from information_schema.columns where table_schema = 'duetime'"
        )
        for table, column, kind in connection.execute(columns).fetchall():
            shown = f'"{column}"' if kind == "bytea" else f'"{column}"::text'
            for (value,) in connection.execute(f'select {shown} from duetime."{table}"'):
                yield value


# Behind TLS.

PROXY: dict[str, object] = {"trusted_proxies": ("127.0.0.1/32",)}


CASES: list[tuple[dict[str, object], list[tuple[dict[str, str], bool]]]] = [
    (
        {},
        [
            ({}, False),
            ({"X-Forwarded-Proto": "https"}, False),  # from a stranger
            ({"Host": "jobs.example.com", "Origin": "https://jobs.example.com"}, True),
        ],
    ),
    (PROXY, [({}, False), ({"X-Forwarded-Proto": "http"}, False), ({"X-Forwarded-Proto": "https"}, True)]),
    ({"trusted_proxies": ("192.0.2.0/24",)}, [({"X-Forwarded-Proto": "https"}, False)]),
    (
        {"public_url": "https://jobs.example.com"},
        [
            ({"Host": "jobs.example.com"}, True),
            ({"Host": "JOBS.example.com:443"}, True),
            ({}, False),  # on the machine itself
        ],
    ),
    ({"public_url": "http://jobs.example.com"}, [({"Host": "jobs.example.com"}, False)]),
]


@pytest.mark.parametrize(("settings", "cases"), CASES, ids=["alone", "proxy", "other proxy", "https", "http"])
async def test_behind_tls_the_cookie_is_bound_to_the_host(
    database_url: str, settings: dict[str, object], cases: list[tuple[dict[str, str], bool]]
) -> None:
    async with served(database_url, **settings) as api:
        for headers, secure in cases:
            answer = await api.post("/login", {"key": api.root}, key=None, headers=headers)
            set_cookie = answer.headers["Set-Cookie"]
            assert set_cookie.startswith(f"{SECURE}=" if secure else f"{SESSION}="), headers
            assert set_cookie.endswith("; Secure") == secure
            assert "Path=/;" in set_cookie and "Domain" not in set_cookie
            cookie = cookie_of(answer)
            assert await is_in(api, headers | cookie)
            if secure and "Origin" not in headers:
                plain = {"Cookie": cookie["Cookie"].replace(SECURE, SESSION)}
                assert not await is_in(api, headers | plain), "another host of the domain can set that one"
            gone = await api.post("/logout", key=None, headers=headers | cookie)
            assert gone.headers["Set-Cookie"].startswith(set_cookie.partition("=")[0] + "=;")
            assert not await is_in(api, headers | cookie)


async def test_a_cookie_cannot_be_signed(api: Served) -> None:
    """With the secrets and the hashes of keys, which lie in the database, a cookie for ten years could be made once."""
    secret = await api.store.tenants.secret("sessions", os.urandom(32))
    ends = int((await api.store.now()).timestamp()) + 10 * 365 * 86_400
    content = ends.to_bytes(8, "big") + hash_of(api.root)
    tag = blake2b(content, digest_size=16, key=secret, person=b"duetime session").digest()
    forged = base64.urlsafe_b64encode(content + tag).decode().rstrip("=")
    for name in (SESSION, SECURE):
        assert not await is_in(api, {"Cookie": f"{name}={forged}"})
