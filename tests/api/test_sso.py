"""Single sign-on: who gets in through an identity provider, with which role, and everything that keeps others out."""

import hashlib
import hmac
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
import msgspec
import pytest

from duetime.api import issuer_keys
from duetime.api.sso import login_flow, provider_link
from duetime.model.access import Role
from tests.support.identity_provider import (
    CLI,
    CLIENT,
    IdentityProvider,
    identity_provider,
    providers_file,
    table_of,
)
from tests.support.served import Answer, Served, served
from tests.support.signing import claims, jwk, jwks, part, pem, private_key

OWN = {"Sec-Fetch-Site": "same-origin"}
BACK = {"Sec-Fetch-Site": "cross-site", "Accept": "text/html"}
PUBLIC = "http://jobs.example.test"
RULES: tuple[dict[str, str], ...] = (
    {"group": "platform", "role": "root"},
    {"group": "ops", "tenant": "default", "role": "admin"},
    {"group": "ops", "tenant": "acme", "role": "viewer"},
    {"group": "dev", "tenant": "default", "role": "operator"},
    {"group": "sales", "tenant": "default", "role": "viewer", "owner_claim": "email"},
    {"claim": "azp", "value": "billing-service", "tenant": "default", "role": "submitter", "queue": "billing"},
    {"claim": "email", "value": "boss@example.com", "tenant": "default", "role": "viewer"},
)


class World:
    def __init__(self, api: Served, one: IdentityProvider, two: IdentityProvider) -> None:
        self.api = api
        self.one = one
        self.two = two

    async def begin(self, name: str = "one", to: str | None = None, **headers: str) -> tuple[str, dict[str, str]]:
        """Where the browser goes, and the cookie that it keeps."""
        query = "" if to is None else f"?{urlencode({'to': to})}"
        answer = await self.api.get(f"/login/sso/{name}{query}", key=None, headers=OWN | headers)
        assert answer.status == 303, answer.body
        return answer.headers["Location"], _cookies(answer)

    async def finish(self, given: dict[str, str], cookies: dict[str, str], name: str = "one", **headers: str) -> Answer:
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items()), **BACK, **headers}
        return await self.api.get(f"/login/sso/{name}/callback?{urlencode(given)}", key=None, headers=sent)

    async def log_in(self, name: str = "one", to: str | None = None, **person: Any) -> Answer:
        provider: IdentityProvider = getattr(self, name)
        provider.person |= person
        location, cookies = await self.begin(name, to)
        return await self.finish(provider.authorize(location), cookies, name)

    async def session(self, **person: Any) -> dict[str, str]:
        """The headers of a browser with a session."""
        answer = await self.log_in(**person)
        assert answer.status == 303, answer.body
        return {"Cookie": f"duetime_session={_cookies(answer)['duetime_session']}", **OWN}

    async def me(self, headers: dict[str, str]) -> Any:
        answer = await self.api.get("/v1/me", key=None, headers=headers)
        assert answer.status == 200, answer.body
        return answer.json


def _cookies(answer: Answer) -> dict[str, str]:
    pairs = (line.partition(";")[0].partition("=") for line in answer.headers.getall("Set-Cookie"))  # type: ignore[attr-defined]
    return {name: value for name, _, value in pairs}


@pytest.fixture
async def sso(database_url: str, tmp_path: Path) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        one, two = [await stack.enter_async_context(identity_provider()) for _ in range(2)]
        more = {"groups_claim": "realm.groups", "logout": "provider", "cli_client_id": None, "title": "Two & <Sons>"}
        path = providers_file(
            tmp_path,
            one=table_of(one, *RULES, audiences=["duetime-api"]),
            two=table_of(two, {"group": "ops", "tenant": "default", "role": "viewer"}, **more),
        )
        settings = {"oidc_providers": path, "public_url": PUBLIC}
        yield World(await stack.enter_async_context(served(database_url, **settings)), one, two)


