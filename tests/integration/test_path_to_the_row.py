"""How many functions a submission passes on its way to the row: a newcomer reads these, and each costs time."""

import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

import duetime
from duetime import App
from tests.support.served import serving

SOURCES = duetime.__path__[0]
ROW = "Database.fetchval"
"""Sends the statement that stores the job."""


async def path_of(submit: Callable[[], Awaitable[object]], *hops: str) -> list[str]:
    """The functions that lead to the row. A path that goes on in another task is followed at `hops`."""
    stacks: dict[str, list[str]] = {}

    def note(frame: FrameType | None, event: str, _: Any) -> None:
        if event != "call" or frame is None or frame.f_code.co_qualname not in (*hops, ROW):
            return
        name, found = frame.f_code.co_qualname, []
        while frame is not None:
            if frame.f_code.co_filename.startswith(SOURCES):
                found.append(frame.f_code.co_qualname)
            frame = frame.f_back
        stacks.setdefault(name, found[::-1])

    sys.setprofile(note)
    try:
        await submit()
    finally:
        sys.setprofile(None)
    return [*dict.fromkeys(name for hop in (*hops, ROW) for name in stacks[hop])]


async def test_functions_between_a_submission_and_its_row(postgres_app: App) -> None:
    app = postgres_app

    @app.task(name="greet")
    async def greet(name: str) -> None: ...

    async with serving(await app.store(), app.settings) as served:
        body = {"task": "greet", "args": {"name": "x"}}
        await app.submit("greet", {"name": "x"})  # lanes and queues are known from here on
        await served.post("/v1/jobs", body)
        in_the_app = await path_of(
            lambda: app.submit("greet", {"name": "x"}), "Submission.submit", "Submission._submit"
        )
        over_http = await path_of(
            lambda: served.post("/v1/jobs", body),
            *("SubmitBatcher.submit", "SubmitBatcher._store_queue", "SubmitBatcher._store_jobs"),
        )
    assert (in_the_app[0], in_the_app[-1]) == ("Submission.submit", ROW) and len(in_the_app) <= 12, in_the_app
    assert (over_http[0], over_http[-1]) == ("_Application.__call__", ROW) and len(over_http) <= 16, over_http
