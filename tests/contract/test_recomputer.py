"""The recomputer as a node runs it."""

import errno
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from duetime.engine import recomputer as engine_recomputer
from duetime.engine.recomputer import Recomputer
from duetime.model.schedule import Cron
from duetime.model.schedule.zone_database import zone_database
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, job, submit
from tests.contract.worlds import START, Time, World

NOON = START + timedelta(hours=2)


async def settle(recomputer: Recomputer) -> None:
    for _ in range(20):
        if await recomputer.tick() > 1:
            return
    raise AssertionError("it never comes to rest")


async def test_a_node_that_starts_with_another_database_puts_the_cursors_right(
    world: World, store: Store, time: Time
) -> None:
    submitted = await submit(store, job(Cron("0 12 * * *", "Europe/Berlin")))
    await settle(Recomputer(store, database="an older one"))
    await world.misplace(submitted.job_id, NOON + timedelta(hours=1))
    await settle(Recomputer(store, database="an older one"))
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == NOON + timedelta(hours=1)
    await settle(Recomputer(store))
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == NOON
    assert await store.recompute.recompute_zones(zone_database(), 10) == 0


async def test_two_nodes_with_different_databases_do_not_fight(world: World, store: Store, time: Time) -> None:
    submitted = await submit(store, job(Cron("0 12 * * *", "Europe/Berlin")))
    one, two = Recomputer(store, database="one"), Recomputer(store, database="two")
    await settle(one)
    await settle(two)
    await world.misplace(submitted.job_id, NOON + timedelta(hours=1))
    for _ in range(3):
        await settle(one)
        await settle(two)
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == NOON + timedelta(hours=1)


async def misplaced(world: World, store: Store, job_id: UUID) -> datetime | None:
    """What an old node makes of a cursor when it fires its job, by its own rules."""
    await world.misplace(job_id, NOON + timedelta(hours=1))
    return (await store.reads.job(TENANT, job_id)).next_run


async def test_what_an_old_node_fired_after_the_check_is_checked_when_it_starts_anew(
    world: World, store: Store, time: Time
) -> None:
    submitted = await submit(store, job(Cron("0 12 * * *", "Europe/Berlin")))
    await settle(Recomputer(store, database="old"))
    await settle(Recomputer(store, database="new"))
    assert await misplaced(world, store, submitted.job_id) == NOON + timedelta(hours=1)
    await settle(Recomputer(store, database="new"))  # the old node, with the new database
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == NOON


async def test_what_an_old_node_fired_after_the_check_is_checked_when_it_is_gone(
    world: World, store: Store, time: Time
) -> None:
    submitted = await submit(store, job(Cron("0 12 * * *", "Europe/Berlin")))
    old, new = Recomputer(store, database="old"), Recomputer(store, database="new")
    await settle(old)
    await settle(new)
    wrong = await misplaced(world, store, submitted.job_id)
    for _ in range(8):
        time.advance(seconds=30)
        await settle(old)
        await settle(new)
        assert (await store.reads.job(TENANT, submitted.job_id)).next_run == wrong, "the old node is alive"
    for _ in range(5):
        time.advance(seconds=30)
        await settle(new)
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == NOON
    wrong = await misplaced(world, store, submitted.job_id)
    for _ in range(8):
        time.advance(seconds=30)
        await settle(new)
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == wrong, "nothing is in doubt any more"


async def test_two_nodes_that_start_together_come_to_rest(store: Store, time: Time) -> None:
    await submit(store, *(job(Cron("0 12 * * *", "Europe/Berlin")) for _ in range(2 * engine_recomputer.BATCH + 1)))
    nodes = [Recomputer(store, database="one"), Recomputer(store, database="two")]
    for _ in range(10):
        rests = [await node.tick() for node in nodes]
        if min(rests) > 1:
            return
    raise AssertionError("they begin again and again")


async def test_a_node_without_file_descriptors_checks_later(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> str:
        raise OSError(errno.EMFILE, "Too many open files")

    recomputer = Recomputer(store)
    with monkeypatch.context() as patched:
        patched.setattr(engine_recomputer, "zone_database", fails)
        assert await recomputer.tick() > 1, "the node goes on"
    await submit(store, job(Cron("0 12 * * *", "Europe/Berlin")))
    await settle(recomputer)
    assert await store.recompute.recompute_zones(zone_database(), 10) == 0
