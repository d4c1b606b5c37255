"""A child that is forked has its parent's app and none of its threads: it submits like any other process."""

import asyncio
import sys
from contextlib import suppress

import pytest

from duetime.model.access import Role
from tests.support.served import Served

CHILD = """
import asyncio, os, signal, sys
from duetime import App, Settings

mode, where = sys.argv[1:3]
app = App(settings=Settings(url=where, key=sys.argv[3])) if mode == "server" else App(database_url=where)

@app.task(name="note")
async def note(text: str) -> None: ...

def submit(text):
    if mode == "runs":
        return asyncio.run(note.submit(text=text)).job_id
    return note.sync.submit(text=text).job_id

print(submit("before"), flush=True)
if os.fork() == 0:
    signal.alarm(15)  # it must not wait for a thread that is not there
    print(submit("in the child"), flush=True)
    os._exit(0)
_, status = os.wait()
assert status == 0, status
print(submit("after"), flush=True)
"""


async def submitted(*arguments: str) -> set[str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", CHILD, *arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        told, complaints = await asyncio.wait_for(process.communicate(), 30)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        raise
    assert process.returncode == 0, complaints.decode()
    return set(told.decode().split())


@pytest.mark.parametrize("mode", ["sync", "runs"])
async def test_a_child_submits_as_its_parent_does(database_url: str, mode: str) -> None:
    assert len(await submitted(mode, database_url)) == 3


async def test_a_child_reaches_a_server_over_connections_of_its_own(served: Served) -> None:
    assert len(await submitted("server", served.url, await served.key(Role.OPERATOR))) == 3
