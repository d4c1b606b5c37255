"""HTTP targets, from the API to a real receiver and back."""

import asyncio

import pytest
from aiohttp import web

from tests.support.lying import Lie
from tests.support.receiver import Receiver
from tests.support.targeting import Targeting
from tests.support.waiting import eventually


async def test_a_job_calls_its_target_and_keeps_the_answer(targets: Targeting, receiver: Receiver) -> None:
    receiver.answers = [(200, {"content-type": "text/plain"}, b"hello back")]
    headers = {"X-Team": "billing"}
    target = {"type": "http", "url": f"{receiver.url}?a=1", "method": "PUT", "headers": headers, "body": {"to": "you"}}
    run = await targets.ended(target=target)
    assert run["status"] == "SUCCEEDED"
    assert run["result"] == {"status": 200, "content_type": "text/plain", "body": "hello back", "truncated": False}
    assert run["task"] == f"duetime.http/127.0.0.1:{receiver.port}"
    (request,) = receiver.requests
    assert (request.method, request.path, request.json) == ("PUT", "/hook?a=1", {"to": "you"})
    said = request.headers
    assert (said["x-team"], said["content-type"]) == ("billing", "application/json")
    assert said["webhook-id"] == said["idempotency-key"] == run["run_id"]
    assert (said["duetime-job"], said["duetime-attempt"]) == (run["job_id"], "1")
    assert said["duetime-due-at"].startswith(run["due_at"][:19])
    assert said["traceparent"].startswith("00-") and said["webhook-signature"].startswith("v1,")


async def test_a_callback_url_gets_the_arguments(targets: Targeting, receiver: Receiver) -> None:
    run = await targets.ended(callback_url=receiver.url, args={"order": 7})
    assert run["status"] == "SUCCEEDED"
    assert (receiver.requests[0].method, receiver.requests[0].json) == ("POST", {"order": 7})
    job = (await targets.api.get(f"/v1/jobs/{run['job_id']}")).json
    assert job["args"] == {}
    assert job["target"] == {"type": "http", "url": receiver.url, "body": {"order": 7}}


@pytest.mark.parametrize("body", ["plain text", "", None, [1, 2], {"a": None}])
async def test_bodies(targets: Targeting, receiver: Receiver, body: object) -> None:
    await targets.ended(target={"type": "http", "url": receiver.url, "body": body})
    (request,) = receiver.requests
    if isinstance(body, str):
        assert request.body == body.encode()
    else:
        assert request.json == body and request.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("status", "failure", "attempts"),
    [
        *((status, "target_refused", 1) for status in (302, 400, 404)),
        *((status, "target_failed", 2) for status in (408, 425, 429, 500, 503)),
    ],
)
async def test_what_an_answer_means(
    targets: Targeting, receiver: Receiver, status: int, failure: str, attempts: int
) -> None:
    receiver.answers = [(status, {"location": "http://127.0.0.1:1/elsewhere"}, b"no")]
    retry = {"retries": 1, "base": 0.01}
    run = await targets.ended(target={"type": "http", "url": receiver.url}, retry=retry, retries=None)
    assert (run["status"], run["failure"], run["attempt"]) == ("FAILED", failure, attempts)
    assert len(receiver.requests) == attempts
    assert str(status) in run["error"]


async def test_a_receiver_that_is_away_is_tried_again(targets: Targeting) -> None:
    target = {"type": "http", "url": "http://127.0.0.1:1/hook"}
    run = await targets.ended(target=target, retry={"retries": 1, "base": 0.01}, retries=None)
    assert (run["status"], run["failure"], run["attempt"]) == ("FAILED", "network", 2)


async def test_retry_after_is_obeyed(targets: Targeting, receiver: Receiver) -> None:
    receiver.answers = [(503, {"retry-after": "3600"}, b""), (200, {}, b"")]
    retry = {"retries": 3, "base": 0.01}
    run_id = await targets.submit(target={"type": "http", "url": receiver.url}, retry=retry, retries=None)
    run = await targets.until(run_id, "RETRYING")
    await asyncio.sleep(0.3)
    run = await targets.run(run_id)
    assert run["status"] == "RETRYING", "the policy's backoff would have been over long ago"
    assert run["ready_at"] > run["due_at"]
    assert len(receiver.requests) == 1


async def test_410_pauses_the_job(targets: Targeting, receiver: Receiver) -> None:
    receiver.answers = [(410, {}, b"gone")]
    answer = await targets.api.post("/v1/jobs", {"callback_url": receiver.url, "every": "1s", "retries": 5})
    job_id = answer.json["job_id"]
    await receiver.got(1)

    async def paused() -> bool:
        return (await targets.api.get(f"/v1/jobs/{job_id}")).json["status"] == "PAUSED"

    await eventually(paused)

    async def refused() -> bool:
        runs = (await targets.api.get(f"/v1/jobs/{job_id}/runs")).json["items"]
        return bool(runs) and runs[-1]["failure"] == "target_refused"

    await eventually(refused)  # the job is paused before its run is completed


async def test_a_header_that_is_no_text_is_no_reason_to_call_again(targets: Targeting) -> None:
    """The receiver has done it, and said so."""
    asked = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"\r\n\r\n")
        asked += 1
        writer.write(b"HTTP/1.1 200 Fin\xe9\r\nContent-Type: text/plain; name=\xff\r\nContent-Length: 4\r\n\r\ndone")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as receiver:
        port = receiver.sockets[0].getsockname()[1]
        target = {"type": "http", "url": f"http://127.0.0.1:{port}/hook"}
        run = await targets.ended(target=target, retry={"retries": 2, "base": 0.01}, retries=None)
    assert (run["status"], asked) == ("SUCCEEDED", 1), run["error"]
    said = "text/plain; name=\\udcff"
    assert run["result"] == {"status": 200, "content_type": said, "body": "done", "truncated": False}


async def test_an_answer_without_an_end_is_cut(targets: Targeting, receiver: Receiver) -> None:
    async def for_ever(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65536)

    receiver.handler = for_ever
    run = await targets.ended(target={"type": "http", "url": receiver.url})
    assert run["status"] == "SUCCEEDED"
    assert run["result"]["truncated"] and len(run["result"]["body"]) == 16 * 1024


async def test_the_whole_answer_has_one_deadline(targets: Targeting, receiver: Receiver) -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.05)

    receiver.handler = drip
    run = await targets.ended(target={"type": "http", "url": receiver.url}, timeout="300ms")
    assert (run["status"], run["failure"]) == ("FAILED", "timeout")


async def test_a_store_that_is_away_before_the_call_costs_no_attempt(targets: Targeting, receiver: Receiver) -> None:
    lie = Lie(targets.api.store, "signing_secrets")
    run = await targets.ended(target={"type": "http", "url": receiver.url}, retries=0)
    assert lie.told
    assert (run["status"], run["attempt"], len(receiver.requests)) == ("SUCCEEDED", 1, 1)
