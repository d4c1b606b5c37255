"""Lists: newest first, from all homes, nothing missed and nothing doubled, with a bounded effort for each page."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from duetime.errors import NotFound
from duetime.ids import first_id_at, new_id
from duetime.model.failure import FailureClass
from duetime.model.job import Options, encode_options
from duetime.model.lane import Tier
from duetime.model.lists import DeadFilter, JobFilter, JobItem, JobStatus, RunFilter
from duetime.model.run import RunState
from duetime.model.schedule import Every, Once
from duetime.store.protocol.store import Store
from duetime.store.rules import list_pages
from tests.contract.hands import STRANGER, TENANT, Hand, fire, hand, job, submit
from tests.contract.worlds import Time

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def options(**given: Any) -> bytes | None:
    return encode_options(Options(**given))


async def pages(store: Store, filter: JobFilter, limit: int = 2) -> list[JobItem]:
    """All pages of a list, one after the other."""
    found: list[JobItem] = []
    before: UUID | None = None
    for _ in range(200):
        page = await store.lists.list_jobs(TENANT, filter, before, limit)
        assert len(page.items) <= limit
        found += page.items
        if page.next is None:
            return found
        assert before is None or page.next < before
        before = page.next
    raise AssertionError("the list has no end")


async def one_in_each_home(store: Store, time: Time) -> dict[JobStatus, UUID]:
    """A job for each status there is."""
    found: dict[JobStatus, UUID] = {}
    worker = await hand(store)

    async def done(status: JobStatus) -> Any:
        found[status] = (await submit(store, job())).job_id
        return await worker.claim_one()

    await worker.succeed(await done(JobStatus.SUCCEEDED))
    await worker.fail(await done(JobStatus.FAILED))
    await worker.retry(await done(JobStatus.RETRYING), 600)
    found[JobStatus.CANCELLED] = (await submit(store, job())).job_id
    await store.control.cancel_job(TENANT, found[JobStatus.CANCELLED])
    await done(JobStatus.RUNNING)
    found[JobStatus.PENDING] = (await submit(store, job(Once(delay=HOUR)))).job_id
    found[JobStatus.ACTIVE] = (await submit(store, job(Every(HOUR)))).job_id
    found[JobStatus.PAUSED] = (await submit(store, job(Every(HOUR)))).job_id
    await store.control.pause_job(TENANT, found[JobStatus.PAUSED])
    return found


async def test_jobs_by_name_come_from_all_homes(store: Store, time: Time) -> None:
    """Every job with a name once, in the order of names, up and down, whatever the size of a page."""
    worker = await hand(store)
    for name in ("delta", "alpha"):
        await submit(store, job(options=options(name=name)))
        (run,) = await worker.claim()
        await worker.succeed(run)
    await submit(store, job(options=options(name="charlie")))
    await worker.claim_one()
    for name in ("bravo", "delta", "echo"):
        await submit(store, job(Every(HOUR), options=options(name=name)))
    gone = await submit(store, job(Every(HOUR), options=options(name="foxtrot")))
    await store.replay.delete_job(TENANT, gone.job_id)
    await submit(store, job(Every(HOUR)))
    await submit(store, job(options=options(name="anton"), tenant_id=STRANGER), tenant_id=STRANGER)

    async def named(filter: JobFilter, limit: int, *, down: bool = False) -> list[JobItem]:
        found: list[JobItem] = []
        place = None
        for _ in range(200):
            page = await store.lists.list_jobs_by_name(TENANT, filter, place, limit, down=down)
            assert len(page.items) <= limit
            found += page.items
            place = page.next
            if place is None:
                return found
        raise AssertionError("the list has no end")

    wanted = ["alpha", "bravo", "charlie", "delta", "delta", "echo"]
    for limit in (1, 2, 5, 100):
        for down in (False, True):
            found = await named(JobFilter(), limit, down=down)
            assert [item.options.name for item in found] == (wanted[::-1] if down else wanted)
            assert len({item.id for item in found}) == len(found)
    found = await named(JobFilter(recurring=True), 2)
    assert [item.options.name for item in found] == ["bravo", "delta", "echo"]
    found = await named(JobFilter(status=JobStatus.SUCCEEDED), 2, down=True)
    assert [item.options.name for item in found] == ["delta", "alpha"]


@pytest.mark.parametrize("wrong", [-0.9 * HOUR, 5 * HOUR], ids=["behind", "ahead"])
async def test_a_recent_range_has_every_run_however_wrong_the_clock_of_its_submitter_is(
    store: Store, time: Time, wrong: timedelta
) -> None:
    """The time in an id is that of the process which submits; a run is due by the database's clock."""
    drawn = UUID(int=first_id_at(time.now + wrong).int | 7 << 76 | 2 << 62 | 1)
    await submit(store, msgspec.structs.replace(job(), id=drawn))
    time.advance(seconds=1)
    page = await store.lists.list_runs(TENANT, RunFilter(due_from=time.now - HOUR, due_until=time.now))
    assert [item.job_id for item in page.items] == [drawn]


