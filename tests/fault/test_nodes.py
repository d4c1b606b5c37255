"""Any number of nodes fire the same jobs: one run for each occurrence."""

from datetime import timedelta

from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.model.schedule import make_cron
from tests.support.fleet import Fleet
from tests.support.waiting import eventually

JOBS = 1_000


async def test_two_nodes_fire_a_thousand_cron_jobs_three_times_each(fleet: Fleet) -> None:
    now = await fleet.store.now()
    # Three seconds of one minute, which a single cron line can name.
    start = now + timedelta(seconds=9)
    if start.second > 50:
        start = start.replace(second=0) + timedelta(minutes=1)
    fires = [(start + timedelta(seconds=seconds)).replace(microsecond=0) for seconds in (0, 4, 8)]
    seconds = ",".join(str(fire.second) for fire in fires)
    cron = make_cron(f"{seconds} {start.minute} {start.hour} {start.day} {start.month} *", "UTC")
    jobs = [
        prepare(task="nothing", args={}, max_payload=100, schedule=cron, key=f"job-{number}") for number in range(JOBS)
    ]
    await fleet.store.intake.submit(DEFAULT_TENANT, jobs)
    for _ in range(2):
        fleet.server()

    async def last_fired() -> bool:
        return await fleet.value("select count(*) from duetime.cursors where last_fire_at = $1", fires[-1]) == JOBS

    await eventually(last_fired, within=60, what=fleet.tails)
    rows = await fleet.fetch("select due_at, count(*), count(distinct job_id) from duetime.runs group by 1 order by 1")
    assert [tuple(row) for row in rows] == [(fire, JOBS, JOBS) for fire in fires]
