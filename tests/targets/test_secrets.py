"""Secrets go to the hosts that they are bound to, for those who may name them, and are shown nowhere."""

import asyncio
import logging
from base64 import b64encode
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from duetime import App
from duetime.model.access import Role
from duetime.model.run import RunState
from tests.support.greeter import greeting
from tests.support.receiver import Receiver, receiving
from tests.support.served import Answer
from tests.support.targeting import Targeting

VALUE = "s3cr3t/value+x"
METHOD = "shop.Greeter/Greet"


def using(receiver: Receiver, name: str = "crm", path: str = "hook") -> dict[str, Any]:
    url = f"http://127.0.0.1:{receiver.port}/{path}"
    return {"type": "http", "url": url, "headers": {"Authorization": {"secret": name, "prefix": "Bearer "}}}


async def put(targets: Targeting, *hosts: str, name: str = "crm", **what: Any) -> Answer:
    body = {"value": VALUE, "hosts": list(hosts), **what}
    return await targets.api.ask("PUT", f"/v1/secrets/{name}", body)


async def bound(targets: Targeting, receiver: Receiver, **what: Any) -> None:
    answer = await put(targets, f"127.0.0.1:{receiver.port}", **what)
    assert answer.status == 200, answer.json


async def test_a_secret_says_where_it_may_be_sent(targets: Targeting) -> None:
    for body, field in (
        ({"value": VALUE}, "hosts"),
        ({"value": VALUE, "hosts": []}, "hosts"),
        ({"value": VALUE, "hosts": ["*"]}, "hosts[0]"),
        ({"value": VALUE, "hosts": ["api.example.com", "https://x.example"]}, "hosts[1]"),
        ({"value": VALUE, "hosts": ["api.example.com"], "roles": ["viewer"]}, "roles[0]"),
    ):
        answer = await targets.api.ask("PUT", "/v1/secrets/crm", body)
        assert (answer.status, answer.json["field"]) == (422, field), answer.json
    assert (await targets.api.get("/v1/secrets")).json["items"] == []


async def test_what_is_told_of_a_secret(targets: Targeting) -> None:
    answer = await put(targets, "API.example.com", "*.example.com:8443", roles=["admin"])
    assert (answer.json["hosts"], answer.json["roles"]) == (["api.example.com", "*.example.com:8443"], ["admin"])
    (listed,) = (await targets.api.get("/v1/secrets")).json["items"]
    assert (listed["hosts"], listed["roles"]) == (answer.json["hosts"], ["admin"])


async def test_a_submitter_cannot_send_a_secret_to_a_host_of_its_choice(targets: Targeting, receiver: Receiver) -> None:
    await bound(targets, receiver)
    key = await targets.api.key(Role.SUBMITTER)
    operator = await targets.api.key(Role.OPERATOR)
    async with receiving() as thief:
        allowed, stolen = using(receiver), using(thief)
        asked: list[tuple[str, str, Any, str]] = [
            ("POST", "/v1/jobs", {"target": stolen}, "target.headers.Authorization"),
            ("POST", "/v1/graphs", {"nodes": {"a": {"target": stolen}}}, "nodes.a.target.headers.Authorization"),
        ]
        for method, path, body, field in asked:
            answer = await targets.api.ask(method, path, body, key=key)
            assert (answer.status, answer.json["field"]) == (422, field), answer.json
            assert f"127.0.0.1:{receiver.port}" in answer.json["remedy"]
        answer = await targets.api.post("/v1/jobs/batch", [{"target": stolen}], key=key)
        assert answer.json["errors"][0]["field"] == "target.headers.Authorization", answer.json
        made = await targets.api.post("/v1/jobs", {"target": allowed, "every": "1h"}, key=key)
        assert made.status == 201, made.json
        answer = await targets.api.ask("PATCH", f"/v1/jobs/{made.json['job_id']}", {"target": stolen}, key=operator)
        assert (answer.status, answer.json["field"]) == (422, "target.headers.Authorization")
        assert thief.requests == []


async def test_a_job_that_was_stored_before_is_checked_when_it_is_called(
    targets: Targeting, receiver: Receiver
) -> None:
    await bound(targets, receiver)
    made = await targets.api.post("/v1/jobs", {"target": using(receiver), "every": "1h", "retries": 0})
    await put(targets, "api.example.com")
    started = await targets.api.post(f"/v1/jobs/{made.json['job_id']}/trigger")
    run = await targets.until(started.json["run_id"])
    assert (run["status"], run["failure"]) == ("FAILED", "target_refused")
    assert "the secret 'crm' may not be sent to 127.0.0.1" in run["error"] and receiver.requests == []


async def test_a_redirect_takes_no_secret_along(targets: Targeting, receiver: Receiver) -> None:
    await bound(targets, receiver)
    async with receiving() as thief:
        receiver.answers = [(307, {"location": f"{thief.url}?token={VALUE}"}, b"")]
        run = await targets.ended(target=using(receiver))
        assert run["status"] == "FAILED" and "redirects are not followed" in run["error"]
        assert VALUE not in run["error"] and "[redacted]" in run["error"]
        assert len(receiver.requests) == 1 and thief.requests == []


