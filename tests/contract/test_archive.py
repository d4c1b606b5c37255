"""Cold history: a day is in verified files before the database removes it, and reads continue into the files."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from uuid import UUID

import asyncpg
import msgspec
import pytest

from duetime.archive.archive import Archive
from duetime.archive.archived_store import archived
from duetime.archive.names import date_of, day_of
from duetime.archive.storage import FolderStorage
from duetime.engine.archiver import Archiver
from duetime.errors import ArchiveUnavailable, NotFound
from duetime.ids import new_id
from duetime.model.job import Options, encode_options
from duetime.model.lists import RunFilter, RunItem
from duetime.model.run import RunState
from duetime.model.schedule import Once
from duetime.model.tenant import DEFAULT_LIMITS, NewTenant, TenantChange
from duetime.store.postgres import partitions
from duetime.store.protocol.store import Store
from duetime.telemetry.meters import Meters
from tests.contract.conftest import on_postgres
from tests.contract.hands import STRANGER, TENANT, hand, job, submit
from tests.contract.worlds import START, Time

pytest.importorskip("pyarrow")
DAY = timedelta(days=1)
ALL = RunFilter()
FIRST = day_of(START.date())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def archive(store: Store, folder: Path) -> Archive:
    return Archive(store, FolderStorage(folder), part_rows=5)


def archiver(store: Store, archive: Archive, meters: Meters | None = None) -> Archiver:
    return Archiver(store, archive, retention=DAY, meters=meters, guard=_Now(store))


class _Now:
    """A guard that trusts the clock: the tests move it by days."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def trusted_now(self) -> datetime:
        return await self._store.now()


async def prune(store: Store) -> None:
    """A few rounds without effect, too: a round may begin in the middle of the table."""
    idle = 0
    while idle < 4:
        idle = 0 if await store.pruning.prune(DAY, 90 * DAY, 7) else idle + 1


async def ends(store: Store, count: int, tenant_id: int = TENANT, **given: Any) -> list[UUID]:
    """Runs that have ended: most succeed, some fail, some are tried twice."""
    worker = await hand(store, timedelta(days=400))
    await submit(store, *(job(tenant_id=tenant_id, **given) for _ in range(count)), tenant_id=tenant_id)
    for number, run in enumerate(await worker.claim(count)):
        if number % 5 == 3:
            await worker.retry(run)
        elif number % 5 == 4:
            await worker.fail(run)
        else:
            await worker.succeed(run, result=b'{"sum": 7}')
    for run in await worker.claim(count):
        await worker.succeed(run)
    await store.leases.leave(worker.id)
    return [run.id for run in (await store.lists.list_runs(tenant_id, RunFilter(), None, 1000)).items]


async def listed(store: Store, limit: int = 3, filter: RunFilter = ALL, tenant_id: int = TENANT) -> list[RunItem]:
    """All pages, one after the other."""
    found: list[RunItem] = []
    before: UUID | None = None
    for _ in range(1000):
        page = await store.lists.list_runs(tenant_id, filter, before, limit)
        assert len(page.items) <= limit
        assert page.archived == any(item.archived for item in page.items)
        found += page.items
        if page.next is None:
            return found
        assert before is None or page.next < before
        before = page.next
    raise AssertionError("the list has no end")


def same(item: RunItem) -> RunItem:
    return msgspec.structs.replace(item, archived=False)


async def test_a_day_is_archived_removed_and_still_listed(
    store: Store, archive: Archive, folder: Path, time: Time
) -> None:
    runs = await ends(store, 23)
    before = await listed(store)
    whole = {run_id: await store.reads.run(TENANT, run_id) for run_id in runs}
    time.advance(days=3)
    later = await ends(store, 4)
    recent = [item for item in await listed(store) if item.id not in whole]
    assert len(later) == 27
    await archiver(store, archive).tick()
    await prune(store)
    assert (await store.reads.counts()).history == len(recent) + 1, "one was tried twice"
    with_archive = archived(store, archive.storage)
    seen = await listed(with_archive)
    assert [same(item) for item in seen] == recent + before
    assert [item.archived for item in seen] == [False] * len(recent) + [True] * len(before)
    for run_id, run in whole.items():
        cold = await with_archive.reads.run(TENANT, run_id)
        assert cold.archived
        assert msgspec.structs.replace(cold, archived=False) == run
    with pytest.raises(NotFound):
        await store.reads.run(TENANT, runs[0])
    files = sorted(folder.glob(f"tenant={TENANT}/day={date_of(FIRST)}/*"))
    assert len(files) > 3 and files[-1].name == "manifest.json"
    assert {file.stat().st_mode & 0o077 for file in folder.rglob("*")} == {0}
    assert folder.stat().st_mode & 0o777 == 0o700
    manifest = msgspec.json.decode(files[-1].read_bytes())
    assert manifest["rows"] == sum(each["rows"] for each in manifest["files"]) == 27


