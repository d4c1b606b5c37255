"""Calls with credentials that are obtained for each of them: signatures for AWS, identity tokens, access tokens."""

import asyncio
import logging
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from duetime.errors import SettingsError
from duetime.model.access import Role
from duetime.targets.cloud_access import read_cloud_access
from tests.support.receiver import Receiver, receiving
from tests.support.sigv4 import is_signed, signature
from tests.support.targeting import Targeting, targeting

KEY, SECRET_KEY = "AKIDOFTHETENANT", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYTENANT"
OWN_KEY, OWN_SECRET = "AKIDOFTHESERVICE", "zJalrXUtnFEMI/K7MDENG+bPxRfiCYSERVIC"
ROLE = "arn:aws:iam::123456789012:role/duetime-shop"
CLIENT_SECRET = "c1ient s3cret/+="


def test_the_verifier_finds_the_published_signature() -> None:
    """The example in AWS's description of Signature Version 4."""
    headers = {
        "content-type": "application/x-www-form-urlencoded; charset=utf-8",
        "host": "iam.amazonaws.com",
        "x-amz-date": "20150830T123600Z",
    }
    found = signature(
        *("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "GET", "/?Action=ListUsers&Version=2010-05-08", headers, b""),
        *(list(headers), "20150830/us-east-1/iam/aws4_request"),
    )
    assert found == "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"


@pytest.fixture
async def targets(quiet_url: str) -> AsyncIterator[Targeting]:
    async with targeting(quiet_url) as found:
        yield found


@dataclass
class Sts:
    """AWS's service of tokens, as far as AssumeRole needs it."""

    asked: list[dict[str, str]] = field(default_factory=list)
    refuses: bool = False

    async def __call__(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        signed = is_signed("POST", request.path_qs, headers, body, {KEY: SECRET_KEY, OWN_KEY: OWN_SECRET})
        said = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        self.asked.append(said)
        if self.refuses or not signed:
            text = f"User: arn:aws:iam::999999999999:user/operator may not assume {said.get('RoleArn')}"
            error = f"<Error><Type>Sender</Type><Code>AccessDenied</Code><Message>{text}</Message></Error>"
            return web.Response(status=403, text=f"<ErrorResponse>{error}</ErrorResponse>", content_type="text/xml")
        found = {
            "AccessKeyId": "ASIAASSUMED",
            "SecretAccessKey": "assumed-secret",
            "SessionToken": "assumed-token-12345",
        }
        inner = "".join(f"<{name}>{value}</{name}>" for name, value in found.items())
        inner += f"<Expiration>{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 3600))}</Expiration>"
        result = f"<AssumeRoleResult><Credentials>{inner}</Credentials></AssumeRoleResult>"
        text = f'<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">{result}</AssumeRoleResponse>'
        return web.Response(text=text, content_type="text/xml")


@pytest.fixture
async def sts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[Sts]:
    """The service's own credentials in the environment, and AWS's service of tokens."""
    async with receiving() as server:
        server.handler = found = Sts()
        for name, value in {
            "AWS_ACCESS_KEY_ID": OWN_KEY,
            "AWS_SECRET_ACCESS_KEY": OWN_SECRET,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": str(tmp_path / "none"),
            "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
            "AWS_ENDPOINT_URL_STS": f"http://127.0.0.1:{server.port}",
        }.items():
            monkeypatch.setenv(name, value)
        yield found


def verified(receiver: Receiver, secrets: dict[str, str], place: int = -1) -> bool:
    request = receiver.requests[place]
    return is_signed(request.method, request.path, request.headers, request.body, secrets)


def aws(receiver: Receiver, path: str = "/2015-03-31/functions/report/invocations", **auth: Any) -> dict[str, Any]:
    said = {"type": "aws_sigv4", "service": "lambda", "region": "eu-central-1", **auth}
    return {"type": "http", "url": f"http://127.0.0.1:{receiver.port}{path}", "body": {"day": 1}, "auth": said}


def own_key(name: str = "aws") -> dict[str, Any]:
    return {"access_key_id": KEY, "secret_access_key": {"secret": name}}


async def put(targets: Targeting, name: str, value: str, *hosts: str) -> None:
    answer = await targets.api.ask("PUT", f"/v1/secrets/{name}", {"value": value, "hosts": list(hosts)})
    assert answer.status == 200, answer.json


def allowing(path: Path, receiver: Receiver, **more: Any) -> Path:
    """A file that lets the tenant `default` call Lambda at a receiver."""
    entry = {"tenants": ["default"], "services": ["lambda"], "hosts": [f"127.0.0.1:{receiver.port}"], **more}
    path.write_text(
        "[[aws]]\n" + "".join(f"{name} = {msgspec.json.encode(value).decode()}\n" for name, value in entry.items())
    )
    return path


async def test_an_access_key_of_the_tenant_signs(targets: Targeting, receiver: Receiver) -> None:
    await put(targets, "aws", SECRET_KEY, f"127.0.0.1:{receiver.port}")
    for path in (
        "/2015-03-31/functions/arn%3Aaws%3Alambda%3Aeu-central-1%3A123456789012%3Afunction%3Areport/invocations",
        "/2015-03-31/functions/r/invocations?Qualifier=b%2Fc&a=%20x&a=&B=~",
        "",
    ):
        target = aws(receiver, path, **own_key()) | {
            "headers": {"X-Amz-Invocation-Type": "Event", "X-Other": "  a  b "}
        }
        run = await targets.ended(target=target)
        assert run["status"] == "SUCCEEDED", run
        assert verified(receiver, {KEY: SECRET_KEY}), receiver.requests[-1]
        assert not verified(receiver, {KEY: SECRET_KEY + "x"})
    assert "idempotency-key" in receiver.requests[-1].headers
    states = aws(receiver, "/", **own_key(), service="states")
    states |= {
        "headers": {"X-Amz-Target": "AWSStepFunctions.StartExecution", "Content-Type": "application/x-amz-json-1.0"}
    }
    assert (await targets.ended(target=states))["status"] == "SUCCEEDED"
    assert verified(receiver, {KEY: SECRET_KEY})
    assert "x-amz-target" in receiver.requests[-1].headers["authorization"]


async def test_the_credentials_of_the_service_are_for_no_tenant(
    targets: Targeting, receiver: Receiver, sts: Sts
) -> None:
    answer = await targets.api.post("/v1/jobs", {"target": aws(receiver)})
    assert (answer.status, answer.json["field"]) == (422, "target.auth"), answer.json
    assert "cloud_access" in answer.json["remedy"] and receiver.requests == [] and sts.asked == []


async def test_an_operator_allows_a_tenant_a_service_a_host_and_a_role(
    quiet_url: str, receiver: Receiver, sts: Sts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    file = allowing(tmp_path / "cloud.toml", receiver)
    async with targeting(quiet_url, cloud_access=file) as targets, receiving() as other:
        run = await targets.ended(target=aws(receiver))
        assert run["status"] == "SUCCEEDED" and verified(receiver, {OWN_KEY: OWN_SECRET}), run
        for target, words in (
            (aws(receiver, service="iam"), "for the service iam"),
            (aws(other), f"at 127.0.0.1:{other.port}"),
            (aws(receiver, role=ROLE), f"as {ROLE}"),
        ):
            answer = await targets.api.post("/v1/jobs", {"target": target})
            assert answer.status == 422 and words in answer.json["detail"], answer.json
        key = await targets.api.key(Role.ADMIN, (await targets.api.tenant("other")).id)
        answer = await targets.api.post("/v1/jobs", {"target": aws(receiver)}, key=key)
        assert (answer.status, answer.json["detail"]) == (
            422,
            "this tenant may not use the AWS credentials of this service",
        )
        made = await targets.api.post("/v1/jobs", {"target": aws(receiver), "every": "1h", "retries": 0})
        assert made.status == 201 and len(receiver.requests) == 1 and other.requests == []
    # What was stored is checked again when it is called.
    async with targeting(quiet_url, cloud_access=allowing(file, receiver, tenants=["other"])) as targets:
        started = await targets.api.post(f"/v1/jobs/{made.json['job_id']}/trigger")
        run = await targets.until(started.json["run_id"])
        assert run["failure"] == "target_refused" and "this tenant may not use" in run["error"], run
    assert len(receiver.requests) == 1 and OWN_SECRET not in caplog.text


async def test_a_role_is_assumed_and_its_failure_names_no_account(
    quiet_url: str, receiver: Receiver, sts: Sts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = allowing(tmp_path / "cloud.toml", receiver, roles=[ROLE], external_id="e-17")
    async with targeting(quiet_url, cloud_access=file) as targets:
        sts.refuses = True
        run = await targets.ended(target=aws(receiver))
        assert run["failure"] == "target_failed" and "no credentials" in run["error"], run
        assert "999999999999" not in str(run) and "999999999999" in caplog.text and receiver.requests == []
        sts.refuses = False
        receiver.answers = [(200, {}, b"assumed-token-12345 and ASIAASSUMED")]
        for _ in range(2):
            run = await targets.ended(target=aws(receiver))
            assert run["result"]["body"] == "[redacted] and [redacted]", run
            assert verified(receiver, {"ASIAASSUMED": "assumed-secret"})
            assert receiver.requests[-1].headers["x-amz-security-token"] == "assumed-token-12345"
        asked = [each for each in sts.asked if each["RoleArn"] == ROLE and each["ExternalId"] == "e-17"]
        assert len(asked) == len(sts.asked) == 2 and asked[1]["RoleSessionName"] == "duetime-default"
        # A tenant assumes a role with its own key, and learns what is wrong with it.
        await put(targets, "aws", SECRET_KEY, f"127.0.0.1:{receiver.port}")
        run = await targets.ended(target=aws(receiver, **own_key(), role=ROLE, external_id="theirs"))
        assert run["status"] == "SUCCEEDED" and sts.asked[-1]["ExternalId"] == "theirs", run
        await put(targets, "wrong", SECRET_KEY + "x", f"127.0.0.1:{receiver.port}")
        run = await targets.ended(target=aws(receiver, **own_key("wrong"), role=ROLE))
        assert run["failure"] == "target_refused" and "may not assume" in run["error"], run


async def test_the_usual_sources_of_credentials(
    quiet_url: str, receiver: Receiver, sts: Sts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (tmp_path / "files").write_text("[batch]\naws_access_key_id = FROMFILE\naws_secret_access_key = file-secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "files"))
    file = allowing(tmp_path / "cloud.toml", receiver, profile="batch")
    async with targeting(quiet_url, cloud_access=file) as targets:
        assert (await targets.ended(target=aws(receiver)))["status"] == "SUCCEEDED"
        assert verified(receiver, {"FROMFILE": "file-secret"})
    async with receiving() as container:
        said = {"AccessKeyId": "FROMTASK", "SecretAccessKey": "task-secret", "Token": "task-token-123"}
        said["Expiration"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        container.answers = [(200, {}, msgspec.json.encode(said))]
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", container.url)
        async with targeting(quiet_url, cloud_access=allowing(file, receiver)) as targets:
            assert (await targets.ended(target=aws(receiver)))["status"] == "SUCCEEDED"
            assert verified(receiver, {"FROMTASK": "task-secret"}) and len(container.requests) == 1
        monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        async with targeting(quiet_url, cloud_access=file) as targets:
            run = await targets.ended(target=aws(receiver))
            assert run["failure"] == "target_failed" and "its log says why" in run["error"], run


async def test_what_lambda_and_throttling_mean(targets: Targeting, receiver: Receiver) -> None:
    await put(targets, "aws", SECRET_KEY, f"127.0.0.1:{receiver.port}")
    target = aws(receiver, **own_key())
    for answer, failure in (
        ((200, {"X-Amz-Function-Error": "Unhandled"}, b'{"errorMessage": "boom"}'), "target_failed"),
        ((400, {}, b'{"__type": "com.amazonaws.swf#ThrottlingException"}'), "target_failed"),
        ((400, {"x-amzn-ErrorType": "TooManyRequestsException:http://x"}, b"{}"), "target_failed"),
        ((403, {}, b'{"__type": "AccessDeniedException"}'), "target_refused"),
        ((307, {"location": f"{receiver.url}?x"}, b""), "target_refused"),
    ):
        receiver.answers = [answer]
        count = len(receiver.requests)
        run = await targets.ended(target=target)
        assert (run["status"], run["failure"]) == ("FAILED", failure), run
        assert len(receiver.requests) == count + 1
    receiver.answers = [(202, {}, b"")]
    assert (await targets.ended(target=target))["status"] == "SUCCEEDED"


async def test_what_is_wrong_is_refused(targets: Targeting, receiver: Receiver) -> None:
    await put(targets, "aws", SECRET_KEY, f"127.0.0.1:{receiver.port}")
    changes: list[tuple[dict[str, Any], str]] = [
        ({"access_key_id": KEY}, "target.auth.secret_access_key"),
        ({"external_id": "abc"}, "target.auth.external_id"),
        ({"role": "admin"}, "target.auth.role"),
        ({"service": "Lambda!"}, "target.auth.service"),
        ({"type": "gcp"}, "target.auth"),
        ({**own_key(), "secret_access_key": {"secret": "aws", "prefix": "x"}}, "target.auth"),
    ]
    for change, where in changes:
        answer = await targets.api.post("/v1/jobs", {"target": aws(receiver, **change)})
        assert answer.status == 422 and answer.json["field"].startswith(where), answer.json
    for name in ("Authorization", "x-amz-date"):
        target = aws(receiver, **own_key()) | {"headers": {name: "x"}}
        answer = await targets.api.post("/v1/jobs", {"target": target})
        assert (answer.status, answer.json["field"]) == (422, f"target.headers.{name}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[aws]]\ntenants = ['a']", "services"),
        ("[[aws]]\ntenants = []\nservices = ['s3']\nhosts = ['a.b']", "tenants"),
        ("[[aws]]\ntenants = ['a']\nservices = ['s3']\nhosts = ['*']", "hosts"),
        ("[[azure]]\n", "azure"),
        ("[[google]]\ntenants = ['a']\nhosts = ['a.b']\n", "audiences"),
        ("nonsense", "cloud.toml"),
    ],
)
def test_a_file_that_is_wrong_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "cloud.toml").write_text(text)
    with pytest.raises(SettingsError, match=words):
        read_cloud_access(tmp_path / "cloud.toml")


@dataclass
class Provider:
    """A provider of tokens, which checks who asks, and the receiver that checks its tokens."""

    public: Any
    private: Any
    issued: int = 0
    lives: int = 3600
    asked: list[dict[str, str]] = field(default_factory=list)
    valid: set[str] = field(default_factory=set)
    refusal: tuple[int, dict[str, str]] | None = None

    async def give(self, request: web.Request) -> web.Response:
        said = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        self.asked.append(said)
        if self.refusal is not None:
            return web.json_response(self.refusal[1], status=self.refusal[0])
        self.issued += 1
        if said["grant_type"] == "client_credentials":
            # RFC 6749, 2.3.1: both parts are encoded as in a form.
            basic = b64encode(b"duetime:c1ient+s3cret%2F%2B%3D").decode()
            given = (
                request.headers.get("authorization") == f"Basic {basic}" or said.get("client_secret") == CLIENT_SECRET
            )
            token = f"access-token-number-{self.issued}"
            body: dict[str, Any] = {"access_token": token, "token_type": "Bearer", "expires_in": self.lives}
        else:
            claims = jwt.decode(said["assertion"], self.public, ["RS256"], audience=str(request.url))
            given = claims["iss"] == "shop@example.iam.gserviceaccount.com"
            now = int(time.time())
            claims = {"aud": claims["target_audience"], "iat": now, "exp": now + self.lives, "n": self.issued}
            token = jwt.encode(claims, self.private, "RS256")
            body = {"id_token": token}
        if not given:
            return web.json_response({"error": "invalid_client"}, status=401)
        self.valid.add(token)
        return web.json_response(body)

    async def take(self, request: web.Request) -> web.Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return web.Response(status=200 if token in self.valid else 401, text=f"you sent {token}")


@asynccontextmanager
async def providing(receiver: Receiver) -> AsyncIterator[tuple[Provider, Receiver]]:
    private = rsa.generate_private_key(65537, 2048)
    provider = Provider(private.public_key(), private)
    async with receiving() as tokens:
        tokens.handler, receiver.handler = provider.give, provider.take
        yield provider, tokens


def pem(provider: Provider) -> str:
    plain = serialization.NoEncryption()
    form = provider.private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return str(form.decode())


def google_key(provider: Provider, token_url: str) -> str:
    said = {"type": "service_account", "client_email": "shop@example.iam.gserviceaccount.com"}
    said |= {"private_key": pem(provider), "private_key_id": "k1", "token_uri": token_url}
    return msgspec.json.encode(said).decode()


def oauth(receiver: Receiver, tokens: Receiver, **more: Any) -> dict[str, Any]:
    auth = {"type": "oauth2", "token_url": tokens.url, "client_id": "duetime", "client_secret": {"secret": "client"}}
    return {"type": "http", "url": receiver.url, "auth": {**auth, **more}}


async def test_access_tokens_are_kept_refreshed_and_never_shown(
    targets: Targeting, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with providing(receiver) as (provider, tokens):
        bound = f"127.0.0.1:{receiver.port}", f"127.0.0.1:{tokens.port}"
        await put(targets, "client", CLIENT_SECRET, *bound)
        target = oauth(receiver, tokens, scope="jobs run", audience="https://api.example.com")
        runs = await asyncio.gather(*(targets.ended(target=target) for _ in range(4)))
        assert {run["status"] for run in runs} == {"SUCCEEDED"} and provider.issued == 1, runs
        assert all(run["result"]["body"] == "you sent [redacted]" for run in runs)
        assert provider.asked[0] | {"scope": "jobs run", "audience": "https://api.example.com"} == provider.asked[0]
        provider.valid.clear()  # a revoked token is replaced, once
        run = await targets.ended(target=target)
        assert run["status"] == "SUCCEEDED" and provider.issued == 2 and len(receiver.requests) == 6, run
        provider.lives = 0  # one that has expired is not used again
        provider.valid.clear()
        assert (await targets.ended(target=target))["status"] == "SUCCEEDED" and provider.issued == 3
        assert (await targets.ended(target=target))["status"] == "SUCCEEDED" and provider.issued == 4
        run = await targets.ended(target=oauth(receiver, tokens, login="post"))
        assert run["status"] == "SUCCEEDED" and provider.asked[-1]["client_secret"] == CLIENT_SECRET
        receiver.handler = None  # a new token that is refused is not replaced
        receiver.answers = [(401, {}, b"no")]
        count = len(receiver.requests)
        run = await targets.ended(target=target)
        assert run["failure"] == "target_refused" and len(receiver.requests) == count + 1
        for status, said, failure in (
            (401, {"error": "invalid_client", "error_description": f"not {CLIENT_SECRET}"}, "target_refused"),
            (503, {}, "target_failed"),
            (200, {"access_token": "a b"}, "target_refused"),
            (302, {}, "target_refused"),
        ):
            provider.refusal = status, said
            run = await targets.ended(target=target)
            assert run["failure"] == failure and "the token endpoint answered" in run["error"], run
            assert len(receiver.requests) == count + 1
        shown = (await targets.api.get("/v1/dead-letters")).body.decode() + caplog.text
        assert CLIENT_SECRET not in shown and "access-token-number" not in shown


async def test_identity_tokens_with_a_key_of_the_tenant(targets: Targeting, receiver: Receiver) -> None:
    async with providing(receiver) as (provider, tokens):
        bound = f"127.0.0.1:{receiver.port}", f"127.0.0.1:{tokens.port}"
        await put(targets, "google", google_key(provider, tokens.url), *bound)
        auth = {"type": "oidc_identity", "key": {"secret": "google"}, "token_url": tokens.url}
        target = {"type": "http", "url": receiver.url, "auth": auth}
        for _ in range(2):
            run = await targets.ended(target=target)
            assert run["result"]["body"] == "you sent [redacted]", run
        assert provider.issued == 1
        token = receiver.requests[-1].headers["authorization"].removeprefix("Bearer ")
        origin = f"http://127.0.0.1:{receiver.port}"
        assert jwt.decode(token, provider.public, ["RS256"], audience=origin)["aud"] == origin
        run = await targets.ended(target={**target, "auth": {**auth, "audience": "a-client-id"}})
        assert run["status"] == "SUCCEEDED" and provider.issued == 2
        await put(targets, "wrong", "this is no key, but secret", *bound)
        run = await targets.ended(target={**target, "auth": {**auth, "key": {"secret": "wrong"}}})
        assert run["failure"] == "target_refused" and "JSON key of a service account" in run["error"], run
        assert "but secret" not in str(run)


async def test_a_token_goes_only_where_its_secret_may_go(targets: Targeting, receiver: Receiver) -> None:
    """A submitter must not obtain a token of the tenant's client, by sending it to a host of its choice."""
    async with providing(receiver) as (provider, tokens), receiving() as thief:
        ours, theirs = f"127.0.0.1:{receiver.port}", f"127.0.0.1:{tokens.port}"
        await put(targets, "client", CLIENT_SECRET, ours, theirs)
        await put(targets, "google", google_key(provider, tokens.url), ours, theirs)
        key = await targets.api.key(Role.SUBMITTER)
        identity = {"type": "oidc_identity", "key": {"secret": "google"}, "token_url": tokens.url}
        for target, where in (
            (oauth(thief, tokens), "target.auth.client_secret"),
            (oauth(receiver, thief), "target.auth.client_secret"),
            ({"type": "http", "url": thief.url, "auth": identity}, "target.auth.key"),
            ({"type": "http", "url": receiver.url, "auth": {**identity, "audience": thief.url}}, "target.auth.key"),
            ({"type": "http", "url": receiver.url, "auth": {**identity, "token_url": thief.url}}, "target.auth.key"),
            (oauth(receiver, tokens, token_url="http://10.0.0.1/token"), "target.auth.token_url"),
            (oauth(receiver, tokens, token_url="http://169.254.169.254/token"), "target.auth.token_url"),
            (oauth(receiver, tokens, client_secret={"secret": "missing"}), "target.auth.client_secret"),
        ):
            answer = await targets.api.post("/v1/jobs", {"target": target}, key=key)
            assert (answer.status, answer.json["field"]) == (422, where), answer.json
        assert thief.requests == provider.asked == []


async def test_the_identity_of_the_service(
    quiet_url: str, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Google's metadata server, whose protocol a local one speaks."""
    async with providing(receiver) as (provider, metadata):

        async def tell(request: web.Request) -> web.Response:
            assert request.headers.get("metadata-flavor") == "Google"
            if "recursive" in request.query:
                account = {"email": "duetime@example.iam.gserviceaccount.com", "scopes": []}
                return web.json_response(account, headers={"metadata-flavor": "Google"})
            said = "ok"
            if request.path.endswith("/identity"):
                now = int(time.time())
                provider.issued += 1
                claims = {"aud": request.query["audience"], "iat": now, "exp": now + 3600}
                said = jwt.encode(claims, provider.private, "RS256")
                provider.valid.add(said)
            return web.Response(text=said, headers={"metadata-flavor": "Google"})

        metadata.handler = tell
        address = f"127.0.0.1:{metadata.port}"
        monkeypatch.setenv("GCE_METADATA_HOST", address)
        monkeypatch.setenv("GCE_METADATA_IP", address)
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        file = tmp_path / "cloud.toml"
        origin = f"http://127.0.0.1:{receiver.port}"
        file.write_text(f"[[google]]\ntenants = ['default']\nhosts = ['{origin[7:]}']\naudiences = ['{origin}']\n")
        async with targeting(quiet_url, cloud_access=file) as targets:
            target = {"type": "http", "url": receiver.url, "auth": {"type": "oidc_identity"}}
            for _ in range(2):
                run = await targets.ended(target=target)
                assert run["result"]["body"] == "you sent [redacted]", run
            assert provider.issued == 1
            target["auth"] = {"type": "oidc_identity", "audience": "https://other.example.com"}
            answer = await targets.api.post("/v1/jobs", {"target": target})
            assert answer.status == 422 and "for the audience https://other.example.com" in answer.json["detail"]