async def test_a_person_logs_in_and_gets_the_role_of_their_group(sso: World) -> None:
    api = sso.api
    await api.tenant("acme")
    methods = (await api.get("/v1/login-methods", key=None)).json["providers"]
    assert [(each["name"], each["title"], each["login_path"]) for each in methods] == [
        ("one", "one", "/login/sso/one"),
        ("two", "Two & <Sons>", "/login/sso/two"),
    ]
    location, cookies = await sso.begin(to="/jobs?tag=a")
    asked = dict(parse_qsl(urlsplit(location).query))
    assert asked["redirect_uri"] == f"{PUBLIC}/login/sso/one/callback" and asked["scope"] == "openid profile email"
    assert asked["realm"] == "a", "what the endpoint has in its query stays there"
    sso.one.person["groups"] = ["unknown", "ops", 7]
    answer = await sso.finish(sso.one.authorize(location), cookies)
    assert (answer.status, answer.headers["Location"]) == (303, "/jobs?tag=a")
    lines = answer.headers.getall("Set-Cookie")  # type: ignore[attr-defined]
    assert "SameSite=Strict" in lines[0] and "HttpOnly" in lines[0] and "Max-Age=3600" in lines[0]
    assert lines[1].startswith("duetime_login=;") and "Max-Age=0" in lines[1]

    headers = {"Cookie": lines[0].partition(";")[0], **OWN}
    me = await sso.me(headers)
    label = f"ann@example.com ({sso.one.url} ann-1)"
    assert (me["key_name"], me["role"], me["tenant"], me["tenants"]) == (label, "admin", "default", ["default", "acme"])
    assert me["user"] == {
        "provider": "one",
        "issuer": sso.one.url,
        "subject": "ann-1",
        "email": "ann@example.com",
    }
    there = await sso.me(headers | {"Duetime-Tenant": "acme"})
    assert (there["role"], there["tenant"]) == ("viewer", "acme")
    for closed in ("other", "", "acme "):
        refused = await api.get("/v1/me", key=None, headers=headers | {"Duetime-Tenant": closed or "nowhere"})
        assert (refused.status, refused.code) == (403, "forbidden")

    made = await api.post("/v1/jobs", {"task": "t"}, key=None, headers=headers)
    assert made.status == 201
    await api.service.tick()
    log = (await api.get("/v1/audit")).json["items"]
    assert {(each["action"], each["actor"]) for each in log} >= {("jobs.create", label), ("sessions.begin", label)}
    foreign = headers | {"Sec-Fetch-Site": "cross-site"}
    assert (await api.post("/v1/jobs", {"task": "t"}, key=None, headers=foreign)).status == 403


async def test_a_role_of_root_is_for_all_tenants(sso: World) -> None:
    await sso.api.tenant("acme")
    headers = await sso.session(groups=["ops", "platform"])
    assert (await sso.me(headers))["role"] == "root"
    assert (await sso.me(headers | {"Duetime-Tenant": "acme"}))["tenant"] == "acme"
    missing = await sso.api.get("/v1/me", key=None, headers=headers | {"Duetime-Tenant": "nowhere"})
    assert missing.status == 404
    missing = await sso.api.get("/v1/me", key=sso.one.id_token(CLI), headers={"Duetime-Tenant": "nowhere"})
    assert missing.status == 404, "the token is good: this is no failed authentication"


async def test_a_rule_can_bind_people_to_their_own_jobs(sso: World) -> None:
    await sso.api.post("/v1/jobs", {"task": "t", "owner": "ann@example.com", "name": "hers", "run_in": "1h"})
    await sso.api.post("/v1/jobs", {"task": "t", "owner": "bob@example.com", "name": "his", "run_in": "1h"})
    headers = await sso.session(groups=["sales"])
    assert (await sso.me(headers))["scope"] == {"owner": "ann@example.com", "tag": None, "queue": None}
    listed = (await sso.api.get("/v1/jobs", key=None, headers=headers)).json["items"]
    assert [each["name"] for each in listed] == ["hers"]
    assert (await sso.api.get("/v1/queues", key=None, headers=headers)).status == 403


