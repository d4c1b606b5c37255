"""The worker protocol, word by word: what a worker in any language may rely on."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duetime import App, ids
from duetime.client import AsyncClient
from duetime.errors import AccessDenied, InvalidInput, LeaseLost, NotFound, ServerUnavailable, StoreUnavailable
from duetime.model.access import Role
from duetime.model.lane import LaneTurn
from duetime.model.run import RunState
from duetime.model.tenant import NewTenant
from duetime.wire.workers import (
    Ask,
    Beat,
    Compare,
    HandBack,
    HeldRun,
    LogLine,
    Logs,
    Note,
    Notes,
    Registered,
    Registration,
    Report,
    Reports,
)
from tests.support.served import Served
from tests.support.waiting import eventually

CLIENTS: list[AsyncClient] = []


@pytest.fixture(autouse=True)
async def closed_clients(served: Served) -> AsyncIterator[None]:
    """A client that a failed test leaves open would fail another test, when the garbage is collected."""
    yield
    while CLIENTS:
        await CLIENTS.pop().close()


class Hand:
    """A remote worker that one moves by hand."""

    def __init__(self, client: AsyncClient, registered: Registered) -> None:
        self.client = client
        self.id = registered.worker_id
        self.session = (registered.worker_id, registered.token)
        self.number = 0

    async def claim(self, *, room: int = 10, wait: float = 5.0, **more: Any) -> Any:
        self.number += 1
        return await self.again(room=room, wait=wait, **more)

    async def again(self, *, room: int = 10, wait: float = 5.0, **more: Any) -> Any:
        return await self.client.claim_runs(*self.session, Ask(claim_no=self.number, room=room, wait=wait, **more))

    async def complete(self, *reports: Report) -> list[str]:
        return (await self.client.complete_runs(*self.session, Reports(list(reports), [self.number]))).refused


async def begin(served: Served, *tasks: str, key: str | None = None, queues: tuple[str, ...] = ()) -> Hand:
    client = AsyncClient(served.url, key or await served.key(Role.WORKER), tries=1)
    CLIENTS.append(client)
    registered = await client.register_worker(Registration("hand", list(tasks or ("greet",)), list(queues), 10))
    assert registered.heartbeat < registered.lease
    return Hand(client, registered)


def report(run: Any, state: Any = "SUCCEEDED", **more: Any) -> Report:
    return Report(run.run_id, run.fence, state, **more)


async def submit(served: Served, count: int = 1, *, tenant: str | None = None, **fields: Any) -> list[str]:
    async with AsyncClient(served.url, await served.key(), tenant=tenant) as client:
        answer = await client.create_jobs([{"task": "greet", "args": {"n": n}, **fields} for n in range(count)])
        return [item.job.run_id for item in answer.items if item.job is not None and item.job.run_id is not None]


async def test_a_lost_answer_is_given_again(served: Served) -> None:
    worker = await begin(served)
    await submit(served, 3)
    first = await worker.claim()
    assert [run.fence for run in first.runs] == [1, 1, 1]
    assert [run.run_id for run in (await worker.again()).runs] == [run.run_id for run in first.runs]
    assert await worker.complete(*map(report, first.runs)) == []
    assert await worker.complete(*map(report, first.runs)) == [run.run_id for run in first.runs], "each counts once"


async def test_a_key_that_was_revoked_while_its_worker_waited_gets_nothing(served: Served) -> None:
    made = (await served.post("/v1/admin/keys", {"role": "worker", "name": "leaving"})).json
    worker, another = await begin(served, key=made["key"]), await begin(served)
    asking = asyncio.create_task(worker.claim(wait=20))
    lines = served.service.gateway.dealer._wait_queues
    await eventually(lambda: any(line.waiting for line in lines.values()))
    await served.post(f"/v1/admin/keys/{made['key_id']}/revoke")
    run_ids = await submit(served)
    with pytest.raises(AccessDenied):
        await asking
    (run,) = (await another.claim(wait=20)).runs
    assert ([run.run_id], run.attempt, run.lost) == (run_ids, 1, 0), "as if it had never been claimed"


async def test_who_waits_in_vain_for_the_database_asks_again_with_the_same_number(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claims happen, and no answer comes: to say that there was nothing would be to lose them."""
    real = served.store.claims.claim_many

    async def silent(*asked: Any) -> Any:
        await real(*asked)
        raise StoreUnavailable("no answer")

    worker = await begin(served)
    monkeypatch.setattr(served.store.claims, "claim_many", silent)
    run_ids = await submit(served, 2)
    with pytest.raises(ServerUnavailable, match="ask again"):
        await worker.claim(wait=3)
    monkeypatch.setattr(served.store.claims, "claim_many", real)
    again = await worker.again(wait=0.5)
    assert ([run.run_id for run in again.runs], {run.fence for run in again.runs}) == (run_ids, {1})


