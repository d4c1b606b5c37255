"""Failures as events of Sentry: a program with the real SDK, whose transport posts to a receiver of the test's own."""

import asyncio
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from duetime import App, InvalidInput
from duetime.integrations import sentry
from tests.support.receiver import receiving

ROOT = Path(__file__).parents[2]
CARD = "4111-1111"


async def events_of_program() -> tuple[list[dict[str, Any]], str]:
    """The events that the program sends, and everything that it sends as text."""
    async with receiving() as receiver:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.reporting", f"http://key@127.0.0.1:{receiver.port}/7"),
            cwd=ROOT,
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await program.communicate()
        assert program.returncode == 0, errors.decode()
        bodies = [
            gzip.decompress(each.body) if each.body.startswith(b"\x1f\x8b") else each.body for each in receiver.requests
        ]
    lines = [json.loads(line) for body in bodies for line in body.splitlines() if line]
    return [line for line in lines if "platform" in line], b"\n".join(bodies).decode()


def tag(event: dict[str, Any], name: str) -> str | None:
    found: str | None = event.get("tags", {}).get(f"duetime.{name}")
    return found


async def test_each_run_that_failed_becomes_one_event_without_its_arguments() -> None:
    events, text = await events_of_program()
    more = [event for event in events if tag(event, "task") == "asked_for"]
    events = [event for event in events if event not in more]
    failures = {tag(event, "task"): event for event in events if "exception" in event}
    assert len(events) == 5, [event.get("exception") or event.get("message") for event in events]
    assert set(failures) == {"in_the_loop", "in_a_thread", "in_a_process", "slow"}
    for task, event in failures.items():
        [raised] = event["exception"]["values"]
        assert (event["level"], event["transaction"]) == ("error", task)
        assert (tag(event, "attempt"), tag(event, "tenant_id")) == ("1" if task == "slow" else "2", "1")
        assert str(tag(event, "run_id")).startswith("run_") and str(tag(event, "job_id")).startswith("job_")
        if task == "slow":
            assert (raised["type"], "longer than its timeout" in raised["value"]) == ("timeout", True)
        else:
            assert (raised["type"], raised["value"]) == ("LookupError", "no such card")
    for task in ("in_the_loop", "in_a_thread"):
        frames = failures[task]["exception"]["values"][0]["stacktrace"]["frames"]
        assert frames[-1]["function"] == "fail"
        assert "charging" in str(failures[task]["breadcrumbs"]), "what the task did before belongs to the event"
    assert "in fail" in failures["in_a_process"]["extra"]["traceback"]
    [message] = [event for event in events if event.get("message") == "all is well"]
    assert (tag(message, "task"), tag(message, "attempt")) == ("good", "1"), "the task's own events are tagged too"
    assert CARD not in text
    ends = sorted((event["level"], tag(event, "attempt")) for event in more)
    assert ends == [("error", "2"), ("warning", "1")], "retries only if they are asked for"
    assert [event["contexts"]["duetime"]["args"] for event in more] == [{"card": "5500-0000"}] * 2, "and arguments"


def test_it_is_installed_once() -> None:
    app = App()
    sentry.install(app)
    with pytest.raises(InvalidInput, match="Sentry is already installed in this app"):
        sentry.install(app)
