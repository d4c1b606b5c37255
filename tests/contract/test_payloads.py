"""Payloads: kept as long as something refers to them."""

from datetime import UTC, datetime, timedelta

import pytest

from duetime.errors import NotFound
from duetime.ids import new_id, show
from duetime.model.edit import Changes
from duetime.model.job import Options, encode_options
from duetime.model.lists import JobFilter
from duetime.model.schedule import Every
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, hand, job, submit
from tests.contract.worlds import START, Time, World

MONTH = timedelta(days=30)
QUARTER = timedelta(days=90)
# Ids are drawn by the machine's clock, which is not the store's here: as many days go by until they are old for both.
LONG = (datetime.now(UTC) - START).days + 150
BODY = bytes(range(256)) * 4096


async def test_bytes_are_read_back_by_their_tenant_alone(store: Store) -> None:
    payload_id = new_id()
    await store.payloads.put_payload(TENANT, payload_id, BODY)
    assert await store.payloads.payload(TENANT, payload_id) == BODY
    for tenant_id, wanted in ((STRANGER, payload_id), (TENANT, new_id())):
        with pytest.raises(NotFound):
            await store.payloads.payload(tenant_id, wanted)
        with pytest.raises(NotFound):
            await store.payloads.drop_payload(tenant_id, wanted)
    await store.payloads.drop_payload(TENANT, payload_id)
    with pytest.raises(NotFound):
        await store.payloads.payload(TENANT, payload_id)


async def test_a_worker_reads_it_while_it_holds_a_run_that_needs_it(store: Store, time: Time) -> None:
    payload_id, other_id = new_id(), new_id()
    for wanted in (payload_id, other_id):
        await store.payloads.put_payload(TENANT, wanted, b"sealed")
    await submit(store, job(options=encode_options(Options(payload_ref=show("pay", payload_id)))))
    worker, idle = await hand(store), await hand(store)
    with pytest.raises(NotFound):
        await store.payloads.held_payload(worker.id, payload_id)
    run = await worker.claim_one()
    assert await store.payloads.held_payload(worker.id, payload_id) == (TENANT, b"sealed")
    for asking, wanted in ((idle.id, payload_id), (worker.id, other_id)):
        with pytest.raises(NotFound):
            await store.payloads.held_payload(asking, wanted)
    time.advance(seconds=31)
    with pytest.raises(NotFound):
        await store.payloads.held_payload(worker.id, payload_id)
    await worker.succeed(run)


async def test_another_tenants_payload_is_not_read_by_naming_it(store: Store) -> None:
    payload_id = new_id()
    await store.payloads.put_payload(TENANT, payload_id, b"sealed")
    said = encode_options(Options(payload_ref=show("pay", payload_id)))
    await submit(store, job(options=said, tenant_id=STRANGER), tenant_id=STRANGER)
    worker = await hand(store)
    await worker.claim_one()
    with pytest.raises(NotFound):
        await store.payloads.held_payload(worker.id, payload_id)


@pytest.mark.parametrize("schedule", [None, Every(timedelta(hours=1))])
async def test_it_goes_when_nothing_refers_to_it_any_more(store: Store, time: Time, schedule: Every | None) -> None:
    used, unused = new_id(), new_id()
    for payload_id in (used, unused):
        await store.payloads.put_payload(TENANT, payload_id, b"sealed")
    said = encode_options(Options(payload_ref=show("pay", used), owner="u1"))
    submitted = await submit(store, job(schedule, options=said) if schedule else job(options=said))
    if schedule is None:
        worker = await hand(store, QUARTER)
        await worker.fail(await worker.claim_one())
    time.advance(days=LONG)
    keep_dead = timedelta(days=LONG + 100)
    for _ in range(3):
        await store.pruning.prune(MONTH, keep_dead)
    with pytest.raises(NotFound):
        await store.payloads.payload(TENANT, unused)
    assert await store.payloads.payload(TENANT, used) == b"sealed"
    if schedule is not None:
        assert len((await store.lists.list_jobs(TENANT, JobFilter(owner="u1"))).items) == 1
        await store.replay.delete_job(TENANT, submitted.job_id)
    time.advance(days=200)
    for _ in range(3):
        await store.pruning.prune(MONTH, QUARTER)
    with pytest.raises(NotFound):
        await store.payloads.payload(TENANT, used)
    assert (await store.lists.list_jobs(TENANT, JobFilter(owner="u1"))).items == ()


async def test_an_edit_takes_the_reference_along(store: Store, time: Time) -> None:
    old, new = new_id(), new_id()
    for payload_id in (old, new):
        await store.payloads.put_payload(TENANT, payload_id, b"sealed")
    said = encode_options(Options(payload_ref=show("pay", old), owner="u1"))
    made = await submit(store, job(Every(timedelta(days=5000)), options=said))
    changes = Changes(options={"payload_ref": show("pay", new), "owner": "u2"})
    assert (await store.control.edit_job(TENANT, made.job_id, changes)).options.owner == "u2"
    assert (await store.lists.list_jobs(TENANT, JobFilter(owner="u1"))).items == ()
    assert len((await store.lists.list_jobs(TENANT, JobFilter(owner="u2"))).items) == 1
    time.advance(days=LONG)
    for _ in range(3):
        await store.pruning.prune(MONTH, QUARTER)
    with pytest.raises(NotFound):
        await store.payloads.payload(TENANT, old)
    assert await store.payloads.payload(TENANT, new) == b"sealed"


async def test_what_a_run_was_made_with_stays_after_an_edit(store: Store, time: Time) -> None:
    old = new_id()
    await store.payloads.put_payload(TENANT, old, b"sealed")
    said = encode_options(Options(payload_ref=show("pay", old)))
    made = await submit(store, job(Every(timedelta(days=5000)), options=said))
    worker = await hand(store, timedelta(days=1000))
    await store.control.trigger_job(TENANT, made.job_id, b"nonce")
    await store.control.edit_job(TENANT, made.job_id, Changes(options={"payload_ref": None}))
    await worker.claim_one()
    time.advance(days=LONG)
    for _ in range(3):
        await store.pruning.prune(MONTH, QUARTER)
    assert await store.payloads.held_payload(worker.id, old) == (TENANT, b"sealed")


async def test_jobs_that_are_gone_refer_to_nothing(store: Store, world: World, time: Time) -> None:
    """A payload that ever new jobs share must not grow with them."""
    shared = new_id()
    await store.payloads.put_payload(TENANT, shared, b"sealed")
    said = encode_options(Options(payload_ref=show("pay", shared)))
    await submit(store, *(job(options=said) for _ in range(10)))
    worker = await hand(store, QUARTER)
    await worker.succeed(*await worker.claim())
    time.advance(days=LONG)
    await submit(store, job(options=said))
    for _ in range(12):
        await store.pruning.prune(MONTH, QUARTER, 3)
    assert await world.rows_of("payload_refs") == 1
    assert await store.payloads.payload(TENANT, shared) == b"sealed"
