"""`schedule(key=…)` by many callers at once: each waits its turn and succeeds, by every way, on both stores."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from duetime import App, AsyncClient, JobState, KeyInFlight, Settings
from duetime.model.access import Role
from tests.support.served import Served
from tests.support.working import quick_settings

CALLERS = 6
CALLS = 5
Schedule = Callable[[str], Awaitable[str]]
"""Schedules the job `hourly` at an interval; the job's id."""

STARTS = """
import asyncio, sys
import duetime

app = duetime.App(database_url=sys.argv[1])

@app.task(name="note")
async def note() -> None: ...

async def main() -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(30):
        await app.schedule(note, every="1h", key="hourly")
    print((await app.schedule(note, every="1h", key="hourly")).job_id)
    await app.close()

asyncio.run(main())
"""


def add_task(app: App) -> App:
    @app.task(name="note")
    async def note() -> None: ...

    return app


@pytest.fixture(params=["app", "sync app", "app over HTTP", "client", "HTTP"])
async def callers(request: pytest.FixtureRequest, app: App, served: Served) -> AsyncIterator[list[Schedule]]:
    """Callers that share nothing but the database; an embedded file has one owner, so there they share the app."""
    add_task(app)
    settings = Settings(url=served.url, key=await served.key(Role.OPERATOR))
    apps: list[App] = [app] * CALLERS
    clients = [AsyncClient(served.url, settings.key) for _ in range(CALLERS)]
    if request.param == "app over HTTP":
        apps = [add_task(App(settings=settings)) for _ in range(CALLERS)]
    elif (await app.store()).embedded is False:
        apps = [add_task(App(settings=app.settings)) for _ in range(CALLERS)]

    def caller(number: int) -> Schedule:
        async def by_app(every: str) -> str:
            return (await apps[number].schedule("note", every=every, key="hourly")).job_id

        async def by_sync_app(every: str) -> str:
            sync = apps[number].sync
            return (await asyncio.to_thread(sync.schedule, "note", every=every, key="hourly")).job_id

        async def by_client(every: str) -> str:
            return (await clients[number].create_job("note", every=every, key="hourly")).job_id

        async def by_http(every: str) -> str:
            answer = await served.post("/v1/jobs", {"task": "note", "every": every, "key": "hourly"})
            assert answer.status == 201, answer.body
            return str(answer.json["job_id"])

        ways = {"app": by_app, "sync app": by_sync_app, "app over HTTP": by_app, "client": by_client, "HTTP": by_http}
        return ways[request.param]

    yield [caller(number) for number in range(CALLERS)]
    for each in clients:
        await each.close()
    for each_app in apps:
        if each_app is not app:
            await each_app.shut_down()
    if app._sync is not None:
        await asyncio.to_thread(app.sync.close)


async def test_the_same_definition_at_once_leaves_one_job(app: App, callers: list[Schedule]) -> None:
    found = await asyncio.gather(*(schedule("1h") for schedule in callers for _ in range(CALLS)))
    assert len(set(found)) == 1
    job = await app.job(found[0])
    assert (str(job.schedule), job.version, job.state) == ("every 1h", 1, JobState.ACTIVE)


async def test_different_definitions_at_once_edit_one_after_the_other(app: App, callers: list[Schedule]) -> None:
    hours = [f"{number + 1}h" for number in range(CALLERS * CALLS)]
    calls = zip([schedule for schedule in callers for _ in range(CALLS)], hours, strict=True)
    found = await asyncio.gather(*(schedule(every) for schedule, every in calls))
    assert len(set(found)) == 1
    job = await app.job(found[0])
    assert job.version == len(hours)


async def test_a_key_that_is_held_for_a_while_is_waited_for(migrated: str) -> None:
    async with App(settings=quick_settings(migrated)) as app:
        add_task(app)
        session = await asyncpg.connect(migrated)
        try:
            async with session.transaction():
                await session.execute("select pg_advisory_xact_lock(hashtextextended('duetime k 1 hourly', 0))")
                waiting = asyncio.create_task(app.schedule("note", every="1h", key="hourly"))
                # What is submitted meanwhile does not wait with it, nor does a key of another kind ever wait.
                assert (await app.submit("note")).created
                await session.execute("select pg_advisory_xact_lock(hashtextextended('duetime i 1 order', 0))")
                with pytest.raises(KeyInFlight, match=r"^idempotency_key: .*'order'"):
                    await app.submit("note", key="other", idempotency_key="order")
                assert not waiting.done()
            assert (await asyncio.wait_for(waiting, 20)).created
        finally:
            await session.close()


async def test_a_key_that_is_held_for_too_long_is_an_error_of_its_own(
    migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.engine.key_wait.LONGEST", 0.05)
    async with App(settings=quick_settings(migrated)) as app:
        add_task(app)
        session = await asyncpg.connect(migrated)
        try:
            async with session.transaction():
                await session.execute("select pg_advisory_xact_lock(hashtextextended('duetime k 1 hourly', 0))")
                with pytest.raises(KeyInFlight, match=r"^key: another request with the key 'hourly' has not finished"):
                    await app.schedule("note", every="1h", key="hourly")
        finally:
            await session.close()


async def test_a_client_asks_again_where_a_key_is_in_flight(served: Served, app: App) -> None:
    """Also where repeating is not safe in general: what was refused for its key has done nothing."""
    store = await app.store()
    submit, asked = store.intake.submit, 0

    async def once_in_flight(*args: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise KeyInFlight("another request with the key 'order' has not finished", field="idempotency_key")
        return await submit(*args)

    store.intake.submit = once_in_flight  # type: ignore[method-assign]
    async with AsyncClient(served.url, served.root) as client:
        assert (await client.create_job("note", idempotency_key="order")).created
    assert asked == 2


async def test_processes_that_start_at_once_leave_one_job(migrated: str) -> None:
    starting = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", STARTS, migrated), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(4)
    ]
    for process in starting:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    answers = await asyncio.gather(*(process.communicate(b"go\n") for process in starting))
    assert [process.returncode for process in starting] == [0] * len(starting)
    assert len({told for told, _ in answers}) == 1