async def test_only_those_who_may_name_a_secret_do(targets: Targeting, receiver: Receiver) -> None:
    await bound(targets, receiver, roles=["operator"])
    for role, may in ((Role.SUBMITTER, False), (Role.ADMIN, False), (Role.OPERATOR, True), (Role.ROOT, True)):
        key = await targets.api.key(role)
        answer = await targets.api.post("/v1/jobs", {"target": using(receiver), "every": "1h"}, key=key)
        assert (answer.status == 201) is may, answer.json
        if not may:
            assert answer.json["field"] == "target.headers.Authorization" and "operator" in answer.json["remedy"]
    key = await targets.api.key(Role.SUBMITTER)
    for roles, status in (([], 201), (["admin"], 422)):
        await bound(targets, receiver, roles=roles)
        answer = await targets.api.post("/v1/jobs", {"target": using(receiver), "every": "1h"}, key=key)
        assert answer.status == status, "what was set holds at once"


async def told_everywhere(targets: Targeting, run: Any) -> bytes:
    """Everything that the API says of a run."""
    asked = (f"/v1/runs/{run['run_id']}", f"/v1/jobs/{run['job_id']}", "/v1/dead-letters", "/v1/runs", "/v1/audit")
    return b"".join([(await targets.api.get(path)).body for path in asked])


async def test_what_a_receiver_echoes_is_redacted(
    targets: Targeting, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await bound(targets, receiver)
    encoded = b64encode(f"Bearer {VALUE}".encode()).decode()
    status = 200

    async def echo(request: web.Request) -> web.Response:
        said = request.headers["authorization"]
        text = f"{said} {encoded} s3cr3t%2Fvalue%2Bx {'x' * 450} {said}"
        headers = {"location": f"https://example.com/{said}", "content-type": f'text/plain; a="{VALUE}"'}
        return web.Response(status=status, body=text.encode(), headers=headers, reason=f"No {VALUE}")

    receiver.handler = echo
    for status in (200, 500, 404, 302):  # noqa: B007 - the handler answers it
        run = await targets.ended(target=using(receiver))
        assert receiver.requests[-1].headers["authorization"] == f"Bearer {VALUE}"
        said = (await told_everywhere(targets, run)).decode() + caplog.text
        assert "[redacted]" in said
        for trace in ("s3cr3t", encoded[10:18]):
            assert trace not in said, said


async def test_an_answer_that_is_cut_in_a_secret_shows_nothing_of_it(targets: Targeting, receiver: Receiver) -> None:
    await bound(targets, receiver)
    most = targets.api.service.settings.max_response
    receiver.answers = [(200, {}, b"x" * (most - 8) + VALUE.encode())]
    run = await targets.ended(target=using(receiver))
    assert run["result"]["truncated"] and "s3cr3t" not in run["result"]["body"]


async def test_a_completion_is_redacted(targets: Targeting, receiver: Receiver) -> None:
    await bound(targets, receiver)
    receiver.answers = [(202, {}, b"")]
    submitted = [await targets.submit(target={**using(receiver), "finish_within": "1h"}) for _ in range(2)]
    requests = await receiver.got(2)
    bodies: list[Any] = [
        {"status": "succeeded", "result": {VALUE: [f"Bearer {VALUE}"]}},
        {"status": "failed", "error": f"wrong token {VALUE}", "retry": False},
    ]
    for request, body in zip(requests, bodies, strict=True):
        body = {**body, "result": {"link": request.headers["duetime-completion"], **(body.get("result") or {})}}
        async with aiohttp.ClientSession() as http, http.post(request.headers["duetime-completion"], json=body) as said:
            assert said.status == 200, await said.text()
    ended = await asyncio.gather(*(targets.until(run_id) for run_id in submitted))
    assert sorted(run["status"] for run in ended) == ["FAILED", "SUCCEEDED"]
    for run, request in zip(ended, requests, strict=True):
        said = await told_everywhere(targets, run)
        assert b"[redacted]" in said and VALUE.encode() not in said
        assert request.headers["duetime-completion"].rpartition("/")[2].encode() not in said


async def test_grpc_metadata_is_bound_and_redacted(targets: Targeting, receiver: Receiver) -> None:
    async with greeting() as greeter:
        target = {"type": "grpc", "address": greeter.address, "method": METHOD, "tls": False}
        target |= {"metadata": {"authorization": {"secret": "crm"}}, "message": {"name": VALUE}}
        await bound(targets, receiver)
        answer = await targets.api.post("/v1/jobs", {"target": target})
        assert (answer.status, answer.json["field"]) == (422, "target.metadata.authorization")
        assert (await put(targets, greeter.address)).status == 200
        run = await targets.ended(target=target)
        assert run["result"]["message"] == {"text": "hello [redacted]"}, run


async def test_an_app_on_the_database_is_held_to_the_hosts_too(targets: Targeting, receiver: Receiver) -> None:
    """It has no role and no server that checks what it submits: the host is checked when it is called."""
    await bound(targets, receiver)
    app = App(settings=targets.api.service.settings)
    async with receiving() as thief:
        with app.using_store(targets.api.store):
            receipt = await app.submit(using(thief), retries=0)
            run = await app.wait(receipt, "20s")
        assert run.state is RunState.FAILED and "may not be sent to 127.0.0.1" in (run.error or "")
        assert thief.requests == []