async def test_filters_hold_in_the_archive(store: Store, archive: Archive, time: Time) -> None:
    now = Once(at=time.now)  # the ids of runs agree with the clock of the store
    await ends(store, 10, task="greet", schedule=now)
    await ends(store, 10, task="count", queue="default", schedule=now)
    filters = [
        RunFilter(state=RunState.FAILED),
        RunFilter(state=RunState.SUCCEEDED, task="count"),
        RunFilter(queue="elsewhere"),
        RunFilter(due_from=time.now + timedelta(seconds=1)),
        RunFilter(due_until=time.now + timedelta(seconds=1)),
        RunFilter(state=RunState.RUNNING),
        RunFilter(job_id=(await listed(store))[7].job_id),
    ]
    hot = [await listed(store, filter=filter) for filter in filters]
    assert [len(found) for found in hot] == [4, 8, 0, 0, 20, 0, 1]
    time.advance(days=3)
    await archiver(store, archive).tick()
    await prune(store)
    cold = archived(store, archive.storage)
    assert [[same(item) for item in await listed(cold, filter=filter)] for filter in filters] == hot


async def test_another_tenant_sees_nothing(store: Store, archive: Archive, time: Time) -> None:
    runs = await ends(store, 5)
    time.advance(days=3)
    await archiver(store, archive).tick()
    await prune(store)
    cold = archived(store, archive.storage)
    assert await listed(cold, tenant_id=STRANGER) == []
    with pytest.raises(NotFound):
        await cold.reads.run(STRANGER, runs[0])


async def test_nothing_is_removed_before_it_is_archived(store: Store, archive: Archive, time: Time) -> None:
    """Also by a node that was not told of the archive."""
    await ends(store, 5)
    await store.archives.use_archive(used=True)
    time.advance(days=9)
    await prune(store)
    assert (await store.reads.counts()).history == 6
    await archiver(store, archive).tick()
    await prune(store)
    assert (await store.reads.counts()).history == 0


