"""The app for code that is not async: from plain code, from many threads, and from inside a task."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from duetime import App, Closed, InvalidInput, JobState, NotFound, RunState, SyncContext, Task
from duetime.node.assembly import Node
from tests.support.waiting import eventually
from tests.support.working import TIMEOUT, ended, quick_settings, working


@pytest.fixture
def plain_app(database_url: str) -> Iterator[App]:
    """An app that no event loop has touched."""
    app = App(settings=quick_settings(database_url))
    yield app
    app.sync.close()


def double_on(app: App) -> Task[[int], int]:
    @app.task(name="double")
    def double(number: int) -> int:
        return 2 * number

    return double


def test_every_method_works_from_plain_code(plain_app: App) -> None:
    double = double_on(plain_app)
    sync = plain_app.sync
    receipt = sync.submit(double.bind(number=4), run_in="1h")
    assert sync.job(receipt).next_run == receipt.next_run
    assert sync.runs(receipt) == []
    soon = sync.submit("double", {"number": 4}, run_in="5s")
    assert sync.run(soon.run_id).arguments == {"number": 4}
    assert sync.cancel_run(soon.run_id).state is RunState.CANCELLED
    assert sync.wait(soon, "1s").state is RunState.CANCELLED
    assert len(sync.submit_many([double.bind(number=1), double.bind(number=2)])) == 2
    scheduled = sync.schedule(double.bind(number=1), every="1h", key="hourly")
    assert sync.cancel(scheduled).state is JobState.CANCELLED
    with pytest.raises(InvalidInput, match=r"^args: "):
        sync.submit(double.bind(wrong=1))
    with pytest.raises(NotFound):
        sync.job("job_01k00000000000000000000000")
    with pytest.raises(TimeoutError):
        sync.wait(receipt, timeout=0)


def test_it_can_be_closed_and_used_again(plain_app: App) -> None:
    double = double_on(plain_app)
    with plain_app.sync as sync:
        receipt = sync.submit(double.bind(number=1))
    sync.close()
    assert plain_app.sync.job(receipt).task == "double"


def test_who_waits_hears_that_it_was_closed(plain_app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    receipt = plain_app.sync.submit(double_on(plain_app).bind(number=1), run_in="1h")
    looked, heard, real = threading.Event(), [], plain_app._stores.ask

    async def ask(work: Any) -> Any:
        looked.set()
        return await real(work)

    def wait() -> None:
        try:
            plain_app.sync.wait(receipt)
        except Closed as error:
            heard.append(str(error))

    monkeypatch.setattr(plain_app._stores, "ask", ask)
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert looked.wait(20)
    plain_app.sync.close()
    thread.join(5)
    assert not thread.is_alive()
    assert len(heard) == 1 and "was closed" in heard[0]
    assert plain_app.sync.job(receipt).task == "double", "it can be used again"


def test_closing_while_it_opens_leaves_nothing_behind(plain_app: App) -> None:
    """Otherwise the file would stay locked, and no app would own it."""
    double = double_on(plain_app)
    for _ in range(10):
        thread = threading.Thread(target=_submit_or_hear, args=(plain_app, double), daemon=True)
        thread.start()
        plain_app.sync.close()
        thread.join(5)
        assert not thread.is_alive()
        plain_app.sync.close()
    assert plain_app.sync.submit(double.bind(number=1))


def _submit_or_hear(app: App, task: Task[[int], int]) -> None:
    with contextlib.suppress(Closed):
        app.sync.submit(task.bind(number=1))


def test_many_threads_share_it(plain_app: App) -> None:
    double = double_on(plain_app)
    together = threading.Barrier(8)

    def submit(number: int) -> str:
        together.wait(20)
        return plain_app.sync.submit(double.bind(number=number)).job_id

    with ThreadPoolExecutor(8) as pool:
        job_ids = list(pool.map(submit, range(8)))
    assert len(set(job_ids)) == 8
    assert [plain_app.sync.runs(job_id)[0].arguments for job_id in job_ids] == [{"number": n} for n in range(8)]


async def test_threads_and_an_event_loop_open_it_at_the_same_time(plain_app: App) -> None:
    double = double_on(plain_app)
    receipts = await asyncio.gather(
        asyncio.to_thread(plain_app.sync.submit, double.bind(number=1)),
        double.submit(number=2),
        asyncio.to_thread(plain_app.sync.submit, double.bind(number=3)),
        double.submit(number=4),
    )
    assert [(await plain_app.runs(each))[0].arguments["number"] for each in receipts] == [1, 2, 3, 4]
    await asyncio.to_thread(plain_app.sync.close)
    await plain_app.close()


async def test_threads_beside_a_worker(app: App) -> None:
    double = double_on(app)
    async with working(app):

        def submit_and_wait(number: int) -> int:
            value: int = app.sync.wait(app.sync.submit(double.bind(number=number)), TIMEOUT).value
            return value

        values = await asyncio.gather(*(asyncio.to_thread(submit_and_wait, number) for number in range(8)))
    assert values == [2 * number for number in range(8)]
    await asyncio.to_thread(app.sync.close)
    assert await app.runs((await double.submit(number=1)).job_id), "closing the threads' side closes only that"


@pytest.mark.parametrize("closing", [False, True])
async def test_inside_a_task_in_a_thread(app: App, closing: bool) -> None:
    double = double_on(app)

    @app.task(retries=0)
    def parent(ctx: SyncContext, numbers: int) -> list[int]:
        receipts = [app.sync.submit(double.bind(number=number)) for number in range(numbers)]
        values = [app.sync.wait(receipt, TIMEOUT).value for receipt in receipts]
        if closing:
            app.sync.close()
        return values

    async with working(app):
        for _ in range(2):
            run = await ended(app, await parent.submit(numbers=3))
            assert run.value == [0, 2, 4], run.error
    await asyncio.to_thread(app.sync.close)


async def test_a_store_that_was_lent_is_not_closed_by_its_user(app: App) -> None:
    """A node lends its store to the app that it runs; a task that tidies up must not take it away."""
    borrower = App(settings=app.settings)
    double = double_on(borrower)

    def use(submit: Callable[..., object]) -> None:
        with borrower.sync:
            submit(double.bind(number=1))

    with borrower.using_store(await app.store()):
        async with borrower:
            await double.submit(number=1)
        await asyncio.to_thread(use, borrower.sync.submit)
        receipt = await double.submit(number=1)
    assert await app.runs(receipt)


async def test_a_node_that_stops_leaves_no_connection_of_the_app_behind(migrated: str) -> None:
    """A task submits from its thread: the pool that this opens ends with the node."""
    before = set(threading.enumerate())
    app = App(settings=quick_settings(migrated))
    done = threading.Event()

    @app.task
    def second() -> None:
        done.set()

    @app.task
    def first() -> None:
        app.sync.submit(second)

    async def begin() -> None:
        await app.submit(first)

    app.on_start(begin)
    node = Node(app.settings, app=app)
    running = asyncio.create_task(node.run())
    assert await asyncio.to_thread(done.wait, 20)
    node.stop()
    await running
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "duetime-sync"]
    with psycopg.connect(migrated) as database:
        others = (
            "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'duetime'"
        )
        await eventually(lambda: database.execute(others).fetchone() == (0,))


async def test_a_blocking_call_on_an_event_loop_is_logged_once(
    plain_app: App, caplog: pytest.LogCaptureFixture
) -> None:
    double = double_on(plain_app)
    for _ in range(2):
        plain_app.sync.submit(double.bind(number=1), run_in="1h")
    await asyncio.to_thread(plain_app.sync.submit, double.bind(number=1), run_in="1h")
    (told,) = [each.getMessage() for each in caplog.records if each.name == "duetime.sync"]
    assert __file__ in told and "use `await` without `.sync`" in told
