"""The relay: every lane of a stream queue has one relay, also after a process with workers has come or gone."""

from datetime import timedelta

from duetime.clock import monotonic
from duetime.engine.relay import Relay
from duetime.ids import new_id
from duetime.model.carried import StreamSettings
from duetime.model.worker import WorkerInfo
from duetime.store.protocol.store import Store
from duetime.streams.brokers import Brokers
from tests.contract.hands import TENANT, job, submit

LEASE = timedelta(seconds=30)
QUEUES = [f"q{number}" for number in range(30)]


async def test_lanes_change_hands_with_the_relays(store: Store) -> None:
    for queue in QUEUES:
        await store.streams.set_stream(TENANT, queue, StreamSettings("redis://nowhere.example:6379/0"))
    await submit(store, *(job(queue=queue) for queue in QUEUES))
    relays = {name: Relay(store, Brokers(), lease=LEASE, name=name) for name in ("a", "b")}
    workers = {name: WorkerInfo(new_id(), name, ("greet",), (), 10, None) for name in relays}
    now = monotonic()

    async def owned(later: float) -> dict[str, set[str]]:
        found = {}
        for name, relay in relays.items():
            await relay._read(now + later)
            found[name] = {lane.key.queue for lane in await relay._own_lanes()}
        return found

    await store.leases.register(workers["a"], LEASE)
    assert await owned(10) == {"a": {*QUEUES}, "b": set()}
    await store.leases.register(workers["b"], LEASE)
    both = await owned(20)
    assert both["a"] and both["b"] and both["a"] | both["b"] == {*QUEUES} and not both["a"] & both["b"]
    await store.leases.leave(workers["a"].id)
    assert await owned(30) == {"a": set(), "b": {*QUEUES}}