async def test_who_has_no_patience_is_asked_about_all_the_same(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """What became of a claim whose answer was lost has to be asked for, and the server may be at something else."""
    at_it, real = asyncio.Event(), served.store.claims.lane_changes

    async def slow(after: LaneTurn) -> Any:
        at_it.set()
        await asyncio.sleep(0.2)
        return await real(after)

    one, another = await begin(served), await begin(served)
    await another.claim(wait=0)
    monkeypatch.setattr(served.store.claims, "lane_changes", slow)
    asking = asyncio.create_task(one.claim(wait=1))
    await at_it.wait()
    assert (await another.again(wait=0)).runs == []
    await asking


async def test_a_claim_that_brings_nothing_keeps_nobody_beyond_its_time(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is under way when the worker's timeout ends, and when the worker asks what became of it."""
    going_on, real = asyncio.Event(), served.store.claims.claim_many

    async def slow(seats: Any, takes: Any) -> Any:
        await going_on.wait()
        return await real(seats, [])

    worker = await begin(served)
    monkeypatch.setattr(served.store.claims, "claim_many", slow)
    await submit(served)
    asking = asyncio.create_task(worker.claim(wait=0.2))
    dealer = served.service.gateway.dealer
    await eventually(
        lambda: any(each.serving for line in dealer._wait_queues.values() for each in line.waiting.values())
    )
    what_became = asyncio.create_task(worker.again(room=0))
    await asyncio.sleep(0.5)
    assert not asking.done() and not what_became.done()
    await served.ask("POST", "/v1/queues/default/pause")  # so that no other claim follows
    going_on.set()
    assert (await asyncio.wait_for(asking, 4)).runs == (await asyncio.wait_for(what_became, 4)).runs == []


async def test_a_claim_that_was_given_up_can_be_asked_about(served: Served) -> None:
    worker = await begin(served)
    asking = asyncio.create_task(worker.claim())
    await eventually(lambda: any(line.waiting for line in served.service.gateway.dealer._wait_queues.values()))
    asking.cancel()
    await eventually(lambda: not any(line.waiting for line in served.service.gateway.dealer._wait_queues.values()))
    await submit(served)
    assert (await worker.again(room=0)).runs == [], "nothing was claimed for a worker that hung up"
    assert len((await worker.again()).runs) == 1


async def test_many_who_wait_are_served_by_one_claim(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    claims: list[int] = []
    claim_many = served.store.claims.claim_many

    async def counted(seats: Any, takes: Any) -> Any:
        claims.append(len(seats))
        return await claim_many(seats, takes)

    monkeypatch.setattr(served.store.claims, "claim_many", counted)
    workers = [await begin(served) for _ in range(10)]
    asking = [asyncio.create_task(worker.claim(room=2, wait=10)) for worker in workers]
    lines = served.service.gateway.dealer._wait_queues
    await eventually(lambda: sum(len(line.waiting) for line in lines.values()) == 10)
    await submit(served, 20)
    dealt = [await task for task in asking]
    assert [len(each.runs) for each in dealt] == [2] * 10
    assert len({run.run_id for each in dealt for run in each.runs}) == 20
    assert len(claims) < 10


async def test_a_worker_sees_only_its_tenant(served: Served) -> None:
    acme = await served.store.tenants.create_tenant(NewTenant("acme"))
    ours, theirs = await begin(served), await begin(served, key=await served.key(Role.WORKER, acme.id))
    await submit(served, 2, tenant="acme")
    assert (await ours.claim(wait=0.3)).runs == []
    dealt = (await theirs.claim()).runs
    assert len(dealt) == 2
    with pytest.raises(NotFound) as foreign:
        await theirs.client.complete_runs(*ours.session, Reports([report(dealt[0])]))
    with pytest.raises(NotFound) as missing:
        await theirs.client.complete_runs("wrk_00000000000000000000000000", "x", Reports([report(dealt[0])]))
    assert foreign.value.message.partition("wrk_")[0] == missing.value.message.partition("wrk_")[0]
    assert await ours.complete(report(dealt[0])) == [dealt[0].run_id], "another's run is refused like a missing one"


async def test_a_key_that_is_bound_to_queues_serves_no_other(served: Served) -> None:
    key = await served.key(Role.WORKER, queues=("mail",))
    with pytest.raises(AccessDenied):
        await begin(served, key=key, queues=("reports",))
    worker = await begin(served, key=key)
    await submit(served, queue="reports")
    assert (await worker.claim(wait=0.3)).runs == []
    await submit(served, queue="mail")
    assert [run.queue for run in (await worker.claim()).runs] == ["mail"]


async def test_a_paused_queue_gives_nothing_until_it_is_resumed(served: Served) -> None:
    await served.store.queues.pause_queue(1, "default")
    await submit(served)
    worker = await begin(served)
    assert (await worker.claim(wait=1.5)).runs == []
    await served.store.queues.resume_queue(1, "default")
    assert len((await worker.again()).runs) == 1


async def test_the_server_decides_what_follows_a_failure(app: App, served: Served) -> None:
    worker = await begin(served)
    await submit(served, retry={"retries": 1, "base": 0, "give_up_on": ["Hopeless"]})
    (run,) = (await worker.claim()).runs
    assert await worker.complete(report(run, "FAILED", error="no", traceback="where")) == []
    (second,) = (await worker.claim()).runs
    assert (second.run_id, second.attempt, second.fence) == (run.run_id, 2, 2)
    assert await worker.complete(report(run)) == [run.run_id], "the fence of the first attempt is spent"
    await worker.complete(report(second, "FAILED", error="still no"))
    over = await app.run(run.run_id)
    assert (over.state, over.error) == (RunState.FAILED, "still no")
    assert [attempt.error for attempt in over.attempts] == ["no\nwhere", "still no"]
    for fields in ({"error_types": ["Hopeless"]}, {"final": True}):
        await submit(served, retry={"retries": 5, "give_up_on": ["Hopeless"]})
        (run,) = (await worker.claim()).runs
        await worker.complete(report(run, "FAILED", error="x", **fields))
        assert (await app.run(run.run_id)).state is RunState.FAILED


async def test_what_it_logs_is_shown_and_what_nobody_could_read_is_refused(app: App, served: Served) -> None:
    worker = await begin(served)
    (run_id,) = await submit(served)
    (run,) = (await worker.claim()).runs
    logs = Logs([LogLine("2027-01-31T09:00:00+00:00", "WARNING", "nearly full")])
    await worker.client.note_progress(*worker.session, Notes([Note(run.run_id, run.fence, logs=logs)]))
    shown = (await app.run(run_id)).logs
    assert shown is not None
    assert json.loads(shown)["lines"] == [
        {"at": "2027-01-31T09:00:00+00:00", "level": "WARNING", "text": "nearly full"}
    ]
    for wrong in ([1, 2], "text", {"lines": [1]}, {"lines": [{"text": "when?"}]}):
        with pytest.raises(InvalidInput) as refused:
            await worker.complete(report(run, logs=wrong))
        assert (refused.value.field or "").startswith("completions[0].logs")
    await worker.complete(report(run, logs=logs))
    over = await app.run(run_id)
    assert (over.logs, over.attempts[0].log_lines) == (None, ["nearly full"])


async def test_snoozing_progress_checkpoints_and_handing_back(app: App, served: Served) -> None:
    worker = await begin(served)
    (run_id,) = await submit(served)
    (run,) = (await worker.claim()).runs
    note = Note(run.run_id, run.fence, 0.5, "half", checkpoint={"page": 7})
    assert (await worker.client.note_progress(*worker.session, Notes([note]))).refused == []
    assert (await app.run(run_id)).progress == 0.5
    await worker.complete(report(run, "SNOOZED", retry_in=0))
    (again,) = (await worker.claim()).runs
    assert (again.attempt, bytes(again.checkpoint)) == (1, b'{"page":7}')
    back = await worker.client.hand_back_runs(*worker.session, HandBack([HeldRun(again.run_id, again.fence)]))
    assert back.handed_back == 1
    waiting = await app.run(run_id)
    assert (waiting.state, waiting.attempt) == (RunState.PENDING, 0)
    with pytest.raises(InvalidInput) as refused:
        await worker.complete(report(again, "SNOOZED"))
    assert refused.value.field == "completions[0].retry_in"


async def test_a_worker_is_told_what_to_stop(app: App, served: Served) -> None:
    worker = await begin(served)
    (run_id,) = await submit(served)
    (run,) = (await worker.claim()).runs
    listening = asyncio.create_task(worker.client.claim_runs(*worker.session, Ask(claim_no=0, room=0, wait=20)))
    await eventually(lambda: any(line.waiting for line in served.service.gateway.dealer._wait_queues.values()))
    await app.cancel_run(run_id)
    assert (await listening).cancelled == [run.run_id]
    beaten = await worker.client.heartbeat(*worker.session, Beat([worker.number]))
    assert beaten.cancelled == [run.run_id]


async def test_who_is_not_known_registers_anew(served: Served) -> None:
    worker = await begin(served)
    await worker.client.delete_worker(*worker.session)
    with pytest.raises(NotFound):
        await worker.client.heartbeat(*worker.session, Beat([]))
    other = await worker.client.register_worker(Registration("other", ["greet"]))
    asking = asyncio.create_task(worker.client.claim_runs(other.worker_id, other.token, Ask(claim_no=1, wait=30)))
    await eventually(lambda: any(line.waiting for line in served.service.gateway.dealer._wait_queues.values()))
    await worker.client.delete_worker(other.worker_id, other.token)
    with pytest.raises(LeaseLost):
        await asking


async def test_a_worker_compares_what_it_holds_with_what_the_server_has(app: App, served: Served) -> None:
    worker = await begin(served)
    (forgotten,), (held,) = await submit(served), await submit(served)
    assert len((await worker.claim()).runs) == 2
    assert (await worker.client.compare_runs(*worker.session, Compare([worker.number], [forgotten, held]))).runs == []
    assert (await worker.client.compare_runs(*worker.session, Compare([worker.number], [held]))).runs == [forgotten]
    with pytest.raises(InvalidInput) as refused:
        await worker.client.compare_runs(*worker.session, Compare([worker.number], [held, "job_1"]))
    assert refused.value.field == "runs[1]"
    with pytest.raises(NotFound):
        await worker.client.compare_runs(ids.show("wrk", ids.new_id()), worker.session[1], Compare([worker.number], []))


async def test_a_worker_says_that_it_does_not_hold_what_it_is_asked_to_stop(app: App, served: Served) -> None:
    worker = await begin(served)
    forgotten, held = await submit(served), await submit(served)
    assert len((await worker.claim()).runs) == 2
    await app.cancel_run(forgotten[0])
    assert (await worker.client.heartbeat(*worker.session, Beat([worker.number]))).cancelled == forgotten
    back = await worker.client.hand_back_runs(*worker.session, HandBack(not_held=forgotten))
    assert back.handed_back == 1

    async def is_cancelled() -> bool:
        await worker.client.heartbeat(*worker.session, Beat([worker.number]))
        return (await app.run(forgotten[0])).state is RunState.CANCELLED

    await eventually(is_cancelled)
    assert (await app.run(held[0])).state is RunState.RUNNING
    with pytest.raises(InvalidInput) as refused:
        await worker.client.hand_back_runs(*worker.session, HandBack(not_held=["job_1"]))
    assert refused.value.field == "not_held[0]"


async def test_an_answer_that_never_came_can_be_given_back(app: App, served: Served) -> None:
    worker = await begin(served)
    (run_id,) = await submit(served)
    assert len((await worker.claim()).runs) == 1
    back = await worker.client.hand_back_runs(*worker.session, HandBack(claims=[worker.number]))
    assert back.handed_back == 1
    waiting = await app.run(run_id)
    assert (waiting.state, waiting.attempt) == (RunState.PENDING, 0)


async def test_a_task_that_was_not_registered_cannot_be_asked_for(served: Served) -> None:
    worker = await begin(served, "greet", "other")
    with pytest.raises(InvalidInput):
        await worker.claim(tasks=["greet", "nobody"])
    await submit(served)
    assert (await worker.claim(tasks=["other"], wait=0.3)).runs == []
    (run,) = (await worker.claim(tasks=["greet"])).runs
    assert ids.parse("run", run.run_id)