async def test_who_has_no_group_gets_a_page_with_a_remedy(sso: World) -> None:
    for person in ({"groups": ["none"]}, {"groups": None}, {"groups": "opsx"}, {"groups": {"ops": 1}}):
        answer = await sso.log_in(**person)
        assert answer.status == 403 and answer.headers["Content-Type"].startswith("text/html")
        text = answer.body.decode()
        assert "ann@example.com" in text and "no access" in text and "Ask the operator" in text
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert "Set-Cookie" not in answer.headers
    assert (await sso.api.get("/v1/sessions?of=all")).json["items"] == []


async def test_an_address_that_is_not_verified_gives_nothing(sso: World) -> None:
    boss = {"email": "boss@example.com", "groups": []}
    for verified in (False, None, "true", 1):
        assert (await sso.log_in(**boss, email_verified=verified)).status == 403
    assert (await sso.log_in(**boss, email_verified=True)).status == 303


async def test_an_address_is_verified_where_it_is_said(sso_cheap: World) -> None:
    """Not by what another document says of another address."""
    sso, boss, other = sso_cheap, "boss@example.com", "ann@example.com"
    verified = {"sub": "ann-1", "email_verified": True}
    for token, more, status in (
        ({"email": boss}, {"email": other}, 403),
        ({"email": boss}, {}, 403),
        ({"email": boss}, {"email": boss}, 303),
        ({}, {"email": boss}, 303),
    ):
        sso.one.person = {"sub": "ann-1", **token}
        sso.one.userinfo = {**verified, **more}
        assert (await sso.log_in()).status == status, (token, more)
    sso.one.person, sso.one.userinfo = dict(verified), {"sub": "ann-1", "email": boss}
    assert (await sso.log_in()).status == 403


async def test_groups_may_be_in_a_nested_claim_or_at_the_userinfo_endpoint(sso: World) -> None:
    assert (await sso.log_in("two", realm={"groups": ["ops"]})).status == 303
    sso.two.person.pop("realm")
    sso.two.userinfo = {"sub": "another", "realm": {"groups": ["ops"]}}
    assert (await sso.log_in("two")).status == 403, "it answers for another person"
    sso.two.userinfo["sub"] = "ann-1"
    assert (await sso.log_in("two")).status == 303
    sso.two.userinfo = {}
    sso.two.person["_claim_names"] = {"realm.groups": "src1"}
    answer = await sso.log_in("two")
    assert answer.status == 401 and b"too many groups" in answer.body


async def test_a_login_is_bound_to_its_browser_and_begins_one_session(sso: World) -> None:
    sso.one.person["groups"] = ["ops"]
    sso.one.forgets_codes = False
    location, cookies = await sso.begin()
    given = sso.one.authorize(location)
    _, others = await sso.begin()
    for name, (parameters, jar) in {
        "no cookie": (given, {}),
        "another browser's cookie": (given, others),
        "another state": (given | {"state": "x"}, cookies),
        "no state": ({"code": given["code"]}, cookies),
        "a changed cookie": (given, {"duetime_login": cookies["duetime_login"][:-2] + "AA"}),
        "an empty cookie": (given, {"duetime_login": ""}),
        "a cookie of nonsense": (given, {"duetime_login": "ä" * 9}),
    }.items():
        answer = await sso.finish(parameters, jar)
        assert answer.status == 401 and b"Log in again" in answer.body, name
    assert "/token" not in sso.one.asked, "the code is sent for a login of this browser only"
    assert (await sso.finish(given, cookies)).status == 303
    again = await sso.finish(given, cookies)
    assert again.status == 401 and b"used before" in again.body, "also with a provider that accepts a code twice"
    sso.one.forgets_codes = True
    location, cookies = await sso.begin()
    given = sso.one.authorize(location)
    assert (await sso.finish(given, cookies)).status == 303
    assert b"invalid_grant" in (await sso.finish(given, cookies)).body


