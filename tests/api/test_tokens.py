"""Tokens of users: which are accepted, and why the others are not."""

import hashlib
import hmac
import time
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import msgspec
import pytest
from aiohttp import web

from duetime.api import guarded_fetch, issuer_keys
from duetime.api.authentication import REMEMBERED
from duetime.model.access import Role
from duetime.model.job import DEFAULT_TENANT
from tests.support.served import Answer, Served, served
from tests.support.signing import ISSUER, claims, jwk, jwks, part, pem, private_key, token

HOUR = 3600


async def register(api: Served, name: str = "app", **more: Any) -> Answer:
    body = {"issuer": ISSUER, "role": "operator", "jwks": jwks(), **more}
    return await api.ask("PUT", f"/v1/issuers/{name}", {key: value for key, value in body.items() if value is not None})


async def status(api: Served, text: str, **headers: str) -> int:
    return (await api.get("/v1/me", key=text, headers=headers)).status


async def test_a_token_says_who_its_user_is(api: Served) -> None:
    assert (await register(api)).status == 200
    me = (await api.get("/v1/me", key=token("ann"))).json
    assert (me["key_name"], me["role"], me["tenant"]) == ("app: ann", "operator", "default")
    assert me["scope"] == {"owner": "ann", "tag": None, "queue": None}


async def test_every_kind_of_key(api: Served) -> None:
    for kind in ("RS256", "ES256", "ES384", "EdDSA"):
        await register(api, jwks=None, public_key=pem(kind), algorithms=[kind])
        assert await status(api, token("ann", kind, headers={})) == 200
        other = "ES256" if kind != "ES256" else "EdDSA"
        assert await status(api, token("ann", other, headers={})) == 401


def wrong_tokens() -> dict[str, str]:
    """Tokens that are not accepted, each with one thing wrong."""
    now = int(time.time())
    good = token("ann")
    head, body, signature = good.split(".")
    secret = pem().encode()
    forged = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': 'one'})}.{part(claims('ann'))}"
    mac = hmac.new(secret, forged.encode(), hashlib.sha256).digest()
    return {
        "another key": token("ann", key="two", headers={"kid": "one"}),
        "an unknown kid": token("ann", headers={"kid": "two"}),
        "a kid that is a path": token("ann", headers={"kid": "../../dev/null"}),
        "a kid that is a statement": token("ann", headers={"kid": "one' or '1'='1"}),
        "its own key in the header": token("ann", key="two", headers={"jwk": jwk(name="two")}),
        "an address of keys in the header": token("ann", key="two", headers={"jku": "https://evil.example/jwks"}),
        "a certificate in the header": token("ann", key="two", headers={"x5c": ["MIIB"], "kid": "one"}),
        "no algorithm": f"{part({'alg': 'none', 'kid': 'one'})}.{part(claims('ann'))}.",
        "no algorithm, in capitals": f"{part({'alg': 'NONE', 'kid': 'one'})}.{part(claims('ann'))}.{signature}",
        "the public key as a shared secret": f"{forged}.{_base64(mac)}",
        "a critical extension": token("ann", headers={"kid": "one", "crit": ["exp"], "exp": 1}),
        "other claims": f"{head}.{part(claims('bob'))}.{signature}",
        "no signature": f"{head}.{body}.",
        "a cut signature": good[:-4],
        "claims twice": _signed(f'{{"sub":"ann","sub":"bob",{part_of_claims(now)}}}'),
        "claims that are no object": _signed("[1]"),
        "an endless time": _signed('{"exp":1e400,"sub":"ann","iat":0,"iss":"x","aud":"duetime:default"}'),
        "a time that is not JSON": _signed('{"exp":Infinity,"sub":"ann","iat":0,"aud":"duetime:default"}'),
        "a time that is a text": token("ann", exp=str(now + 60)),
        "an expired one": token("ann", iat=now - HOUR, exp=now - 40),
        "one that is not valid yet": token("ann", nbf=now + 60),
        "one from the future": token("ann", iat=now + 60, exp=now + 120),
        "another audience": token("ann", aud=["duetime:default2", "https://api.example.com", "duetime:default3"]),
        "no audience": token("ann", aud=None),
        "another issuer": token("ann", iss="https://evil.example.com"),
        "no issuer": token("ann", iss=None),
        "no end": token("ann", exp=None),
        "no beginning": token("ann", iat=None),
        "one that is valid for too long": token("ann", iat=now, exp=now + HOUR + 1),
        "no owner": token("ann", sub=None),
        "an empty owner": token(""),
        "an owner that is a number": _signed(f'{{"sub":7,{part_of_claims(now)}}}'),
        "an owner that is a list": _signed(f'{{"sub":["ann"],{part_of_claims(now)}}}'),
        "an owner with a line break": token("ann\nbob"),
        "a huge one": token("ann", more="x" * 9000),
        "four parts": f"{good}.x",
        "something else": "eyJ..",
    }


