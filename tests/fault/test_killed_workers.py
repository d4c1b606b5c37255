"""Workers that die or freeze in the middle of a run, with the default lease of 15 seconds and heartbeat of 5."""

import signal
from datetime import timedelta

from duetime.engine.intake import prepare
from duetime.ids import parse
from duetime.model.attempt import AttemptState
from duetime.model.job import DEFAULT_TENANT
from duetime.model.run import RunState
from duetime.model.schedule import Every
from tests.support.fleet import Fleet, Process
from tests.support.waiting import eventually

LEASE = timedelta(seconds=15)


async def test_a_killed_workers_runs_start_again_on_another_within_the_lease(fleet: Fleet) -> None:
    fleet.server()
    first = fleet.worker()
    run_ids = await fleet.submit("hold", [{"seconds": 60}] * 20)
    await eventually(lambda: fleet.effects("begin"), what=fleet.tails)
    await eventually(_all_begun(fleet, 20), what=fleet.tails)
    run = await fleet.store.reads.run(DEFAULT_TENANT, parse("run", run_ids[0]))
    assert run.state is RunState.RUNNING
    assert run.lease_until is not None, "the end of the lease is visible"
    second = fleet.worker()
    await eventually(lambda: "working on" in second.output())
    first.kill()
    killed_at = await fleet.store.now()
    assert run.lease_until <= killed_at + LEASE

    await eventually(_all_begun(fleet, 40), within=LEASE.total_seconds() + 20, what=fleet.tails)
    started = await fleet.value("select max(at) from effects where pid = $1", second.pid)
    assert started <= killed_at + LEASE + timedelta(seconds=10), "one lease, not two"
    for run_id in run_ids:
        run = await fleet.store.reads.run(DEFAULT_TENANT, parse("run", run_id))
        assert (run.state, run.attempt, run.lost) == (RunState.RUNNING, 1, 1)
        assert [attempt.state for attempt in run.attempts] == [AttemptState.LOST]


async def test_a_frozen_workers_late_completion_is_refused(fleet: Fleet) -> None:
    fleet.server(lease="2s", heartbeat="500ms")
    frozen = fleet.worker(lease="2s", heartbeat="500ms")
    [run_id] = await fleet.submit("hold", [{"seconds": 3}])
    await eventually(lambda: fleet.effects("begin"), what=fleet.tails)
    frozen.send(signal.SIGSTOP)
    other = fleet.worker(lease="2s", heartbeat="500ms")
    await fleet.ended(1)
    ended = await fleet.store.reads.run(DEFAULT_TENANT, parse("run", run_id))
    assert ended.state is RunState.SUCCEEDED
    other.kill()

    frozen.send(signal.SIGCONT)
    # It wakes up with a finished run and a dead lease: it must drop the one and replace the other, and go on working.
    again = await fleet.submit("hold", [{"seconds": 0}])
    await fleet.ended(2)
    assert "the worker stops its runs" in frozen.output()
    after = await fleet.store.reads.run(DEFAULT_TENANT, parse("run", run_id))
    assert after == ended
    ends = await fleet.value(
        "select count(*) from duetime.history where end_state is not null and run_id = $1", ended.id
    )
    assert ends == 1
    replacement = await fleet.store.reads.run(DEFAULT_TENANT, parse("run", again[0]))
    assert replacement.worker_id not in {attempt.worker_id for attempt in ended.attempts}


async def test_a_task_that_blocks_the_event_loop_costs_its_siblings_nothing(fleet: Fleet) -> None:
    """Blocked for one lease and a half, while the heartbeat goes on."""
    fleet.server(lease="6s", heartbeat="500ms")
    fleet.worker(lease="6s", heartbeat="500ms")
    await fleet.submit("hold", [{"seconds": 0.5}] * 5)
    await fleet.submit("block", [{"seconds": 9}])
    await fleet.submit("hold", [{"seconds": 0.5}] * 5)
    await fleet.ended(11)
    rows = await fleet.fetch("select distinct end_state, attempt, lost from duetime.history")
    assert [tuple(row) for row in rows] == [(4, 1, 0)]