async def test_a_login_takes_ten_minutes_at_most(sso: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sso.one.person["groups"] = ["ops"]
    location, cookies = await sso.begin()
    monkeypatch.setattr(login_flow, "LASTS", -1)
    assert (await sso.finish(sso.one.authorize(location), cookies)).status == 401


async def test_answers_of_two_providers_are_never_mixed_up(sso: World) -> None:
    sso.one.person["groups"] = ["ops"]
    location, cookies = await sso.begin("one")
    given = sso.one.authorize(location)
    assert (await sso.finish(given, cookies, "two")).status == 401, "at the other one's address"
    wrong = await sso.finish(given | {"iss": sso.two.url}, cookies)
    assert wrong.status == 401 and b"another provider answered" in wrong.body
    assert (await sso.finish(given | {"iss": sso.one.url}, cookies)).status == 303

    # A token of one, with a good signature, at the other.
    location, cookies = await sso.begin("two")
    given = sso.two.authorize(location)
    sso.two.more = {"iss": sso.one.url, "realm": {"groups": ["ops"]}}
    assert (await sso.finish(given, cookies, "two")).status == 401

    # A provider that says that it sends `iss` must send it.
    sso.one.metadata["authorization_response_iss_parameter_supported"] = True
    _forget_metadata(sso)
    location, cookies = await sso.begin("one")
    given = sso.one.authorize(location)
    assert (await sso.finish(given, cookies)).status == 401
    assert (await sso.finish(given | {"iss": sso.one.url}, cookies)).status == 303


def _forget_metadata(sso: World) -> None:
    for link in sso.api.service.gate.identities.links.values():
        link._fetched_at = link._tried_at = -float("inf")


WRONG_ID_TOKENS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"aud": "another"}, "audience"),
    ({"aud": CLI}, "audience"),
    ({"aud": [CLIENT, "another"]}, "azp"),
    ({"azp": "another"}, "azp"),
    ({"exp": 1}, "expired"),
    ({"exp": None}, "exp"),
    ({"iat": None}, "iat"),
    ({"nbf": int(time.time()) + 6000}, "not valid yet"),
    ({"iat": int(time.time()) + 6000}, "not valid yet"),
    ({"iss": "https://evil.example"}, "not valid"),
    ({"nonce": "another"}, "nonce"),
    ({"nonce": None}, "nonce"),
    ({"nonce": 7}, "nonce"),
    ({"nonce": "\ud800"}, "nonce"),
    ({"exp": 10**12}, "not valid"),
    ({"sub": None}, "sub"),
    ({"sub": ["ann"]}, "not valid"),
    ({"sub": "a\nb"}, "sub"),
    ({"events": {}}, "event"),
    ({"cnf": {"jkt": "x"}}, "bound to a key"),
)


async def test_an_id_token_must_be_for_this_login(sso_cheap: World) -> None:
    sso = sso_cheap
    sso.one.person["groups"] = ["ops"]
    for wrong, told in WRONG_ID_TOKENS:
        sso.one.more = wrong
        answer = await sso.log_in()
        assert answer.status == 401 and told in answer.body.decode(), (wrong, answer.body)
    sso.one.more = {}
    assert (await sso.log_in()).status == 303


@pytest.fixture
async def sso_cheap(tmp_path: Path) -> AsyncIterator[World]:
    """On a file only: what is checked here never reaches the store."""
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(identity_provider())
        path = providers_file(tmp_path, one=table_of(one, *RULES, audiences=["duetime-api"]))
        settings = {"oidc_providers": path, "public_url": PUBLIC}
        api = await stack.enter_async_context(served(f"sqlite:///{tmp_path}/duetime.db", **settings))
        yield World(api, one, one)