def part_of_claims(now: int) -> str:
    return f'"iss":"{ISSUER}","aud":"duetime:default","iat":{now},"exp":{now + 60}'


def _signed(text: str) -> str:
    """A token with a good signature over any text."""
    return jwt.PyJWS().encode(text.encode(), private_key(), algorithm="ES256", headers={"kid": "one"})


def _base64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).decode().rstrip("=")


async def test_what_is_wrong_with_a_token_keeps_it_out(api: Served) -> None:
    await register(api)
    assert await status(api, token("ann")) == 200
    for name, text in wrong_tokens().items():
        answer = await api.get("/v1/jobs", key=text)
        assert (answer.status, answer.code) == (401, "unauthenticated"), (name, answer.body)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


async def test_clocks_may_differ_a_little(api: Served) -> None:
    await register(api)
    now = int(time.time())
    assert await status(api, token("ann", iat=now - 60, exp=now - 10)) == 200
    assert await status(api, token("ann", iat=now + 10, exp=now + 60, nbf=now + 10)) == 200


async def test_what_is_unknown_looks_like_a_wrong_signature(api: Served) -> None:
    """Neither tenants nor issuers can be guessed."""
    await api.tenant("acme")
    await register(api)
    texts = {
        "a wrong signature": token("ann", key="two", headers={"kid": "one"}),
        "an unknown issuer": token("ann", iss="https://other.example.com"),
        "a tenant without issuers": token("ann", aud="duetime:acme"),
        "an unknown tenant": token("ann", aud="duetime:nobody"),
        "no tenant": token("ann", aud="x"),
        "an unknown key": token("ann", headers={"kid": "two"}),
    }
    answers = {name: await api.get("/v1/jobs", key=text) for name, text in texts.items()}
    assert len({answer.body for answer in answers.values()}) == 1, answers


async def test_the_reason_is_said_to_those_with_a_good_signature(api: Served) -> None:
    await register(api)
    now = int(time.time())
    for text, said in {
        token("ann", iat=now - HOUR, exp=now - 40): "has expired",
        token("ann", nbf=now + 60): "not valid yet",
        token("ann", iat=now, exp=now + 2 * HOUR): "longer than 3600 s",
        token("ann", sub=None): "`sub`, which names the owner",
    }.items():
        assert said in (await api.get("/v1/me", key=text)).json["detail"]


async def test_a_token_is_for_one_tenant(api: Served) -> None:
    acme = await api.tenant("acme")
    admin = await api.key(Role.ADMIN, acme.id)
    await register(api, audience="https://jobs.example.com")
    text = token("ann", aud="https://jobs.example.com")
    assert await status(api, text, **{"Duetime-Tenant": "default"}) == 200
    assert await status(api, text) == 401, "nothing names the tenant"
    assert await status(api, text, **{"Duetime-Tenant": "acme"}) == 401
    # Another tenant that registers the same issuer and audience gets its own users only.
    body = {"issuer": ISSUER, "jwks": jwks(name="two"), "audience": "https://jobs.example.com"}
    assert (await api.ask("PUT", "/v1/issuers/app", body, key=admin)).status == 200
    assert await status(api, text, **{"Duetime-Tenant": "acme"}) == 401
    assert (await api.get("/v1/me", key=text, headers={"Duetime-Tenant": "default"})).json["tenant"] == "default"


