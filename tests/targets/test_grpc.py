"""gRPC targets, from the API to a real server and back."""

import socket

import pytest

from tests.support.greeter import DESCRIPTORS, greeting
from tests.support.targeting import Targeting, targeting

METHOD = "shop.Greeter/Greet"


async def test_a_call_by_reflection(targets: Targeting) -> None:
    async with greeting() as greeter:
        body = {"value": "s3cr3t-value", "hosts": [greeter.address]}
        assert (await targets.api.ask("PUT", "/v1/secrets/token", body)).status == 200
        metadata = {"X-Team": "billing", "authorization": {"secret": "token", "prefix": "Bearer "}}
        target = {"type": "grpc", "address": greeter.address, "method": METHOD, "tls": False, "metadata": metadata}
        run = await targets.ended(target={**target, "message": {"name": "Zoë", "count": 2}})
        assert run["status"] == "SUCCEEDED", run
        assert run["result"] == {"code": "OK", "message": {"text": "hello Zoëhello Zoë"}, "truncated": False}
        assert run["task"] == f"duetime.grpc/{greeter.address}"
        (said,) = greeter.metadata
        assert (said["x-team"], said["authorization"]) == ("billing", "Bearer s3cr3t-value")
        assert said["idempotency-key"] == said["webhook-id"] == run["run_id"]
        assert said["duetime-attempt"] == "1" and said["traceparent"] and said["webhook-signature"]


async def test_a_call_by_descriptors_needs_no_reflection(quiet_url: str) -> None:
    async with greeting(reflects=False) as greeter, targeting(quiet_url) as targets:
        target = {"type": "grpc", "address": greeter.address, "method": METHOD, "tls": False}
        run = await targets.ended(target={**target, "descriptors": DESCRIPTORS, "message": {"name": "you"}})
        assert run["result"]["message"] == {"text": "hello you"}
        run = await targets.ended(target=target)
        assert run["status"] == "FAILED", "without descriptors the server has to be asked, and it does not say"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"message": {"nobody": 1}}, "target.message"),
        ({"message": {"count": "many"}}, "target.message"),
        ({"method": "shop.Greeter/Nothing"}, "target.method"),
        ({"method": "shop.Greeter/Stream"}, "target.method"),
        ({"method": "Greet"}, "target.method"),
        ({"method": "shop.Greeter/Gre\net"}, "target.method"),
        ({"descriptors": "!!"}, "target.descriptors"),
        ({"metadata": {"x-bin": "a"}}, "target.metadata.x-bin"),
        ({"metadata": {"grpc-timeout": "1S"}}, "target.metadata.grpc-timeout"),
        ({"address": "example.com"}, "target.address"),
    ],
)
async def test_what_can_be_seen_is_refused_at_submission(quiet_url: str, change: dict[str, object], field: str) -> None:
    async with targeting(quiet_url, worker=False) as targets:
        target = {"type": "grpc", "address": "example.com:443", "method": METHOD, "descriptors": DESCRIPTORS, **change}
        answer = await targets.api.post("/v1/jobs", {"target": target})
        assert (answer.status, answer.json["field"]) == (422, field), answer.json