async def test_the_page_after_a_login_is_one_of_this_server(sso_cheap: World) -> None:
    sso_cheap.one.person["groups"] = ["ops"]
    outside = (
        *("https://evil.example", "//evil.example", "/\\evil.example", "\\\\evil.example", "javascript:alert(1)"),
        *("/a\r\nSet-Cookie: x=y", "/a b", "http:/evil.example", "/" + "x" * 2000, "evil", "", "/\t/evil.example"),
    )
    for to in outside:
        assert (await sso_cheap.log_in(to=to)).headers["Location"] == "/", to
    assert (await sso_cheap.log_in(to="/runs/run_1?a=b#c")).headers["Location"] == "/runs/run_1?a=b#c"


async def test_behind_tls_both_cookies_are_secure(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(identity_provider())
        path = providers_file(tmp_path, one=table_of(one, *RULES))
        settings = {"oidc_providers": path, "public_url": "https://jobs.example.test"}
        api = await stack.enter_async_context(served(f"sqlite:///{tmp_path}/duetime.db", **settings))
        world, host = World(api, one, one), {"Host": "jobs.example.test"}
        one.person["groups"] = ["ops"]
        location, cookies = await world.begin(**host)
        assert list(cookies) == ["__Host-duetime_login"]
        plain = {"duetime_login": cookies["__Host-duetime_login"]}
        assert (await world.finish(one.authorize(location), plain, **host)).status == 401
        answer = await world.finish(one.authorize(location), cookies, **host)
        lines = answer.headers.getall("Set-Cookie")  # type: ignore[attr-defined]
        assert lines[0].startswith("__Host-duetime_session=") and all("; Secure" in line for line in lines)


async def test_another_site_cannot_begin_a_login(sso_cheap: World) -> None:
    for site in ("cross-site", "same-site"):
        answer = await sso_cheap.api.get("/login/sso/one", key=None, headers={"Sec-Fetch-Site": site})
        assert (answer.status, answer.code) == (403, "forbidden")


async def test_what_a_provider_refuses_is_said_in_words(sso_cheap: World) -> None:
    sso = sso_cheap
    location, cookies = await sso.begin()
    state = sso.one.authorize(location)["state"]
    hostile = {"state": state, "error": "access_denied", "error_description": "<script>alert(1)</script>"}
    answer = await sso.finish(hostile, cookies)
    assert answer.status == 403 and b"cancelled" in answer.body and b"Try again" in answer.body
    assert b"<script>" not in answer.body and b"&lt;script&gt;" in answer.body
    unknown = await sso.finish({"state": "x", "error": "access_denied", "error_description": "call 555"}, cookies)
    assert b"call 555" not in unknown.body, "no text of a link that was begun elsewhere"
    assert (await sso.api.get("/login/sso/none", key=None)).status == 404
    program = await sso.finish({"state": state, "error": "x"}, cookies, Accept="application/json")
    assert (program.status, program.code) == (401, "unauthenticated")


async def test_a_provider_that_is_down_is_asked_again_later(sso_cheap: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sso = sso_cheap
    sso.one.broken = True
    for _ in range(3):
        answer = await sso.api.get("/login/sso/one", key=None, headers=OWN | {"Accept": "text/html"})
        assert answer.status == 503 and b"cannot be used now" in answer.body
    assert len(sso.one.asked) == 1, "not with every click"
    sso.one.broken = False
    monkeypatch.setattr(provider_link, "RETRY", 0.0)
    assert (await sso.log_in(groups=["ops"])).status == 303
    sso.one.broken = True
    answer = await sso.log_in()
    assert answer.status == 503, "its token endpoint"
    _forget_metadata(sso)
    next(iter(sso.api.service.gate.identities.links.values()))._metadata = None
    answer = await sso.api.get("/v1/me", key=sso.one.id_token(CLI))
    assert (answer.status, answer.code) == (503, "provider_unavailable"), "the token may be good"


async def test_a_provider_must_publish_what_is_safe(sso_cheap: World) -> None:
    for published in (
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://192.0.2.1/authorize"},
        {"code_challenge_methods_supported": ["plain"]},
        {"token_endpoint": None},
        {"jwks_uri": 7},
    ):
        sso_cheap.one.metadata = published
        _forget_metadata(sso_cheap)
        answer = await sso_cheap.api.get("/login/sso/one", key=None, headers=OWN)
        assert (answer.status, answer.code) == (503, "provider_unavailable"), published


async def test_a_provider_cannot_make_the_server_call_other_networks(sso_cheap: World) -> None:
    """Only networks of this provider are open without TLS, and targets do not get them."""
    sso, sent = sso_cheap, []
    sso.one.person["groups"] = ["ops"]
    for endpoint in ("token_endpoint", "jwks_uri"):
        for address in ("http://169.254.169.254/latest", "http://10.0.0.1/", "file:///etc/passwd", "http://192.0.2.1/"):
            sso.one.metadata = {endpoint: address}
            _forget_metadata(sso)
            sent.append((await sso.log_in()).status)
    assert sent == [503] * 4 + [401] * 4
    target = {"type": "http", "url": f"{sso.one.url}/jwks"}
    refused = await sso.api.post("/v1/jobs", {"target": target})
    assert (refused.status, refused.json["field"]) == (422, "target.url")


async def test_a_session_ends_and_its_rules_are_those_of_today(sso: World) -> None:
    api = sso.api
    await api.tenant("acme")
    headers = await sso.session(groups=["ops"])
    admin = await api.key()
    for of in ("all", "tenant"):
        (seen,) = (await api.get(f"/v1/sessions?of={of}", key=admin)).json["items"]
        assert (seen["key_id"], seen["role"], seen["user"]["subject"]) == (None, "admin", "ann-1")
    (own,) = (await api.get("/v1/sessions", key=None, headers=headers)).json["items"]
    assert own["current"]
    there = await api.key(Role.ADMIN, (await api.store.tenants.tenant("acme")).id)
    (seen,) = (await api.get("/v1/sessions?of=tenant", key=there)).json["items"]
    assert (seen["role"], seen["tenant"]) == ("viewer", "acme"), "nothing of what she may do in other tenants"
    assert (await api.post("/v1/login-links", key=None, headers=headers)).status == 403

    link = api.service.gate.identities.links["one"]
    provider = link.provider
    link.provider = msgspec.structs.replace(provider, rules=provider.rules[2:])
    assert (await sso.me(headers))["tenant"] == "acme", "the rule for default is gone"
    link.provider = msgspec.structs.replace(provider, rules=provider.rules[:1])
    assert (await api.get("/v1/me", key=None, headers=headers)).status == 403
    link.provider = provider

    answer = await api.post("/logout", key=None, headers=headers)
    assert answer.json == {"next": None}
    assert (await api.get("/v1/me", key=None, headers=headers)).status == 401

    answer = await sso.log_in("two", realm={"groups": ["ops"]})
    cookie = {"Cookie": f"duetime_session={_cookies(answer)['duetime_session']}", **OWN}
    left = await api.service.login_flow.logout_address(api.service.gate.identities.links["two"])
    assert left is not None
    assert (await api.post("/logout", key=None, headers=cookie)).json["next"] == left
    for odd in ("javascript:alert(1)", "http://192.0.2.1/logout"):
        sso.two.metadata["end_session_endpoint"] = odd
        _forget_metadata(sso)
        assert await api.service.login_flow.logout_address(api.service.gate.identities.links["two"]) is None
    asked = dict(parse_qsl(urlsplit(left).query))
    assert left.startswith(f"{sso.two.url}/logout?")
    assert asked == {"client_id": CLIENT, "post_logout_redirect_uri": f"{PUBLIC}/"}

    headers = await sso.session(groups=["ops"])
    (session,) = (await api.get("/v1/sessions?of=tenant", key=admin)).json["items"]
    assert (await api.post(f"/v1/sessions/{session['session_id']}/revoke", key=admin)).status == 200
    assert (await api.get("/v1/me", key=None, headers=headers)).status == 401


async def test_keys_that_a_person_creates_expire(sso: World) -> None:
    headers = await sso.session(groups=["ops"])
    made = await sso.api.post("/v1/admin/keys", {"role": "viewer", "name": "k"}, key=None, headers=headers)
    assert made.status == 201 and made.json["expires_at"] is not None
    endless = {"role": "viewer", "name": "k", "expires_at": "never"}
    refused = await sso.api.post("/v1/admin/keys", endless, key=None, headers=headers)
    assert (refused.status, refused.code) == (403, "forbidden")
    root = {"role": "root", "name": "k"}
    assert (await sso.api.post("/v1/admin/keys", root, key=None, headers=headers)).status == 403


# Bearer tokens: the command line's ID tokens, and access tokens of services.


async def test_tokens_of_people_and_services_are_accepted_as_keys_are(sso: World) -> None:
    api, one = sso.api, sso.one
    await api.tenant("acme")
    one.person["groups"] = ["ops"]
    person = one.id_token(CLI)
    me = (await api.get("/v1/me", key=person)).json
    assert (me["role"], me["tenant"], me["user"]["email"]) == ("admin", "default", "ann@example.com")
    assert (await api.get("/v1/me", key=person, headers={"Duetime-Tenant": "acme"})).json["role"] == "viewer"
    assert (await api.post("/v1/login-links", key=person)).status == 403
    assert (await api.post("/v1/workers", {"name": "w"}, key=person)).status == 403, "workers need keys"
    assert (await api.get("/v1/sessions", key=person)).json["items"] == []

    service = {"sub": "svc", "azp": "billing-service", "email": None, "groups": None}
    text = one.id_token("duetime-api", **service)
    me = (await api.get("/v1/me", key=text)).json
    assert (me["role"], me["scope"]["queue"], me["key_name"]) == ("submitter", "billing", f"{one.url} svc")
    job = {"task": "t", "queue": "billing"}
    assert (await api.post("/v1/jobs", job, key=text)).status == 201
    assert (await api.post("/v1/jobs", job | {"queue": "mail"}, key=text)).status == 422
    nothing = await api.get("/v1/me", key=one.id_token("duetime-api", **service | {"azp": "other"}))
    assert (nothing.status, nothing.code) == (403, "forbidden")


async def test_people_have_a_share_of_what_a_tenant_may_submit(tmp_path: Path) -> None:
    """All of them together count as one key, and leave the rest to others."""
    async with identity_provider() as one:
        settings: dict[str, Any] = {"oidc_providers": providers_file(tmp_path, one=table_of(one, *RULES))}
        settings |= {"public_url": PUBLIC, "key_submission_share": 25}
        async with served(f"sqlite:///{tmp_path}/duetime.db", **settings) as api:
            await api.ask("PATCH", "/v1/admin/tenants/default", {"limits": {"submissions_per_second": 8}})
            one.person["groups"] = ["dev"]
            answers = [await api.post("/v1/jobs", {"task": "t"}, key=one.id_token(CLI)) for _ in range(8)]
            (told, *_) = [each.json["detail"] for each in answers if each.status == 429]
            assert told == "the key may submit 2 jobs a second"
            key = await api.key(Role.SUBMITTER)
            assert [(await api.post("/v1/jobs", {"task": "t"}, key=key)).status for _ in range(3)] == [201] * 3


def wrong_tokens(one: IdentityProvider) -> dict[str, str]:
    now = int(time.time())
    good = one.id_token(CLI)
    head, _, signature = good.split(".")
    body = {**claims("ann-1"), "iss": one.url, "aud": CLI, "groups": ["ops"]}
    forged = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': 'one'})}.{part(body)}"
    mac = urlsafe_b64encode(hmac.new(pem().encode(), forged.encode(), hashlib.sha256).digest()).decode().rstrip("=")

    def signed(kid: str, **headers: Any) -> str:
        return jwt.encode(body, private_key("ES256", "evil"), algorithm="ES256", headers={"kid": kid, **headers})

    return {
        "no algorithm": f"{part({'alg': 'none', 'kid': 'one'})}.{part(body)}.",
        "the public key as a shared secret": f"{forged}.{mac}",
        "another key": signed("one"),
        "its own key in the header": signed("evil", jwk=jwk(name="evil")),
        "an address of keys in the header": signed("evil", jku=f"{one.url}/evil"),
        "other claims": f"{head}.{part(body)}.{signature}",
        "the client of the dashboard": one.id_token(CLIENT),
        "another audience": one.id_token("another"),
        "no audience": one.id_token(CLI, aud=None),
        "another party": one.id_token(CLI, azp="another"),
        "another issuer": one.id_token(CLI, iss="https://evil.example"),
        "an expired one": one.id_token(CLI, iat=now - 600, exp=now - 60),
        "one that is not valid yet": one.id_token(CLI, nbf=now + 600),
        "one for days": one.id_token(CLI, exp=now + 3 * 86_400),
        "a logout token": one.id_token(CLI, events={"http://schemas.openid.net/event/backchannel-logout": {}}),
        "one that is bound to a key": one.id_token(CLI, cnf={"jkt": "x"}),
        "no subject": one.id_token(CLI, sub=None),
        "too many groups": one.id_token(CLI, groups=None, _claim_names={"groups": "src1"}, email="boss@example.com"),
    }


async def test_what_is_wrong_with_a_token_keeps_it_out(sso_cheap: World) -> None:
    one = sso_cheap.one
    one.person["groups"] = ["ops"]
    assert (await sso_cheap.api.get("/v1/me", key=one.id_token(CLI))).status == 200
    for name, text in wrong_tokens(one).items():
        answer = await sso_cheap.api.get("/v1/me", key=text)
        assert (answer.status, answer.code) == (401, "unauthenticated"), (name, answer.body)


async def test_keys_rotate_and_invented_ones_cause_no_traffic(
    sso_cheap: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, one = sso_cheap.api, sso_cheap.one
    one.person["groups"] = ["ops"]
    assert (await api.get("/v1/me", key=one.id_token(CLI))).status == 200
    for number in range(20):
        text = jwt.encode(
            {**claims("x"), "iss": one.url, "aud": CLI},
            private_key("ES256", "evil"),
            algorithm="ES256",
            headers={"kid": f"invented-{number}"},
        )
        assert (await api.get("/v1/me", key=text)).status == 401
    assert one.asked.count("/jwks") == 1
    one.key = "two"
    monkeypatch.setattr(issuer_keys, "RETRY", 0.0)
    assert (await api.get("/v1/me", key=one.id_token(CLI))).status == 200
    assert one.asked.count("/jwks") == 2
    one.key = "one"
    assert (await api.get("/v1/me", key=one.id_token(CLI))).status == 200, "the old key is published again"


async def test_an_issuer_of_a_tenant_cannot_stand_in_for_a_provider(sso: World) -> None:
    """A tenant may register the issuer of the operator's provider with keys of its own."""
    api, one = sso.api, sso.one
    one.person["groups"] = ["platform"]
    registered = await api.ask(
        "PUT", "/v1/issuers/evil", {"issuer": one.url, "audience": CLI, "jwks": jwks(name="evil")}
    )
    assert registered.status == 200
    body = {**claims("ann-1"), "iss": one.url, "aud": CLI, "groups": ["platform"]}
    text = jwt.encode(body, private_key("ES256", "evil"), algorithm="ES256", headers={"kid": "evil"})
    assert (await api.get("/v1/me", key=text, headers={"Duetime-Tenant": "default"})).status == 401
    assert (await api.get("/v1/me", key=one.id_token(CLI))).json["role"] == "root"
