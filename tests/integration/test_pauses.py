"""A worker starts nothing from a queue that is paused, and goes on when it is resumed."""

import asyncio

from duetime import App
from duetime.model.job import DEFAULT_TENANT
from tests.support.working import ended, working


async def test_a_paused_queue_stands_still_and_the_others_do_not(app: App) -> None:
    started: list[str] = []

    @app.task
    async def note(what: str) -> None:
        started.append(what)

    store = await app.store()
    await store.queues.pause_queue(DEFAULT_TENANT, "slow")
    async with working(app):
        held = await note.options(queue="slow").submit(what="held")
        await ended(app, await note.submit(what="free"))
        await asyncio.sleep(0.3)
        assert started == ["free"]
        await store.queues.resume_queue(DEFAULT_TENANT, "slow")
        await ended(app, held)
        await store.queues.pause_queue(DEFAULT_TENANT, "default")
        await asyncio.sleep(1.0)
        late = await note.submit(what="late")
        await asyncio.sleep(0.3)
        assert started == ["free", "held"]
        await store.queues.resume_queue(DEFAULT_TENANT, "default")
        await ended(app, late)
    assert started == ["free", "held", "late"]