async def test_a_damaged_file_keeps_the_day_in_the_database(
    store: Store, archive: Archive, folder: Path, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    await ends(store, 12)
    time.advance(days=1, hours=2)
    await archiver(store, archive).tick()
    damaged, missing, *_ = sorted(folder.rglob("*.parquet"))
    body = bytearray(damaged.read_bytes())
    body[len(body) // 2] ^= 1
    damaged.write_bytes(body)
    missing.unlink()
    time.advance(days=2)
    meters = Meters()
    await archiver(store, archive, meters).tick()
    await prune(store)
    assert (await store.reads.counts()).history == 14
    assert meters.archive_failures == 1
    assert "2 files are not whole" in caplog.text and damaged.name in caplog.text
    (day,) = [day for day in await store.archives.archive_days() if day.day == FIRST]
    assert day.problem is not None and damaged.name in day.problem and day.archived_at is None
    # Its rows are here: it is written again, and only what is missing.
    whole = [file.stat().st_mtime_ns for file in sorted(folder.rglob("*.parquet")) if file not in (damaged, missing)]
    await archiver(store, archive).tick()
    await prune(store)
    assert (await store.reads.counts()).history == 0
    assert len(await listed(archived(store, archive.storage))) == 12
    assert missing.exists()
    again = [file.stat().st_mtime_ns for file in sorted(folder.rglob("*.parquet")) if file not in (damaged, missing)]
    assert again == whole


async def test_unavailable_storage_removes_nothing_and_says_so(
    store: Store, archive: Archive, folder: Path, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    await ends(store, 5)
    time.advance(days=3)
    folder.write_text("a file where the folder should be")
    meters = Meters()
    await archiver(store, archive, meters).tick()
    await prune(store)
    assert (await store.reads.counts()).history == 6
    assert meters.archive_failures == 1 and meters.archive_waiting >= 1
    assert "stays in the database" in caplog.text
    folder.unlink()
    await archiver(store, archive, meters).tick()
    await prune(store)
    assert (await store.reads.counts()).history == 0
    assert meters.archive_waiting == 0


async def test_a_day_is_resumed_after_the_last_recorded_part(store: Store, folder: Path, time: Time) -> None:
    class Fails(FolderStorage):
        puts: ClassVar[list[str]] = []
        most = 2

        def put(self, path: str, body: Any) -> None:
            if len(self.puts) >= self.most:
                raise ArchiveUnavailable("gone")
            self.puts.append(path)
            super().put(path, body)

    await ends(store, 23)
    time.advance(days=3)
    storage = Fails(folder)
    await archiver(store, Archive(store, storage, part_rows=5)).tick()
    assert len(storage.puts) == 2 and len(await store.archives.parts_of_day(FIRST)) == 2
    storage.most = 99
    await archiver(store, Archive(store, storage, part_rows=5)).tick()
    assert 3 < len(storage.puts) == len(set(storage.puts)), "parts that were recorded are not written again"
    await prune(store)
    assert len({item.id for item in await listed(archived(store, storage))}) == 23


async def test_two_nodes_at_once_archive_a_day_once(
    store: Store, other: Store, archive: Archive, folder: Path, time: Time
) -> None:
    await ends(store, 23)
    time.advance(days=3)
    second = Archive(other, FolderStorage(folder), part_rows=5)
    now = time.now
    done = await asyncio.gather(archive.write_day(FIRST, now), second.write_day(FIRST, now))
    assert sorted(done) == [False, True]
    assert sum(part.rows for part in await store.archives.parts_of_day(FIRST)) == 27


async def test_a_node_that_lost_its_claim_records_nothing(store: Store, archive: Archive, time: Time) -> None:
    await ends(store, 7)
    time.advance(days=3)
    now = time.now
    first = await store.archives.claim_day(FIRST, new_id(), timedelta(seconds=60), now)
    assert first is not None
    assert not await archive.write_day(FIRST, now)
    time.advance(minutes=2)
    assert await archive.write_day(FIRST, time.now)
    parts = await store.archives.parts_of_day(FIRST)
    assert not await store.archives.add_parts(first, [msgspec.structs.replace(parts[0], name="late.parquet")])
    assert not await store.archives.finish_day(first, 8)
    assert not await store.archives.renew_day(first, timedelta(seconds=60))
    assert await store.archives.parts_of_day(FIRST) == parts


async def test_a_restored_day_is_found_and_leaves_again(store: Store, archive: Archive, time: Time) -> None:
    await ends(store, 12)
    hot = await listed(store)
    whole = [await store.reads.run(TENANT, item.id) for item in hot]
    time.advance(days=3)
    await archiver(store, archive).tick()
    await prune(store)
    until = time.now + 2 * DAY
    restored = await archive.restore(FIRST, TENANT, until)
    assert (restored.rows, restored.after) == (14, None)
    assert (await archive.restore(FIRST, None, until)).rows == 0, "rows that are there are not doubled"
    assert await listed(store) == hot
    assert [await store.reads.run(TENANT, item.id) for item in hot] == whole
    cold = archived(store, archive.storage)
    assert [item.archived for item in await listed(cold)] == [False] * 12
    await archiver(store, archive).tick()
    await prune(store)
    assert await listed(store) == hot, "it stays as long as was asked for"
    time.advance(days=3)
    files = await store.archives.parts_of_day(FIRST)
    await archiver(store, archive).tick()
    await prune(store)
    assert await listed(store) == []
    assert [same(item) for item in await listed(cold)] == hot
    assert await store.archives.parts_of_day(FIRST) == files, "nothing was written twice"
    with pytest.raises(NotFound, match="is not archived"):
        await archive.restore(FIRST - 1, None, until)


async def test_one_tenant_of_a_day_is_restored_and_leaves_again(
    store: Store, archive: Archive, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = (await store.tenants.create_tenant(NewTenant("stranger"))).id
    runs, strange = await ends(store, 7), await ends(store, 7, tenant_id=stranger)
    time.advance(days=3)
    await archiver(store, archive).tick()
    await prune(store)
    await archive.restore(FIRST, TENANT, time.now + DAY)
    time.advance(hours=1)
    await archiver(store, archive).tick()
    await prune(store)
    assert [item.id for item in await listed(store)] == runs
    time.advance(days=2)
    await archiver(store, archive).tick()
    await prune(store)
    assert (await store.reads.counts()).history == 0
    cold = archived(store, archive.storage)
    assert [item.id for item in await listed(cold)] == runs
    assert [item.id for item in await listed(cold, 3, ALL, stranger)] == strange
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_restore_continues_where_it_stopped(store: Store, archive: Archive, time: Time) -> None:
    await ends(store, 12)
    hot = await listed(store)
    time.advance(days=3)
    await archiver(store, archive).tick()
    await prune(store)
    after, steps = (0, 0), 0
    while True:
        step = await archive.restore(FIRST, TENANT, time.now + DAY, after, most=lambda: True)
        steps += 1
        if step.after is None:
            break
        after = step.after
    assert steps > 2
    assert await listed(store) == hot


async def test_files_are_deleted_after_their_retention(
    store: Store, archive: Archive, folder: Path, time: Time
) -> None:
    short, never = (encode_options(Options(archive_retention=days * 86_400.0)) for days in (7, 0))
    await ends(store, 5)
    await ends(store, 5, options=short)
    await ends(store, 5, options=never)
    time.advance(days=3)
    await archiver(store, archive).tick()
    await prune(store)
    cold = archived(store, archive.storage)
    assert len(await listed(cold)) == 10
    time.advance(days=6)
    await archiver(store, archive).tick()
    assert len(await listed(cold)) == 5
    time.advance(days=360)
    await archiver(store, archive).tick()
    assert await listed(cold) == []
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert [day for day in await store.archives.archive_days() if day.rows] == []


async def test_a_tenant_has_its_own_retention(store: Store, archive: Archive, time: Time) -> None:
    tenant = await store.tenants.tenant_by_id(TENANT)
    limits = msgspec.structs.replace(tenant.limits, archive_days=5)
    await store.tenants.update_tenant(TENANT, TenantChange(limits=limits))
    await ends(store, 5)
    time.advance(days=3)
    await archiver(store, archive).tick()
    await prune(store)
    cold = archived(store, archive.storage)
    assert len(await listed(cold)) == 5
    time.advance(days=4)
    await archiver(store, archive).tick()
    assert await listed(cold) == []


@pytest.mark.parametrize("days", [1, 10])
@pytest.mark.parametrize("files", [False, True])
async def test_a_tenant_has_its_own_retention_in_the_database(
    store: Store, archive: Archive, time: Time, days: int, files: bool
) -> None:
    """Shorter than that of others, or longer; with an archive and without."""
    limits = msgspec.structs.replace(DEFAULT_LIMITS, history_days=days)
    own = (await store.tenants.create_tenant(NewTenant("own", limits=limits))).id
    others, hot = await ends(store, 7), await ends(store, 7, tenant_id=own)

    async def pruned() -> tuple[list[UUID], list[UUID]]:
        if files:
            await Archiver(store, archive, retention=4 * DAY, guard=_Now(store)).tick()
        idle = 0
        while idle < 4:
            idle = 0 if await store.pruning.prune(4 * DAY, 90 * DAY, 5) else idle + 1
        return ([item.id for item in await listed(store)], [item.id for item in await listed(store, 3, ALL, own)])

    time.advance(days=3)
    assert await pruned() == (others, hot if days == 10 else [])
    time.advance(days=3)
    assert await pruned() == ([], hot if days == 10 else [])
    if files:
        cold = archived(store, archive.storage)
        assert [item.id for item in await listed(cold)] == others
        assert [item.id for item in await listed(cold, 3, ALL, own)] == hot
    time.advance(days=6)
    assert await pruned() == ([], [])
    if files:
        assert [item.id for item in await listed(cold, 3, ALL, own)] == hot


@pytest.mark.parametrize("files", [False, True])
async def test_a_job_has_its_own_retention_in_the_database(
    store: Store, archive: Archive, time: Time, files: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Shorter than that of others, or longer, with all attempts; with an archive and without."""
    short, long = (encode_options(Options(retention=days * 86_400.0, tags=("own",))) for days in (1, 10))
    told = encode_options(Options(name='"retention": 1'))
    groups = []
    for options in (None, told, short, long):
        before = {item.id for item in await listed(store)}
        await ends(store, 7, options=options)
        groups.append([item.id for item in await listed(store) if item.id not in before])
    plain, similar, brief, kept = groups
    attempts = {run_id: (await store.reads.run(TENANT, run_id)).attempts for run_id in kept}

    async def pruned() -> list[UUID]:
        while await store.usage_counts.count_usage(await store.now()):
            pass
        if files:
            await Archiver(store, archive, retention=4 * DAY, guard=_Now(store)).tick()
        idle = 0
        while idle < 4:
            idle = 0 if await store.pruning.prune(4 * DAY, 90 * DAY, 5) else idle + 1
        return [item.id for item in await listed(store)]

    time.advance(days=3)
    assert await pruned() == [*kept, *similar, *plain]
    time.advance(days=3)
    assert await pruned() == kept
    await ends(store, 1)
    assert {run_id: (await store.reads.run(TENANT, run_id)).attempts for run_id in kept} == attempts
    if files:
        cold = archived(store, archive.storage)
        assert [item.id for item in await listed(cold)][1:] == [*kept, *brief, *similar, *plain]
        await archive.restore(FIRST, TENANT, time.now + DAY, (0, 0))
        assert len(await listed(store)) == 29
        time.advance(days=2)
        assert (await pruned())[1:] == kept, "what was restored leaves again"
    time.advance(days=8)
    assert await pruned() == []
    if files:
        assert [item.id for item in await listed(cold)][1:] == [*kept, *brief, *similar, *plain]
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_the_retention_of_a_job_is_rounded_up_to_days(store: Store, time: Time) -> None:
    kept = await ends(store, 5, options=encode_options(Options(retention=1.2 * 86_400)))
    time.advance(days=1.9)
    await prune(store)
    assert [item.id for item in await listed(store)] == kept
    time.advance(days=1.2)
    await prune(store)
    assert await listed(store) == []


@on_postgres
async def test_a_day_that_is_interrupted_while_it_is_rewritten_keeps_its_rows(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = encode_options(Options(retention=10 * 86_400.0))
    await ends(store, 5)
    plain = {item.id for item in await listed(store)}
    await ends(store, 5, options=kept)
    long = [item.id for item in await listed(store) if item.id not in plain]
    time.advance(days=3)
    keep_only, tries = partitions.keep_only, 0

    async def fail_twice(*arguments: Any) -> None:
        nonlocal tries
        tries += 1
        await keep_only(*arguments)
        if tries < 3:
            raise asyncpg.LockNotAvailableError("not now")

    monkeypatch.setattr(partitions, "keep_only", fail_twice)
    await store.pruning.prune(DAY, 90 * DAY)
    assert await listed(store) == [], "the day is detached"
    await prune(store)
    assert [item.id for item in await listed(store)] == long
    assert tries == 3, "it is not rewritten again and again"


@on_postgres
async def test_a_day_that_is_being_rewritten_keeps_its_rows_though_its_usage_is_forgotten(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = await ends(store, 5, options=encode_options(Options(retention=10 * 86_400.0)))
    time.advance(days=3)

    async def fail(*_: Any) -> None:
        raise asyncpg.LockNotAvailableError("not now")

    with monkeypatch.context() as patched:
        patched.setattr(partitions, "keep_only", fail)
        await store.pruning.prune(DAY, 90 * DAY)
    assert await listed(store) == [], "the day is detached"
    await store.usage_counts.prune_usage(time.now.date())
    await prune(store)
    assert [item.id for item in await listed(store)] == kept


async def test_what_history_refers_to_stays_while_it_cannot_be_archived(store: Store, time: Time) -> None:
    runs = await ends(store, 5)
    await store.archives.use_archive(used=True)
    time.advance(days=200)
    await prune(store)
    assert [item.id for item in await listed(store)] == runs


async def test_a_tenant_can_be_erased(store: Store, archive: Archive, folder: Path, time: Time) -> None:
    stranger = (await store.tenants.create_tenant(NewTenant("stranger"))).id
    await ends(store, 5)
    await ends(store, 5, tenant_id=stranger)
    time.advance(days=3)
    await archiver(store, archive).tick()
    await prune(store)
    cold = archived(store, archive.storage)
    assert len(await listed(cold, tenant_id=stranger)) == 5
    assert await archive.erase(stranger) == 2
    assert await listed(cold, tenant_id=stranger) == []
    assert not (folder / f"tenant={stranger}").exists()
    assert len(await listed(cold)) == 5


async def test_random_pages_have_no_gap_and_no_duplicate(store: Store, archive: Archive, time: Time) -> None:
    """Days in the database, in the archive, in both, and half removed; page sizes at random."""
    random = Random(7)
    for number in range(5):
        await ends(store, random.randint(3, 12), task=random.choice(("greet", "count")))
        time.advance(days=1)
        if number == 3:
            await archiver(store, archive).tick()
            await prune(store)
    hot = await listed(store, 1000)
    await archiver(store, archive).tick()
    everything = await listed(archived(store, archive.storage), 1000)
    assert len(hot) < len(everything)
    await archive.restore(FIRST + 1, TENANT, time.now + DAY)
    cold = archived(store, archive.storage)
    for filter in (RunFilter(), RunFilter(task="greet"), RunFilter(state=RunState.FAILED)):
        wanted = [item.id for item in await listed(cold, 1000, filter)]
        for _ in range(6):
            found: list[UUID] = []
            before: UUID | None = None
            while True:
                page = await cold.lists.list_runs(TENANT, filter, before, random.randint(1, 9))
                found += [item.id for item in page.items]
                if (before := page.next) is None:
                    break
            assert found == wanted
