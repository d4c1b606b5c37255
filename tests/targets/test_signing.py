"""Signatures, checked by a library that is not ours; and the secrets behind them."""

from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from duetime.model.access import Role
from tests.support.receiver import Received, Receiver
from tests.support.served import OTHER_KEY, Answer
from tests.support.targeting import Targeting, targeting


def verify(secret: str, request: Received, body: bytes | None = None) -> None:
    Webhook(secret).verify((request.body if body is None else body).decode(), dict(request.headers))


async def rotate(targets: Targeting, overlap: str = "1h") -> str:
    answer = await targets.api.post("/v1/signing-secrets/rotate", {"overlap": overlap})
    assert answer.status == 201, answer.json
    secret: str = answer.json["secret"]
    return secret


async def put_secret(targets: Targeting, name: str, value: str, receiver: Receiver, **what: Any) -> Answer:
    body = {"value": value, "hosts": [f"127.0.0.1:{receiver.port}"], **what}
    return await targets.api.ask("PUT", f"/v1/secrets/{name}", body)


async def test_an_independent_library_accepts_what_we_sign(targets: Targeting, receiver: Receiver) -> None:
    secret = await rotate(targets)
    await targets.ended(callback_url=receiver.url, args={"order": 7, "to": "Zoë"})
    (request,) = receiver.requests
    verify(secret, request)
    for wrong in (b'{"order": 8}', request.body + b" "):
        with pytest.raises(WebhookVerificationError):
            verify(secret, request, wrong)


async def test_old_and_new_secrets_sign_along(targets: Targeting, receiver: Receiver) -> None:
    first = await rotate(targets)
    second = await rotate(targets)
    await targets.ended(callback_url=receiver.url)
    for secret in (first, second):
        verify(secret, receiver.requests[0])
    third = await rotate(targets, "0s")
    listed = (await targets.api.get("/v1/signing-secrets")).json["items"]
    assert [each["expires_at"] for each in listed] == [None]
    assert all("secret" not in each for each in listed), "a secret is shown once"
    assert third != second


async def test_a_new_secret_signs_where_the_old_one_cannot_be_opened_any_more(
    database_url: str, receiver: Receiver
) -> None:
    async with targeting(database_url, worker=False) as targets:
        await rotate(targets)
    async with targeting(database_url, encryption_keys=(OTHER_KEY,)) as targets:
        failed = await targets.ended(callback_url=receiver.url)
        assert "which this process does not have" in failed["error"] and not receiver.requests
        secret = await rotate(targets)
        assert (await targets.ended(callback_url=receiver.url))["status"] == "SUCCEEDED"
    verify(secret, receiver.requests[0])


async def test_every_tenant_has_its_own(targets: Targeting, receiver: Receiver) -> None:
    other = await targets.api.tenant("other")
    key = await targets.api.key(Role.ADMIN, other.id)
    secret = await rotate(targets)
    theirs = (await targets.api.post("/v1/signing-secrets/rotate", key=key)).json["secret"]
    assert (await targets.api.post("/v1/jobs", {"callback_url": receiver.url}, key=key)).status == 201
    (request,) = await receiver.got(1)
    verify(theirs, request)
    with pytest.raises(WebhookVerificationError):
        verify(secret, request)


async def test_requests_are_signed_before_anybody_asked_for_a_secret(targets: Targeting, receiver: Receiver) -> None:
    await targets.ended(callback_url=receiver.url)
    secret = await rotate(targets)
    assert len((await targets.api.get("/v1/signing-secrets")).json["items"]) == 2
    with pytest.raises(WebhookVerificationError):
        verify(secret, receiver.requests[0])


async def test_headers_name_secrets_that_nobody_can_read(targets: Targeting, receiver: Receiver) -> None:
    put = await put_secret(targets, "crm.token", "s3cr3t-value", receiver)
    assert put.status == 200, put.json
    headers = {"Authorization": {"secret": "crm.token", "prefix": "Bearer "}}
    run = await targets.ended(target={"type": "http", "url": receiver.url, "headers": headers})
    assert run["status"] == "SUCCEEDED"
    assert receiver.requests[0].headers["authorization"] == "Bearer s3cr3t-value"
    shown = [await targets.api.get(path) for path in ("/v1/secrets", f"/v1/jobs/{run['job_id']}", "/v1/audit")]
    assert all(answer.status == 200 and b"s3cr3t" not in answer.body for answer in shown)
    assert [each["name"] for each in shown[0].json["items"]] == ["crm.token"]
    assert (await targets.api.get("/v1/secrets/crm.token")).status == 405
    stored = await targets.api.store.secrets.tenant_secret(1, "crm.token")
    assert b"s3cr3t" not in stored.value, "it is encrypted at rest"


async def test_a_secret_that_is_not_there_is_refused_and_one_that_went_fails_the_attempt(
    targets: Targeting, receiver: Receiver
) -> None:
    target = {"type": "http", "url": receiver.url, "headers": {"X-Key": {"secret": "gone"}}}
    answer = await targets.api.post("/v1/jobs", {"target": target})
    assert (answer.status, answer.json["field"]) == (422, "target.headers.X-Key")
    assert "PUT /v1/secrets/gone" in answer.json["remedy"]
    assert (await put_secret(targets, "gone", "s3cr3t-value", receiver)).status == 200
    made = (await targets.api.post("/v1/jobs", {"target": target, "every": "1h", "retries": 0})).json
    assert (await targets.api.ask("DELETE", "/v1/secrets/gone")).status == 200
    started = (await targets.api.post(f"/v1/jobs/{made['job_id']}/trigger")).json
    run = await targets.until(started["run_id"])
    assert (run["status"], run["failure"]) == ("FAILED", "error")
    assert "there is no secret 'gone'" in run["error"] and receiver.requests == []


@pytest.mark.parametrize(
    "value", ["", "too-few", "a\nb-and-more", "a\r\nX-Injected: 1", "\x00-and-more", "x" * 8001, "snow\u2603-and-more"]
)
async def test_a_secret_must_fit_a_header(targets: Targeting, value: str) -> None:
    answer = await targets.api.ask("PUT", "/v1/secrets/bad", {"value": value, "hosts": ["api.example.com"]})
    assert (answer.status, answer.json["field"]) == (422, "value")


async def test_without_an_encryption_key_no_secret_is_taken(database_url: str) -> None:
    async with targeting(database_url, encryption_keys=(), worker=False) as targets:
        answer = await targets.api.ask("PUT", "/v1/secrets/x", {"value": "s3cr3t-value", "hosts": ["api.example.com"]})
        assert answer.status == 409 and "encryption_keys" in answer.json["remedy"]
        answer = await targets.api.post("/v1/signing-secrets/rotate")
        assert (answer.status, answer.code) == (409, "encryption_key_missing")