async def test_a_range_of_runs_is_found_behind_many_newer_ones(store: Store, time: Time) -> None:
    """A page begins to read where the range is, and the list ends where the range does."""
    worker = await hand(store, 100 * HOUR)
    until = time.now + 50 * HOUR
    for hours in (0, 1, 2, 24, 25, 26):
        time.advance(seconds=(until - (50 - hours) * HOUR - time.now).total_seconds())
        for _ in range(4 if hours < 24 else 40):
            await submit(store, job(Once(at=time.now)))
        await fire(store)
        while runs := await worker.claim():
            await worker.succeed(*runs)

    async def found(start: timedelta, end: timedelta) -> tuple[int, int]:
        filter = RunFilter(due_from=until - start, due_until=until - end)
        runs, asked, before = 0, 0, None
        while True:
            page = await store.lists.list_runs(TENANT, filter, before, 5)
            asked += 1
            runs += len(page.items)
            assert all(until - start <= item.due_at < until - end for item in page.items)
            if page.next is None:
                return runs, asked
            before = page.next

    assert await found(50 * HOUR, 49 * HOUR) == (4, 1)
    assert await found(49 * HOUR, 47 * HOUR) == (8, 2)
    assert (await found(26 * HOUR, 23 * HOUR))[0] == 120
    assert await found(40 * HOUR, 30 * HOUR) == (0, 1)


async def test_all_homes_stand_in_one_list_newest_first(store: Store, time: Time) -> None:
    made = await one_in_each_home(store, time)
    await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
    for limit in (1, 3, 100):
        found = await pages(store, JobFilter(), limit)
        assert [item.id for item in found] == sorted(made.values(), reverse=True)
        assert {item.status: item.id for item in found} == made


async def test_the_status_says_what_is_shown(store: Store, time: Time) -> None:
    made = await one_in_each_home(store, time)
    for status in JobStatus:
        found = await pages(store, JobFilter(status=status))
        assert [item.id for item in found] == ([made[status]] if status in made else []), status
        assert all(item.status is status for item in found)


async def test_an_item_says_what_is_known_of_its_job(store: Store, time: Time) -> None:
    said = options(name="nightly", tags=("eu",), owner="u1")
    await submit(store, job(Every(HOUR), task="count", queue="mail", tier=Tier.HIGH, options=said))
    (item,) = await pages(store, JobFilter())
    assert (item.task, item.queue, item.tier, item.recurring) == ("count", "mail", Tier.HIGH, True)
    assert (item.next_run, item.created_at) == (time.now + HOUR, time.now)
    assert (item.options.name, item.options.owner, item.options.tags) == ("nightly", "u1", ("eu",))
    assert isinstance(item.schedule, Every)


