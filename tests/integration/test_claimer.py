"""The claimer's manners: what it does when it is given nothing."""

from datetime import timedelta

from duetime.clock import ManualClock
from duetime.engine.intake import prepare
from duetime.model.attempt import Claimed
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lane import LaneKey
from duetime.model.worker import WorkerInfo
from duetime.store.opening import store_in_memory
from duetime.worker.claimer import Claimer
from duetime.worker.session import Session
from duetime.worker.slots import Slots
from duetime.worker.source import Wants
from duetime.worker.task import Place
from duetime.worker.trials import Trials

LEASE = timedelta(seconds=10)


async def test_a_worker_whose_lease_is_over_does_not_hammer_the_database() -> None:
    """Only the database knows that the lease is over: until the next heartbeat the worker sees runs that it is not
    given, and has to ask for them ever less often. (Found by the simulation: a clock that jumped over every lease.)"""
    started: list[Claimed] = []

    def start(_session: Session, _claim_no: int, claimed: Claimed, _lane: LaneKey) -> None:
        started.append(claimed)

    clock = ManualClock()
    store = store_in_memory(clock)
    await store.open()
    try:
        await store.migrate()
        slots = Slots({Place.LOOP: 10}, lambda: None)
        poll = timedelta(milliseconds=500)
        claimer = Claimer(store, Wants(slots, Trials(), {"work": Place.LOOP}, (), poll, start, lambda: 0))
        claimer.session = Session()
        await store.register(WorkerInfo(claimer.session.id, "one", ("work",), (), 10), LEASE)
        await store.submit(DEFAULT_TENANT, [prepare(task="work", args={}, max_payload=100)])
        clock.advance(seconds=11)
        pauses = [await claimer.tick() for _ in range(12)]
        assert pauses[0] < 0.01, "another worker may have been quicker: it looks again soon"
        assert sum(pauses) > 1.0
        assert not started

        await store.register(WorkerInfo(claimer.session.id, "one", ("work",), (), 10), LEASE)
        await claimer.tick()
        assert len(started) == 1
    finally:
        await store.close()
