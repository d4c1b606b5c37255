"""The metrics of single queues: right, bounded, and there for a queue that has become idle."""

from collections.abc import Mapping
from datetime import timedelta

from duetime.clock import ManualClock
from duetime.engine.queue_figures import QueueFigures
from duetime.engine.surveyor import Surveyor
from duetime.model.lane import Lane
from duetime.model.tenant import NewTenant
from duetime.store.address import open_ready, store_in_memory
from duetime.store.protocol.store import Store
from duetime.telemetry.meters import Meters
from tests.contract.hands import TENANT, hand, job, submit

DEPTH, RUNNING = "duetime_tenant_queue_depth", "duetime_tenant_queue_running"
ARRIVALS, OLDEST = "duetime_tenant_queue_arrivals_per_second", "duetime_tenant_queue_oldest_age_seconds"


async def shown(figures: QueueFigures, store: Store) -> dict[str, Mapping[tuple[str, ...], float]]:
    lanes: dict[int, Lane] = {lane.id: lane for lane in await store.claims.lanes()}
    await figures.read(lanes, await store.claims.look(list(lanes), 1))
    return {name: read() for name, read in figures.gauges.items()}


async def test_figures_of_queues() -> None:
    clock = ManualClock()
    store = store_in_memory(clock)
    await open_ready(store)
    acme = await store.tenants.create_tenant(NewTenant("acme"))
    figures = QueueFigures(store, most=10, in_streams=lambda: {(acme.id, "events"): 7})
    worker = await hand(store, timedelta(hours=1))
    await submit(store, job(), job())
    first, second = await worker.claim()
    clock.advance(seconds=10)
    await worker.succeed(first)
    await submit(store, job(), *(job(queue="mail") for _ in range(3)))
    await submit(store, job(tenant_id=acme.id), tenant_id=acme.id)
    clock.advance(seconds=5)
    found = await shown(figures, store)
    mine, mail, theirs, events = ("default", "default"), ("default", "mail"), ("acme", "default"), ("acme", "events")
    assert found[DEPTH] == {mine: 1, mail: 3, theirs: 1, events: 7}
    assert found[RUNNING] == {mine: 1, mail: 0, theirs: 0, events: 0}
    assert found[ARRIVALS] == {mine: 3 / 60, mail: 3 / 60, theirs: 1 / 60, events: 0}
    assert found[OLDEST] == {mine: 5, mail: 5, theirs: 5, events: 0}
    await worker.succeed(second, *await worker.claim())
    clock.advance(minutes=5)
    found = await shown(figures, store)
    assert found[DEPTH] == {mine: 0, mail: 0, theirs: 0, events: 7}, "a queue that is empty is zero, not missing"
    await store.close()


async def test_the_number_of_series_is_bounded() -> None:
    clock = ManualClock()
    store = store_in_memory(clock)
    await open_ready(store)
    figures = QueueFigures(store, most=2, in_streams=dict)
    await submit(store, job(queue="a"), job(queue="b"))
    assert (await shown(figures, store))[DEPTH] == {("default", "a"): 1, ("default", "b"): 1}
    await submit(store, job(queue="c"), job(queue="c"), job(queue="d"))
    assert (await shown(figures, store))[DEPTH] == {("default", "a"): 1, ("default", "b"): 1, ("", ""): 3}
    worker = await hand(store, timedelta(hours=1))
    lane = next(each for each in await store.claims.lanes() if each.key.queue == "a")
    await worker.succeed(*await store.claims.claim(worker.id, 1, [(lane.id, 1)]))
    clock.advance(minutes=2)
    await shown(figures, store)
    found = (await shown(figures, store))[DEPTH]
    assert found[("default", "b")] == 1 and ("default", "a") not in found, "an idle one made room"
    assert len(found) == 3 and sum(found.values()) == 4
    await store.close()


async def test_tenants_are_shown_by_their_current_names() -> None:
    store, meters = store_in_memory(), Meters()
    await open_ready(store)
    figures = QueueFigures(store, most=2, in_streams=dict)
    surveyor = Surveyor(store, meters, know_tiers=lambda _: None, unserved=lambda: 0, queues=figures)
    await submit(store, job())
    await surveyor.tick()
    assert meters.gauges[DEPTH]() == {("default", "default"): 1}
    figures.name({TENANT: "renamed"})
    assert meters.gauges[DEPTH]() == {("renamed", "default"): 1}
    await store.close()
