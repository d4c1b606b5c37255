"""The watcher: it reports runs that are due and that no worker can take."""

from datetime import timedelta

from duetime.engine.watcher import GRACE, Watcher
from duetime.ids import new_id
from duetime.model.event import EventKind, EventMark
from duetime.model.schedule import Once
from duetime.model.worker import WorkerInfo
from duetime.store.protocol.store import Store
from tests.contract.hands import LEASE, TENANT, job, submit
from tests.contract.worlds import Time

HOUR = timedelta(hours=1)


async def heard(store: Store, after: EventMark) -> list[tuple[int, int]]:
    found = await store.events.events(after)
    return [(event.tenant_id, len(event.ids)) for event in found if event.kind is EventKind.NO_WORKER]


async def enter(
    store: Store, *, tasks: tuple[str, ...], queues: tuple[str, ...] = (), tenant_id: int | None = None
) -> None:
    await store.leases.register(WorkerInfo(new_id(), "w", tasks, queues, 1, tenant_id), LEASE)


async def test_runs_that_nobody_can_take_are_told_once(store: Store, time: Time) -> None:
    watcher = Watcher(store)
    mark = await store.events.keep_listening(HOUR)
    await submit(store, job(task="known"), job(task="unknown"), job(Once(delay=timedelta(seconds=10)), task="later"))
    await enter(store, tasks=("known",))
    await watcher.tick()
    assert await heard(store, mark) == []
    time.advance(seconds=GRACE.total_seconds())
    await watcher.tick()
    assert await heard(store, mark) == [], "a worker of this node may be about to register"
    await watcher.tick()
    await watcher.tick()
    assert await heard(store, mark) == [(TENANT, 1)]


async def test_a_worker_that_registers_after_the_first_look_is_in_time(store: Store, time: Time) -> None:
    watcher = Watcher(store)
    mark = await store.events.keep_listening(HOUR)
    await submit(store, job(task="known"))
    time.advance(seconds=60)
    await watcher.tick()
    await enter(store, tasks=("known",))
    await watcher.tick()
    assert await heard(store, mark) == [] and watcher.unserved == 0


async def test_a_worker_for_other_queues_or_tenants_does_not_count(store: Store, time: Time) -> None:
    watcher = Watcher(store)
    mark = await store.events.keep_listening(HOUR)
    await submit(store, job(task="known", queue="slow"))
    await enter(store, tasks=("known",), queues=("quick",))
    await enter(store, tasks=("known",), tenant_id=TENANT + 1)
    time.advance(seconds=GRACE.total_seconds())
    for _ in range(2):
        await watcher.tick()
    assert await heard(store, mark) == [(TENANT, 1)]
    await enter(store, tasks=("known",), queues=("slow",), tenant_id=TENANT)
    await watcher.tick()
    await submit(store, job(task="known", queue="slow"))
    assert await heard(store, mark) == [(TENANT, 1)]
