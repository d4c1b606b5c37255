"""Workers and servers that die while they speak to each other over HTTP."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

import pytest

from duetime.ids import parse
from duetime.model.access import Role
from duetime.model.attempt import AttemptState
from duetime.model.job import DEFAULT_TENANT
from duetime.model.run import RunState
from tests.support.fleet import ROOT, Fleet
from tests.support.postgres import free_port
from tests.support.waiting import eventually


async def test_a_killed_remote_workers_runs_start_again_on_another(fleet: Fleet) -> None:
    port, key = free_port(), await fleet.key(Role.WORKER)
    url = f"http://127.0.0.1:{port}"
    fleet.server(port=port, lease="6s", heartbeat="500ms")
    first = fleet.remote_worker(url, key, lease="6s", heartbeat="500ms")
    [run_id] = await fleet.submit("hold", [{"seconds": 60}])
    await eventually(_begun(fleet, 1), what=fleet.tails)
    second = fleet.remote_worker(url, key, lease="6s", heartbeat="500ms")
    await eventually(lambda: "working for" in second.output())
    first.kill()
    await eventually(_begun(fleet, 2), what=fleet.tails)
    run = await fleet.store.reads.run(DEFAULT_TENANT, parse("run", run_id))
    assert (run.state, run.attempt, run.lost) == (RunState.RUNNING, 1, 1)
    assert [attempt.state for attempt in run.attempts] == [AttemptState.LOST]
    assert await fleet.value("select count(distinct pid) from effects") == 2


async def test_a_killed_server_loses_no_run_and_starts_none_twice(fleet: Fleet) -> None:
    port, key, count = free_port(), await fleet.key(Role.WORKER), 600
    url = f"http://127.0.0.1:{port}"
    server = fleet.server(port=port, lease="60s")
    for _ in range(2):
        fleet.remote_worker(url, key, slots=10, lease="60s")
    await fleet.submit("append", [{"number": number} for number in range(count)])
    await eventually(_appended(fleet, 50), what=fleet.tails)
    server.kill()
    fleet.server(port=port, lease="60s")
    await fleet.ended(count)
    assert await fleet.effects("append") == count
    assert await fleet.value("select count(distinct run_id) from effects") == count


async def test_a_remote_worker_that_is_told_to_stop_finishes_and_leaves(fleet: Fleet) -> None:
    port, key = free_port(), await fleet.key(Role.WORKER)
    fleet.server(port=port)
    worker = fleet.remote_worker(f"http://127.0.0.1:{port}", key)
    await fleet.submit("hold", [{"seconds": 1}])
    await eventually(_begun(fleet, 1), what=fleet.tails)
    worker.send(signal.SIGTERM)
    assert await worker.ended() == 0
    assert await fleet.effects("end") == 1
    await fleet.ended(1)
    assert await fleet.store.leases.workers() == []


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js: install your system's nodejs")
async def test_the_example_in_javascript(fleet: Fleet, tmp_path: Path) -> None:
    port, key = free_port(), await fleet.key(Role.WORKER)
    fleet.server(port=port, lease="6s", heartbeat="500ms")
    environment = os.environ | {"DUETIME_URL": f"http://127.0.0.1:{port}", "DUETIME_KEY": key}

    async def start() -> asyncio.subprocess.Process:
        with (tmp_path / "javascript.log").open("a") as log:
            return await asyncio.create_subprocess_exec(
                "node", str(ROOT / "examples" / "worker.mjs"), env=environment, stdout=log, stderr=log
            )

    first = await start()
    try:
        await fleet.submit("greet", [{"to": "you"}])
        await fleet.ended(1)
        assert await fleet.value("select result from duetime.history") == b'"hello you"'
        [held] = await fleet.submit("hold", [{"seconds": 8}])
        await eventually(_is_running(fleet, held), what=fleet.tails)
    finally:
        first.kill()
        await first.wait()
    second = await start()
    try:
        await fleet.ended(2)
        run = await fleet.store.reads.run(DEFAULT_TENANT, parse("run", held))
        assert (run.state, run.lost) == (RunState.SUCCEEDED, 1)
        second.terminate()
        assert await asyncio.wait_for(second.wait(), 20) == 0, (tmp_path / "javascript.log").read_text()
        assert [worker.name for worker in await fleet.store.leases.workers()] != [f"javascript:{second.pid}"]
    finally:
        if second.returncode is None:
            second.kill()


def _begun(fleet: Fleet, count: int):  # type: ignore[no-untyped-def]
    async def enough() -> bool:
        return await fleet.effects("begin") >= count

    return enough


def _appended(fleet: Fleet, count: int):  # type: ignore[no-untyped-def]
    async def enough() -> bool:
        return await fleet.effects("append") >= count

    return enough


def _is_running(fleet: Fleet, run_id: str):  # type: ignore[no-untyped-def]
    async def running() -> bool:
        return (await fleet.store.reads.run(DEFAULT_TENANT, parse("run", run_id))).state is RunState.RUNNING

    return running
