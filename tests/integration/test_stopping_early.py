"""A process that is told to stop before it has come up."""

import asyncio
import os
import signal
from datetime import timedelta
from typing import Any

import pytest

from duetime import App, Settings
from duetime.model.access import Role
from duetime.node import assembly
from duetime.node.assembly import Node, RemoteNode
from duetime.store.address import store_for
from duetime.store.protocol.store import Store
from tests.support.served import Served
from tests.support.working import quick_settings

WITHIN = 10.0


async def test_a_node_that_is_stopped_while_it_opens_its_store_does_not_come_up(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening, go_on = asyncio.Event(), asyncio.Event()

    def slow(settings: Settings, **how: Any) -> Store:
        store = store_for(settings, **how)
        check_schema = store.check_schema

        async def check() -> None:
            opening.set()
            await go_on.wait()
            await check_schema()

        monkeypatch.setattr(store, "check_schema", check)
        return store

    monkeypatch.setattr(assembly, "store_for", slow)
    node = Node(quick_settings(database_url), app=App(settings=quick_settings(database_url)))

    async def ready(*_: object) -> None:
        raise AssertionError("it came up")

    running = asyncio.create_task(node.run(ready))
    try:
        await asyncio.wait_for(opening.wait(), WITHIN)
        node.stop()
        go_on.set()
        await asyncio.wait_for(asyncio.shield(running), WITHIN)
    finally:
        running.cancel()


async def test_a_start_hook_of_a_remote_worker_that_hangs_can_be_stopped(served: Served) -> None:
    begun = asyncio.Event()
    settings = Settings(url=served.url, key=await served.key(Role.WORKER), grace=timedelta(seconds=1))
    app = App(settings=settings)

    @app.task
    async def nothing() -> None: ...

    @app.on_start
    async def plan() -> None:
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(RemoteNode(settings, app).run())
    try:
        await asyncio.wait_for(begun.wait(), WITHIN)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(asyncio.shield(running), WITHIN)
    finally:
        running.cancel()
