"""202: a receiver that finishes later, by its completion link."""

import asyncio

import pytest

from tests.support.receiver import Receiver
from tests.support.targeting import Targeting, targeting

ACCEPTED = (202, {}, b"")


async def handed_over(targets: Targeting, receiver: Receiver, within: str = "1h", **job: object) -> tuple[str, str]:
    """A run that was handed over, and the path of its link."""
    receiver.answers = [ACCEPTED]
    count = len(receiver.requests)
    run_id = await targets.submit(target={"type": "http", "url": receiver.url, "finish_within": within}, **job)
    link = (await receiver.got(count + 1))[-1].headers["duetime-completion"]
    assert link.startswith(f"{targets.api.url}/v1/completions/")

    return run_id, link.removeprefix(targets.api.url)


async def complete(targets: Targeting, path: str, body: object = None) -> tuple[int, object]:
    answer = await targets.api.post(path, body, key=None)
    return answer.status, answer.json


async def test_the_receiver_finishes_the_run_by_its_link_alone(targets: Targeting, receiver: Receiver) -> None:
    run_id, link = await handed_over(targets, receiver)
    body = {"result": {"rows": 7}}
    assert await complete(targets, link, body) == (200, {"run_id": run_id, "status": "SUCCEEDED"})
    assert (await targets.run(run_id))["result"] == {"rows": 7}
    assert (await complete(targets, link, body))[0] == 200, "the answer may have been lost: saying it again is fine"
    assert (await complete(targets, link, {"status": "failed"}))[0] == 409
    assert (await targets.run(run_id))["status"] == "SUCCEEDED"


async def test_the_receiver_says_that_it_failed(targets: Targeting, receiver: Receiver) -> None:
    run_id, link = await handed_over(targets, receiver, retry={"retries": 1, "base": 0.01}, retries=None)
    status, _ = await complete(targets, link, {"status": "failed", "error": "disk full"})
    assert status == 200
    second = (await receiver.got(2))[1].headers
    assert second["duetime-attempt"] == "2" and not second["duetime-completion"].endswith(link)
    assert (await complete(targets, link))[0] == 409, "the link of the first attempt is of no use any more"
    later = second["duetime-completion"].removeprefix(targets.api.url)
    assert (await complete(targets, later, {"status": "failed", "error": "no", "retry": False}))[0] == 200
    run = await targets.run(run_id)
    assert (run["status"], run["failure"], run["error"]) == ("FAILED", "target_refused", "no")


async def test_past_its_deadline_it_fails(targets: Targeting, receiver: Receiver) -> None:
    run_id, _ = await handed_over(targets, receiver, "100ms")
    run = await targets.until(run_id)
    assert (run["status"], run["failure"]) == ("FAILED", "timeout")
    assert "receiver" in run["error"]


async def test_it_outlives_its_worker(database_url: str, receiver: Receiver) -> None:
    async with targeting(database_url) as targets:
        run_id, link = await handed_over(targets, receiver)

        async def left_its_claim() -> bool:
            return "handed over" in ((await targets.run(run_id)).get("message") or "")

        async with asyncio.timeout(20):
            while not await left_its_claim():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    async with targeting(database_url, worker=False) as targets:
        await asyncio.sleep(0.5)
        assert (await targets.run(run_id))["status"] == "RUNNING"
        assert (await complete(targets, link))[0] == 200
        assert (await targets.run(run_id))["status"] == "SUCCEEDED"


async def test_cancelling_does_not_wait_for_the_receiver(targets: Targeting, receiver: Receiver) -> None:
    run_id, link = await handed_over(targets, receiver)
    await targets.api.post(f"/v1/runs/{run_id}/cancel")
    assert (await targets.until(run_id))["status"] == "CANCELLED"
    assert (await complete(targets, link))[0] == 409


async def test_202_alone_is_a_success(targets: Targeting, receiver: Receiver) -> None:
    receiver.answers = [ACCEPTED]
    run = await targets.ended(target={"type": "http", "url": receiver.url})
    assert run["status"] == "SUCCEEDED"
    assert "duetime-completion" not in receiver.requests[0].headers


@pytest.mark.parametrize(
    "change", [lambda t: t[:9] + "xx" + t[11:], lambda t: "A" + t[1:], lambda t: "", lambda t: "%00", str]
)
async def test_nobody_guesses_a_link(targets: Targeting, receiver: Receiver, change: object) -> None:
    _, link = await handed_over(targets, receiver)
    token = link.rpartition("/")[2]
    forged = change(token)  # type: ignore[operator]
    status, _ = await complete(targets, f"/v1/completions/{forged}")
    assert status == (200 if forged == token else 404)
