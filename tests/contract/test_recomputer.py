"""The recomputer as a node runs it."""

from datetime import timedelta

from duetime.engine.recomputer import Recomputer
from duetime.model.schedule import Cron
from duetime.model.schedule.zone_database import zone_database
from duetime.store.protocol import Store
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
    assert (await store.job(TENANT, submitted.job_id)).next_run == NOON + timedelta(hours=1)
    await settle(Recomputer(store))
    assert (await store.job(TENANT, submitted.job_id)).next_run == NOON
    assert await store.recompute_zones(zone_database(), 10) == 0


async def test_two_nodes_with_different_databases_do_not_fight(world: World, store: Store, time: Time) -> None:
    submitted = await submit(store, job(Cron("0 12 * * *", "Europe/Berlin")))
    one, two = Recomputer(store, database="one"), Recomputer(store, database="two")
    await settle(one)
    await settle(two)
    await world.misplace(submitted.job_id, NOON + timedelta(hours=1))
    for _ in range(3):
        await settle(one)
        await settle(two)
    assert (await store.job(TENANT, submitted.job_id)).next_run == NOON + timedelta(hours=1)