@pytest.mark.parametrize("after", ["stored", "live", "over"])
async def test_a_job_is_found_by_its_labels_wherever_it_lives(store: Store, time: Time, after: str) -> None:
    schedule = Once(delay=HOUR) if after == "stored" else Once()
    wanted = job(schedule, options=options(name="a", owner="u1", tags=("x", "y")), key="k1")
    other = job(schedule, options=options(name="b", owner="u1", tags=("x",)), key="k2")
    await submit(store, wanted, other, job(schedule))
    await submit(store, job(options=options(owner="u1"), tenant_id=STRANGER), tenant_id=STRANGER)
    if after == "over":
        worker = await hand(store)
        await worker.succeed(*await worker.claim())
    both = [other.id, wanted.id]
    for filter, expected in (
        (JobFilter(owner="u1"), both),
        (JobFilter(tag="x"), both),
        (JobFilter(tag="y"), [wanted.id]),
        (JobFilter(name="b"), [other.id]),
        (JobFilter(key="k1"), [wanted.id]),
        (JobFilter(owner="u1", tag="y"), [wanted.id]),
        (JobFilter(owner="u2"), []),
        (JobFilter(owner="u1", name="c"), []),
        (JobFilter(owner="u1", queue="nowhere"), []),
        (JobFilter(owner="u1", recurring=True), []),
    ):
        assert [item.id for item in await pages(store, filter, 1)] == expected, filter


async def test_a_job_that_is_replaced_changes_its_labels(store: Store) -> None:
    await submit(store, job(Every(HOUR), options=options(owner="u1"), key="k"))
    second = await submit(store, job(Every(MINUTE), options=options(owner="u2"), key="k"))
    assert await pages(store, JobFilter(owner="u1")) == []
    assert [item.id for item in await pages(store, JobFilter(owner="u2"))] == [second.job_id]


async def test_a_list_is_cut_down_by_task_queue_and_time(store: Store, time: Time) -> None:
    for after in (None, "over"):
        soon = job(Once(at=time.now), task="count")
        mail = job(Once(at=time.now), queue="mail")
        late = job(Once(at=time.now + HOUR))
        await submit(store, soon, mail, late)
        if after:
            worker = await hand(store)
            await worker.succeed(*await worker.claim())
        newest = JobFilter(due_from=time.now - MINUTE, due_until=time.now + MINUTE)
        assert [item.id for item in await pages(store, newest)][:2] == [mail.id, soon.id]
        assert (await pages(store, JobFilter(task="count")))[0].id == soon.id
        assert (await pages(store, JobFilter(queue="mail")))[0].id == mail.id
        assert (await pages(store, JobFilter(due_from=time.now + MINUTE)))[0].id == late.id
        time.advance(minutes=10)


async def test_a_recurring_job_stands_once_whatever_its_history(store: Store, time: Time) -> None:
    recurring = (await submit(store, job(Every(MINUTE)))).job_id
    one_off = (await submit(store, job())).job_id
    worker = await hand(store, HOUR)
    for _ in range(5):
        time.advance(minutes=1)
        await fire(store)
        await worker.succeed(*await worker.claim())
    assert [item.id for item in await pages(store, JobFilter(), 1)] == [one_off, recurring]
    assert [item.id for item in await pages(store, JobFilter(status=JobStatus.SUCCEEDED), 1)] == [one_off]


async def test_a_job_that_moves_between_pages_is_neither_missed_nor_doubled(store: Store, time: Time) -> None:
    jobs = [job() for _ in range(6)] + [job(Once(delay=timedelta(seconds=30))) for _ in range(6)]
    await submit(store, *jobs)
    worker = await hand(store, HOUR)
    found: list[UUID] = []
    before = None
    for step in range(12):
        page = await store.lists.list_jobs(TENANT, JobFilter(), before, 2)
        found += [item.id for item in page.items]
        before = page.next
        if before is None:
            break
        time.advance(seconds=10)
        await fire(store)
        await worker.succeed(*await worker.claim(2 if step % 2 else 1))
    assert found == sorted((item.id for item in jobs), reverse=True)