async def test_a_run_that_kills_its_workers_ends_and_its_siblings_do_not_suffer(fleet: Fleet) -> None:
    settings = {"lease": "3s", "heartbeat": "500ms"}
    fleet.server(**settings)
    [poison] = await fleet.submit("poison", [{}])
    await fleet.submit("hold", [{"seconds": 0.3}] * 40)
    workers = [fleet.worker(slots=20, **settings) for _ in range(2)]

    async def all_ended() -> bool:
        for index, worker in enumerate(workers):
            if not worker.running:  # as a supervisor would
                workers[index] = fleet.worker(slots=20, **settings)
        return await fleet.value("select count(*) from duetime.history where end_state is not null") == 41

    await eventually(all_ended, within=100, what=fleet.tails)
    culprit = await fleet.store.reads.run(DEFAULT_TENANT, parse("run", poison))
    assert culprit.state is RunState.FAILED
    assert [attempt.state for attempt in culprit.attempts] == [AttemptState.LOST] * 4
    assert culprit.error is not None
    assert "4 times" in culprit.error
    rows = await fleet.fetch(
        "select end_state, attempt, max(lost) over () from duetime.history"
        " where end_state is not null and run_id <> $1",
        culprit.id,
    )
    assert {(row[0], row[1]) for row in rows} == {(4, 1)}
    assert rows[0][2] <= 2
    assert (await fleet.store.reads.counts()).dead_letters == 1


async def test_a_schedule_that_kills_its_workers_does_not_stop_its_queue(fleet: Fleet) -> None:
    """Each of its runs is a new one, which has lost nothing yet."""
    settings = {"lease": "2s", "heartbeat": "400ms"}
    fleet.server(**settings)
    poison = prepare(task="poison", args={}, max_payload=100, schedule=Every(timedelta(seconds=2)))
    await fleet.store.intake.submit(DEFAULT_TENANT, [poison])
    workers = [fleet.worker(slots=8, **settings)]
    await eventually(lambda: fleet.effects("begin"), within=30, what=fleet.tails)
    unrelated = await fleet.submit("hold", [{"seconds": 1}] * 60)

    async def all_ended() -> bool:
        _start_again(fleet, workers, slots=8, **settings)
        return bool(
            await fleet.value("select count(*) from duetime.history where end_state = 4 and job_id <> $1", poison.id)
            == len(unrelated)
        )

    await eventually(all_ended, within=90, what=fleet.tails)
    lost = await fleet.value("select max(lost) from duetime.history where job_id <> $1", poison.id)
    assert lost <= 3


async def test_innocent_runs_leave_trial_quickly(fleet: Fleet) -> None:
    """Two workers in a row died for another reason: forty runs of four seconds are not tried one at a time."""
    settings = {"lease": "2s", "heartbeat": "400ms"}
    fleet.server(**settings)
    await fleet.submit("hold", [{"seconds": 4}] * 40)
    for number in (1, 2):
        worker = fleet.worker(slots=40, **settings)
        await eventually(_all_begun(fleet, 40 * number), within=60, what=fleet.tails)
        worker.kill()
        await eventually(_all_lost(fleet, 40 * number), within=30, what=fleet.tails)
    fleet.worker(slots=40, **settings)
    await eventually(lambda: fleet.effects("end"), within=60, what=fleet.tails)
    first = await fleet.value("select min(at) from effects where what = 'end'")
    await fleet.ended(40, within=120)
    last = await fleet.value("select max(at) from effects where what = 'end'")
    assert last - first < timedelta(seconds=60), "one, two, four, eight at a time; one by one it takes 160 s"


def _start_again(fleet: Fleet, workers: list[Process], **settings: object) -> None:
    """As a supervisor would."""
    for index, worker in enumerate(workers):
        if not worker.running:
            workers[index] = fleet.worker(**settings)


def _all_lost(fleet: Fleet, count: int):  # type: ignore[no-untyped-def]
    async def lost() -> bool:
        return bool(await fleet.value("select count(*) from duetime.history where attempt_state = 3") >= count)

    return lost


def _all_begun(fleet: Fleet, count: int):  # type: ignore[no-untyped-def]
    async def begun() -> bool:
        return await fleet.effects("begin") >= count

    return begun
