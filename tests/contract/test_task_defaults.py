"""What tasks say of their jobs: told by workers, kept while none is up."""

from datetime import timedelta

from duetime.ids import new_id
from duetime.model.defaults import Defaults, encode_defaults
from duetime.model.worker import WorkerInfo, digest_of
from duetime.store.protocol.store import Store
from tests.contract.hands import LEASE, STRANGER, TENANT
from tests.contract.worlds import Time

DAY = timedelta(days=1)
CHARGE = encode_defaults({"queue": "billing", "priority": "HIGH", "timeout": 5, "retry": {"retries": 0}})
SLOW, THEIRS = encode_defaults({"queue": "slow"}), encode_defaults({"queue": "theirs"})


async def tell(
    store: Store, *, tenant_id: int | None = None, lease: timedelta = LEASE, **defaults: Defaults
) -> WorkerInfo:
    tasks = tuple(defaults) or ("charge", "greet")
    worker = WorkerInfo(new_id(), "w", tasks, (), 10, tenant_id, defaults=defaults)
    await store.leases.register(worker, lease)
    return worker


async def test_what_a_worker_tells_stays_when_it_is_gone(store: Store, other: Store) -> None:
    assert await store.queues.task_defaults(TENANT) == {}
    worker = await tell(store, charge=CHARGE, greet=None)
    await store.leases.leave(worker.id)
    assert await other.queues.task_defaults(TENANT) == {"charge": CHARGE}
    assert await other.queues.task_defaults(STRANGER) == {"charge": CHARGE}, "it works for all"


async def test_the_newest_word_holds(store: Store, time: Time) -> None:
    await tell(store, charge=CHARGE, greet=CHARGE)
    time.advance(seconds=1)
    await tell(store, charge=SLOW, greet=None)
    assert await store.queues.task_defaults(TENANT) == {"charge": SLOW}
    time.advance(seconds=1)
    await tell(store)
    assert await store.queues.task_defaults(TENANT) == {"charge": SLOW}, "who says nothing of it changes nothing"


async def test_what_a_tenants_worker_tells_is_for_that_tenant(store: Store, time: Time) -> None:
    await tell(store, charge=CHARGE, greet=CHARGE)
    time.advance(seconds=1)
    await tell(store, tenant_id=STRANGER, charge=THEIRS, greet=None)
    assert await store.queues.task_defaults(TENANT) == {"charge": CHARGE, "greet": CHARGE}
    assert await store.queues.task_defaults(STRANGER) == {"charge": THEIRS}
    time.advance(seconds=1)
    await tell(store, charge=CHARGE)
    assert await store.queues.task_defaults(STRANGER) == {"charge": CHARGE}


async def test_schemas_are_told_with_the_defaults(store: Store, time: Time) -> None:
    async def declare(tenant_id: int | None, **schemas: bytes | None) -> None:
        known = {name: schema for name, schema in schemas.items() if schema is not None}
        told = dict.fromkeys(schemas, None)
        worker = WorkerInfo(new_id(), "w", tuple(schemas), (), 1, tenant_id, defaults=told, schemas=known)
        await store.leases.register(worker, LEASE)
        time.advance(seconds=1)

    await declare(None, charge=b'{"a":1}', greet=b"{}")
    assert await store.queues.task_schemas(TENANT) == {"charge": digest_of(b'{"a":1}'), "greet": digest_of(b"{}")}
    await declare(STRANGER, charge=b'{"b":2}', greet=None)
    assert await store.queues.task_schemas(STRANGER) == {"charge": digest_of(b'{"b":2}')}
    theirs = [digest_of(b'{"b":2}'), digest_of(b"{}"), "unknown"]
    assert await store.queues.schemas(STRANGER, theirs) == {theirs[0]: b'{"b":2}', theirs[1]: b"{}"}
    assert await store.queues.schemas(TENANT, theirs) == {theirs[1]: b"{}"}, "those of other tenants are not seen"
    assert await store.queues.task_defaults(STRANGER) == {}
    await declare(None, charge=None)
    assert await store.queues.task_schemas(TENANT) == {"greet": digest_of(b"{}")}


async def test_an_older_word_stays_older_for_as_long_as_its_worker_lives(store: Store, time: Time) -> None:
    await tell(store, lease=timedelta(days=100), charge=CHARGE)
    time.advance(hours=1)
    await tell(store, tenant_id=TENANT, lease=timedelta(days=100), charge=THEIRS)
    time.advance(hours=11.5)
    await store.pruning.prune(DAY, DAY)
    assert await store.queues.task_defaults(TENANT) == {"charge": THEIRS}


async def test_what_nobody_has_had_for_long_is_forgotten(store: Store, time: Time) -> None:
    gone = await tell(store, old=CHARGE)
    await store.leases.leave(gone.id)
    keeper = await tell(store, lease=timedelta(days=100), charge=CHARGE)
    time.advance(hours=23)
    await store.pruning.prune(DAY, DAY)
    assert (await store.queues.task_defaults(TENANT)).keys() == {"old", "charge"}
    time.advance(days=3)
    await store.pruning.prune(DAY, DAY)
    assert await store.queues.task_defaults(TENANT) == {"charge": CHARGE}
    await store.leases.leave(keeper.id)
    await store.pruning.prune(DAY, DAY)
    assert await store.queues.task_defaults(TENANT) == {"charge": CHARGE}, "a deployment takes a moment"