async def test_a_job_that_took_days_is_listed_like_any_other(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(days=9))
    quick, slow = [(await submit(store, job())).job_id for _ in range(2)]
    first, second = await worker.claim(2)
    await worker.succeed(first)
    time.advance(days=3)
    await store.pruning.prune(timedelta(days=30), timedelta(days=30))  # makes room in history for what ends now
    await worker.fail(second)
    assert [(item.id, item.status) for item in await pages(store, JobFilter())] == [
        (slow, JobStatus.FAILED),
        (quick, JobStatus.SUCCEEDED),
    ]
    assert [item.id for item in await pages(store, JobFilter(status=JobStatus.SUCCEEDED))] == [quick]
    assert [item.id for item in await pages(store, JobFilter(status=JobStatus.FAILED))] == [slow]


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Bounds so low that every list meets them."""
    for bound in ("BOUND", "MOST_LABELLED", "LIVE_BOUND", "SPARSE_BOUND"):
        monkeypatch.setattr(f"duetime.store.shared.lists.{bound}", 3)
    monkeypatch.setattr(list_pages, "_ROWS_AT_ONCE", 3)
    monkeypatch.setattr(list_pages, "MOST_WALKED", 6)
    monkeypatch.setattr(list_pages, "_LOOKED_UP_AT_ONCE", 2)
    monkeypatch.setattr(list_pages, "_MOST_LOOKED_UP", 4)
    yield


@pytest.mark.usefixtures("tight")
async def test_a_list_with_many_gaps_goes_on_to_its_end(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    wanted: dict[JobStatus, list[UUID]] = {status: [] for status in JobStatus}
    for turn in range(24):
        if turn % 6 == 1:
            await submit(store, job(Every(MINUTE)))
        submitted = await submit(store, job(Once(delay=HOUR) if turn % 3 == 0 else Once(), options=options(owner="u")))
        if turn % 3 == 0:
            wanted[JobStatus.PENDING].append(submitted.job_id)
            continue
        claimed = await worker.claim()
        (run,) = [run for run in claimed if run.job_id == submitted.job_id]
        await worker.succeed(*(run for run in claimed if run.job_id != submitted.job_id))
        if turn % 6 == 5:
            await worker.fail(run)
            wanted[JobStatus.FAILED].append(submitted.job_id)
        else:
            await worker.succeed(run)
            wanted[JobStatus.SUCCEEDED].append(submitted.job_id)
        if turn % 6 == 2:
            time.advance(minutes=1)
            await fire(store)
    for status in (JobStatus.PENDING, JobStatus.FAILED, JobStatus.SUCCEEDED):
        found = [item.id for item in await pages(store, JobFilter(status=status), 2)]
        assert found == wanted[status][::-1], status
        found = [item.id for item in await pages(store, JobFilter(status=status, owner="u"), 2)]
        assert found == wanted[status][::-1], status
    assert len(await pages(store, JobFilter(), 2)) == 28
    runs = []
    before = None
    for _ in range(100):
        page = await store.lists.list_runs(TENANT, RunFilter(), before, 2)
        runs += [item.id for item in page.items]
        before = page.next
        if before is None:
            break
    assert runs == sorted(set(runs), reverse=True)
    counts = await store.reads.counts()
    assert (before, len(runs)) == (None, counts.runs + counts.history)


async def test_runs_are_listed_from_both_homes(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    ended = (await submit(store, job(task="count"))).run_id
    await worker.succeed(await worker.claim_one())
    time.advance(seconds=1)
    failed = (await submit(store, job(queue="mail"))).run_id
    await worker.fail(await worker.claim_one())
    time.advance(seconds=1)
    tried = (await submit(store, job())).run_id
    await worker.retry(await worker.claim_one(), 600)
    time.advance(seconds=1)
    running = (await submit(store, job())).run_id
    await worker.claim_one()
    time.advance(seconds=1)
    waiting = await submit(store, job())
    await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)

    async def listed(filter: RunFilter, before: UUID | None = None, limit: int = 50) -> list[UUID]:
        return [item.id for item in (await store.lists.list_runs(TENANT, filter, before, limit)).items]

    everything = [waiting.run_id, running, tried, failed, ended]
    assert await listed(RunFilter()) == everything
    assert await listed(RunFilter(), running, 2) == everything[2:4]
    assert await listed(RunFilter(state=RunState.RUNNING)) == [running]
    assert await listed(RunFilter(state=RunState.PENDING)) == [waiting.run_id]
    assert await listed(RunFilter(state=RunState.RETRYING)) == [tried]
    assert await listed(RunFilter(state=RunState.FAILED)) == [failed]
    assert await listed(RunFilter(state=RunState.SUCCEEDED)) == [ended]
    assert await listed(RunFilter(task="count")) == [ended]
    assert await listed(RunFilter(queue="mail")) == [failed]
    assert await listed(RunFilter(job_id=waiting.job_id)) == [waiting.run_id]
    assert await listed(RunFilter(due_from=time.now - timedelta(seconds=1))) == everything[:2]
    (item,) = (await store.lists.list_runs(TENANT, RunFilter(state=RunState.FAILED))).items
    assert (item.failure, item.error, item.attempt) == (FailureClass.ERROR, "ValueError: no", 1)
    assert item.finished_at is not None and item.worker_id == worker.id


async def dead(store: Store, worker: Hand, **given: Any) -> UUID:
    submitted = await submit(store, job(**given))
    (run,) = await worker.claim()
    await worker.fail(run)
    assert submitted.run_id is not None
    return submitted.run_id


async def test_dead_letters_are_listed(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    found = []
    for given in ({}, {"task": "count"}, {"queue": "mail"}):
        found.append(await dead(store, worker, **given))
        time.advance(minutes=1)

    async def listed(filter: DeadFilter, before: UUID | None = None, limit: int = 50) -> list[UUID]:
        return [item.run_id for item in (await store.lists.list_dead_letters(TENANT, filter, before, limit)).items]

    assert await listed(DeadFilter()) == found[::-1]
    first = await store.lists.list_dead_letters(TENANT, DeadFilter(), None, 2)
    assert first.next == found[1] and await listed(DeadFilter(), first.next) == found[:1]
    assert await listed(DeadFilter(task="count")) == [found[1]]
    assert await listed(DeadFilter(queue="mail")) == [found[2]]
    assert await listed(DeadFilter(run_id=found[0])) == [found[0]]
    assert await listed(DeadFilter(died_until=time.now - 2 * MINUTE)) == [found[0]]
    assert await listed(DeadFilter(died_from=time.now - MINUTE)) == [found[2]]
    assert await listed(DeadFilter(error="Value")) == found[::-1]
    assert await listed(DeadFilter(error="other")) == []
    assert await listed(DeadFilter(failure=FailureClass.TIMEOUT)) == []
    assert (await store.lists.list_dead_letters(STRANGER, DeadFilter())).items == ()
    item = (await store.lists.list_dead_letters(TENANT, DeadFilter(task="count"))).items[0]
    assert await listed(DeadFilter(job_id=item.job_id)) == [found[1]]
    assert (item.task, item.attempt, item.error) == ("count", 1, "ValueError: no")


async def test_the_status_of_a_job_tells_its_last_and_next_run(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    submitted = await submit(store, job())
    report = await store.lists.job_status(TENANT, submitted.job_id)
    assert (report.status, report.last_run, report.next_run) == (JobStatus.PENDING, None, time.now)
    await worker.retry(await worker.claim_one(), 60)
    report = await store.lists.job_status(TENANT, submitted.job_id)
    assert (report.status, report.attempts, report.retry_count) == (JobStatus.RETRYING, 1, 1)
    assert (report.next_run, report.failure_reason) == (time.now + MINUTE, "ValueError: not yet")
    time.advance(minutes=1)
    run = await worker.claim_one()
    assert (await store.lists.job_status(TENANT, submitted.job_id)).status is JobStatus.RUNNING
    await worker.fail(run)
    report = await store.lists.job_status(TENANT, submitted.job_id)
    assert (report.status, report.attempts, report.retry_count) == (JobStatus.FAILED, 2, 1)
    assert (report.next_run, report.failure_reason) == (None, "ValueError: no")
    assert report.last_run is not None and report.last_run.id == submitted.run_id


async def test_the_status_of_a_recurring_job(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Every(MINUTE)))
    worker = await hand(store, HOUR)
    assert (await store.lists.job_status(TENANT, submitted.job_id)).last_run is None
    time.advance(minutes=1)
    await fire(store)
    await worker.succeed(await worker.claim_one())
    report = await store.lists.job_status(TENANT, submitted.job_id)
    assert (report.status, report.next_run, report.retry_count) == (JobStatus.ACTIVE, time.now + MINUTE, 0)
    assert report.last_run is not None and report.last_run.state is RunState.SUCCEEDED
    for tenant_id, job_id in ((STRANGER, submitted.job_id), (TENANT, new_id())):
        with pytest.raises(NotFound):
            await store.lists.job_status(tenant_id, job_id)
