"""Any number of workers on one database: every run once."""

from tests.support.fleet import Fleet
from tests.support.waiting import eventually


async def test_ten_thousand_runs_on_four_worker_processes_run_once_each(fleet: Fleet) -> None:
    batch = [{"number": number} for number in range(10_000)]
    workers = [fleet.worker(slots=50) for _ in range(4)]
    await eventually(lambda: all("working on" in worker.output() for worker in workers), what=fleet.tails)
    await fleet.submit("append", batch)
    await fleet.ended(10_000, within=110)
    rows = await fleet.fetch("select count(*), count(distinct run_id), count(distinct pid) from effects")
    assert tuple(rows[0]) == (10_000, 10_000, 4)
    # What was claimed ahead and had to wait may have been given back: an attempt that spent nothing, and no end.
    states = await fleet.fetch(
        "select distinct end_state, attempt, lost from duetime.history where end_state is not null"
    )
    assert [tuple(row) for row in states] == [(4, 1, 0)]
    counts = await fleet.store.reads.counts()
    assert (counts.runs, counts.dead_letters) == (0, 0)