async def test_status_codes_mean_retry_or_give_up(quiet_url: str) -> None:
    again = {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "INTERNAL", "UNKNOWN", "DEADLINE_EXCEEDED", "DATA_LOSS"}
    never = {"INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "UNAUTHENTICATED"}
    never |= {"FAILED_PRECONDITION", "OUT_OF_RANGE", "UNIMPLEMENTED"}
    async with greeting() as greeter, targeting(quiet_url) as targets:
        for code in sorted(again | never):
            target = {"type": "grpc", "address": greeter.address, "method": METHOD, "tls": False}
            retry = {"retries": 1, "base": 60}  # it is tried again at once, because the server asks for that
            run = await targets.ended(target={**target, "message": {"fail_with": code}}, retry=retry, retries=None)
            assert (run["status"], run["attempt"]) == ("FAILED", 2 if code in again else 1), code
            assert code in run["error"]


async def test_a_server_that_hangs_has_a_deadline(quiet_url: str) -> None:
    async with greeting() as greeter, targeting(quiet_url) as targets:
        target = {"type": "grpc", "address": greeter.address, "method": METHOD, "tls": False}
        run = await targets.ended(target={**target, "message": {"fail_with": "HANG"}}, timeout="300ms")
        assert (run["status"], run["failure"]) == ("FAILED", "timeout") or "DEADLINE" in run["error"]


async def test_names_are_resolved_by_us_and_judged(quiet_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = ["127.0.0.1"]
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("grpc_proxy", "http://127.0.0.1:1")

    async def lookup(host: str, port: int) -> list[tuple[int, str]]:
        return [(socket.AF_INET, text) for text in answers]

    async with greeting() as greeter:
        target = {"type": "grpc", "address": f"greeter.example:{greeter.port}", "method": METHOD, "tls": False}
        async with targeting(quiet_url, lookup=lookup) as targets:
            assert (await targets.ended(target=target))["status"] == "SUCCEEDED"
        async with targeting(quiet_url, lookup=lookup, allowed_networks=()) as targets:
            run = await targets.ended(target=target)
        assert (run["failure"], len(greeter.asked)) == ("network", 1)
        assert "greeter.example has a non-public address" in run["error"] and "127.0" not in run["error"]


AGAIN = {"retry": {"retries": 2, "base": 0.01}, "retries": None}


@pytest.mark.parametrize("told", [True, False], ids=["descriptors", "reflection"])
async def test_a_message_inside_a_message_is_read_by_the_methods_own_descriptors(quiet_url: str, told: bool) -> None:
    async with greeting() as greeter, targeting(quiet_url) as targets:
        target = {"type": "grpc", "address": greeter.address, "method": "shop.Greeter/Wrap", "tls": False}
        run = await targets.ended(target=target | ({"descriptors": DESCRIPTORS} if told else {}), **AGAIN)
        assert (run["status"], len(greeter.asked)) == ("SUCCEEDED", 1), run["error"]
        inside = {"@type": "type.googleapis.com/shop.Answer", "text": "inside"}
        assert run["result"] == {"code": "OK", "message": {"content": inside}, "truncated": False}


@pytest.mark.parametrize(("name", "status"), [("shop.Answer", 201), ("shop.Nowhere", 422)])
async def test_a_request_may_hold_a_message_of_its_own_descriptors(quiet_url: str, name: str, status: int) -> None:
    async with targeting(quiet_url, worker=False) as targets:
        target = {"type": "grpc", "address": "127.0.0.1:1", "method": "shop.Greeter/Unwrap", "descriptors": DESCRIPTORS}
        inside = {"@type": f"type.googleapis.com/{name}", "text": "inside"}
        answer = await targets.api.post("/v1/jobs", {"target": {**target, "message": {"content": inside}}})
        assert answer.status == status, answer.json


@pytest.mark.parametrize(("name", "why"), [("shop.Nowhere", "shop.Nowhere"), ("broken", "DecodeError")])
async def test_an_answer_that_cannot_be_read_is_no_reason_to_call_again(quiet_url: str, name: str, why: str) -> None:
    """The status was OK: the server has done it."""
    async with greeting() as greeter, targeting(quiet_url) as targets:
        target = {"type": "grpc", "address": greeter.address, "method": "shop.Greeter/Wrap", "tls": False}
        run = await targets.ended(target={**target, "message": {"name": name}}, **AGAIN)
        assert (run["status"], len(greeter.asked)) == ("SUCCEEDED", 1), run["error"]
        unreadable = run["result"].pop("unreadable")
        assert run["result"] == {"code": "OK", "message": None, "truncated": True} and why in unreadable


async def test_an_answer_that_is_too_large_is_no_reason_to_call_again(quiet_url: str) -> None:
    async with greeting() as greeter, targeting(quiet_url) as targets:
        target = {"type": "grpc", "address": greeter.address, "method": METHOD, "tls": False}
        for count in (50_000, 1_000_000):  # more than a result may hold, and more than is taken in at all
            run = await targets.ended(target={**target, "message": {"name": "you", "count": count}}, **AGAIN)
            assert (run["status"], run["attempt"]) == ("SUCCEEDED", 1), run["error"]
            assert run["result"] == {"code": "OK", "message": None, "truncated": True}
        assert len(greeter.asked) == 2