async def test_the_owner_is_in_any_claim_and_the_issuer_narrows_the_scope(api: Served) -> None:
    await register(api, owner_claim="https://app/user", tag="users", queue="slow", role="viewer")
    me = (await api.get("/v1/me", key=token("ann", **{"https://app/user": "u-7"}))).json
    assert me["scope"] == {"owner": "u-7", "tag": "users", "queue": "slow"} and me["may"] == ["read"]


async def test_a_deleted_issuer_stops_at_once(api: Served) -> None:
    await register(api)
    text = token("ann")
    headers = {"Authorization": f"Bearer {text}"}
    async with api.http.get(f"{api.url}/v1/events", headers=headers) as stream:
        await stream.content.readuntil(b"\n\n")
        assert (await api.ask("DELETE", "/v1/issuers/app")).status == 200
        assert await status(api, text) == 401
        await api.post("/v1/jobs", {"task": "t", "owner": "ann"})
        assert b"event:" not in await stream.read()
    assert (await api.ask("DELETE", "/v1/issuers/app")).status == 404


async def test_an_issuer_that_another_server_deletes(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that is verified with a remembered issuer is not remembered for longer than the issuer."""
    now = 1000.0
    monkeypatch.setattr("duetime.api.lookup_cache.monotonic", lambda: now)
    await register(api)
    assert await status(api, token("bob")) == 200
    now += REMEMBERED - 0.1
    await api.store.issuers.delete_issuer(DEFAULT_TENANT, "app")
    text = token("ann")
    assert await status(api, text) == 200
    now += 0.2
    assert await status(api, text) == 401


async def test_a_replaced_key_stops_at_once(api: Served) -> None:
    await register(api)
    assert await status(api, token("ann")) == 200
    await register(api, jwks=jwks(name="two"))
    assert await status(api, token("ann")) == 401
    assert await status(api, token("ann", key="two")) == 200


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"jwks": None}, "jwks"),
    ({"public_key": pem()}, "public_key"),
    ({"jwks": {}}, "jwks"),
    ({"jwks": {"keys": []}}, "jwks"),
    ({"jwks": {"keys": [{"kty": "oct", "k": "AAAA"}]}}, "jwks.keys[0]"),
    ({"jwks": {"keys": [{**jwk(), "d": "AAAA"}]}}, "jwks.keys[0]"),
    ({"jwks": {"keys": [{**jwk(), "use": "enc"}]}}, "jwks.keys[0]"),
    ({"jwks": {"keys": [{**jwk(), "key_ops": 5}]}}, "jwks.keys[0]"),
    ({"jwks": {"keys": [{**jwk(), "x": "AAAA"}]}}, "jwks.keys[0]"),
    ({"jwks": {"keys": [jwk(), jwk()]}}, "jwks"),
    ({"jwks": jwks("ES384"), "algorithms": ["ES256"]}, "jwks"),
    ({"algorithms": ["HS256"]}, "algorithms[0]"),
    ({"algorithms": ["none"]}, "algorithms[0]"),
    ({"algorithms": []}, "algorithms"),
    ({"jwks": None, "public_key": "-----BEGIN PRIVATE KEY-----"}, "public_key"),
    ({"jwks": None, "public_key": "key"}, "public_key"),
    ({"jwks": None, "jwks_url": "https://127.0.0.1/jwks"}, "jwks_url"),
    ({"jwks": None, "jwks_url": "https://user:secret@example.com/"}, "jwks_url"),
    ({"jwks": None, "jwks_url": "file:///etc/passwd"}, "jwks_url"),
    ({"role": "admin"}, "role"),
    ({"max_lifetime": "2d"}, "max_lifetime"),
    ({"max_lifetime": 0}, "max_lifetime"),
    ({"audience": "duetime:acme"}, "audience"),
    ({"owner_claim": ""}, "owner_claim"),
]


async def test_what_is_wrong_with_an_issuer(api: Served) -> None:
    for wrong, field in WRONG:
        answer = await register(api, **wrong)
        assert (answer.status, answer.json.get("field")) == (422, field), answer.body
    assert (await api.get("/v1/issuers")).json["items"] == []


async def test_keys_do_not_come_in_the_clear_from_outside(api: Served) -> None:
    """A name is refused where it is fetched from: it may lead into an allowed network."""
    assert (await register(api, jwks=None, jwks_url="http://127.0.0.1/jwks")).status == 422
    assert (await register(api, jwks=None, jwks_url="http://localhost.example.com/jwks")).status == 200
    assert await status(api, token("ann")) == 401


async def test_keys_are_fetched_and_rotate(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, asked = {"keys": [jwk(), {"kty": "oct", "k": "AAAA"}]}, []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        if request.path == "/moved":
            raise web.HTTPFound("/jwks")
        if request.path == "/large":
            return web.Response(body=b" " * (guarded_fetch.MOST_BYTES + 1))
        return web.json_response(shown)

    app = web.Application()
    app.router.add_get("/{any}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    url = f"http://127.0.0.1:{port}"
    try:
        async with served(database_url, allowed_networks=("127.0.0.0/8",)) as api:
            await register(api, jwks=None, jwks_url=f"{url}/jwks")
            for _ in range(3):
                assert await status(api, token("ann")) == 200
            assert len(asked) == 1
            shown["keys"] = [jwk(name="two")]
            assert await status(api, token("ann", key="two")) == 401, "an unknown kid causes no fetch for a while"
            assert len(asked) == 1
            monkeypatch.setattr(issuer_keys, "RETRY", 0.0)
            assert await status(api, token("ann", key="two")) == 200
            assert len(asked) == 2
            for path in ("moved", "large"):
                await register(api, "other", issuer="https://other", jwks=None, jwks_url=f"{url}/{path}")
                assert await status(api, token("ann", iss="https://other")) == 401, path
            assert asked[2:] == ["/moved", "/large"]
    finally:
        await runner.cleanup()


async def test_an_issuer_passes_on_no_more_than_the_key_that_registered_it(
    api: Served,
) -> None:
    end = datetime.now(UTC) + timedelta(minutes=10)
    key = await api.key(Role.ADMIN, expires_at=end, networks=("127.0.0.1/32",))
    body = {"issuer": ISSUER, "jwks": jwks()}
    made = (await api.ask("PUT", "/v1/issuers/app", body, key=key)).json
    assert (datetime.fromisoformat(made["expires_at"]), made["networks"]) == (end, ["127.0.0.1/32"])
    assert await status(api, token("ann")) == 200
    [stored] = await api.store.issuers.issuers(DEFAULT_TENANT)
    elsewhere = msgspec.structs.replace(stored.issuer, networks=("192.0.2.0/24",))
    await api.store.issuers.put_issuer(DEFAULT_TENANT, elsewhere)
    api.service.gate.forget()
    assert await status(api, token("ann")) == 403
    over = msgspec.structs.replace(stored.issuer, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    await api.store.issuers.put_issuer(DEFAULT_TENANT, over)
    api.service.gate.forget()
    answer = await api.get("/v1/me", key=token("ann"))
    assert (answer.status, "register it again" in answer.json["detail"]) == (401, True)


async def test_an_issuer_as_it_is_shown(api: Served) -> None:
    made = (await register(api, jwks=None, public_key=pem(), max_lifetime="15m")).json
    assert (made["name"], made["audience"], made["max_lifetime"]) == ("app", "duetime:default", 900.0)
    assert made["jwks"]["keys"][0]["kty"] == "EC" and "d" not in made["jwks"]["keys"][0]
    assert (await api.get("/v1/issuers/app")).json == made
    assert (await api.get("/v1/issuers")).json["items"] == [made]
    await api.service.trail.flush()
    assert (await api.get("/v1/audit")).json["items"][0]["action"] == "issuers.set"
