"""Search: any part of a name, task, tag, owner, key or id, in any case, among the tenant's own jobs."""

from datetime import timedelta
from uuid import UUID

import pytest

from duetime.clock import monotonic, monotonic_from
from duetime.engine import search_indexer
from duetime.engine.search_indexer import SearchIndexer
from duetime.ids import new_id, show
from duetime.model.job import Options, encode_options
from duetime.model.lists import JobFilter, JobStatus, RunFilter
from duetime.model.schedule import NOW, Cron
from duetime.store.protocol.store import Store
from duetime.store.shared import lists
from tests.contract.hands import STRANGER, TENANT, hand, job, submit
from tests.contract.worlds import Time

DAILY = Cron("0 9 * * *")


def named(name: str, **more: object) -> bytes:
    return encode_options(Options(name=name, **more))  # type: ignore[arg-type]


async def find(store: Store, text: str, tenant_id: int = TENANT, **more: object) -> list[UUID]:
    """What all pages have, two jobs on each."""
    found: list[UUID] = []
    before: UUID | None = None
    while True:
        page = await store.lists.list_jobs(tenant_id, JobFilter(search=text, **more), before, 2)  # type: ignore[arg-type]
        found += [item.id for item in page.items]
        before = page.next
        if before is None:
            return found


async def test_a_job_is_found_by_every_part_that_a_list_shows(store: Store) -> None:
    report = job(
        DAILY,
        task="billing.refund",
        options=encode_options(
            Options(name="Größe des Lagers", owner="acme-corp", tags=("month-end", "mail"), key="lager/7")
        ),
        key="lager/7",
    )
    other = job(DAILY, options=named("Weekday report"))
    once = job(options=named("Receipt 17"))
    await submit(store, report, other, once)
    (stranger,) = await store.intake.submit(
        STRANGER, [job(DAILY, tenant_id=STRANGER, options=named("Weekday report of strangers"))]
    )
    await SearchIndexer(store).tick()
    for text in ("größe", "LAGER", "des l", "acme", "nth-en", "lager/7", "ing.ref", show("job", report.id)[:-4]):
        assert await find(store, text) == [report.id], text
    assert await find(store, show("job", report.id)) == [report.id]
    assert await find(store, "eekday") == [other.id]
    assert await find(store, "strangers") == []
    assert await find(store, "eekday", STRANGER) == [stranger.job_id]
    assert await find(store, "no such thing") == await find(store, '"*') == await find(store, "% _") == []
    # In every home, and together with other conditions.
    worker = await hand(store)
    await worker.succeed(await worker.claim_one())
    assert await find(store, "receipt") == [once.id]
    assert await find(store, "receipt", status=JobStatus.FAILED) == []
    assert await find(store, "lager", tag="mail", queue="default") == [report.id]
    assert await find(store, "lager", tag="other") == []
    # Two characters are looked for in the newest jobs.
    assert await find(store, "ko") == []
    assert await find(store, "re") == [once.id, other.id, report.id]


@pytest.mark.parametrize("most", [3, 5000])
async def test_pages_are_whole_and_newest_first(store: Store, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """By the index, and where a text is too frequent for it."""
    monkeypatch.setattr(lists, "MOST_TERMS", most)
    jobs = [
        job(DAILY, options=named(f"Receipt {number}" if number % 3 else "Other", tags=("all",))) for number in range(20)
    ]
    await submit(store, *jobs)
    await SearchIndexer(store).tick()
    wanted = [each.id for number, each in enumerate(jobs) if number % 3]
    assert await find(store, "receipt") == wanted[::-1]
    assert await find(store, "all") == [each.id for each in reversed(jobs)]


async def test_the_index_follows_late_labels_and_forgets_unused_ones(store: Store) -> None:
    fresh, gone = job(DAILY, options=named("Fresh one")), job(DAILY, options=named("Gone one"))
    await submit(store, fresh, gone)
    indexer, other = SearchIndexer(store), SearchIndexer(store)
    await indexer.tick()
    assert await store.search.take_search(new_id(), timedelta(minutes=1)) is None
    await other.tick()
    await store.replay.delete_job(TENANT, gone.id)
    assert await store.search.prune_terms((0, "", ""), 100) is None
    assert await find(store, "gone") == []
    assert await find(store, "fresh") == [fresh.id]
    # In batches, of which none cuts the labels of a job.
    seen, last = await store.search.index_labels(UUID(int=0), UUID(int=(1 << 128) - 1), 1)
    assert (seen, last is None) == (1, False)


async def test_old_labels_are_read_rarely(store: Store, time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[UUID] = []
    index = store.search.index_labels

    async def noting(after: UUID, before: UUID, batch: int) -> tuple[int, UUID | None]:
        read.append(before)
        return await index(after, before, batch)

    monkeypatch.setattr(store.search, "index_labels", noting)
    began, passed, counts = monotonic(), [0.0], []
    with monotonic_from(lambda: began + sum(passed)):
        indexer = SearchIndexer(store)
        for seconds in (0, 1, 4, 5, 55, 535):
            time.advance(seconds=seconds)
            passed.append(seconds)
            read.clear()
            await indexer.tick()
            counts.append(len(read))
    assert counts == [4, 1, 2, 2, 3, 4], "the newest each second, then after 5 s, a minute and ten minutes"


async def test_what_is_kept_of_the_work_holds_no_label(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It outlives an erased tenant."""
    monkeypatch.setattr(search_indexer, "_PRUNE_EVERY", -1.0)
    monkeypatch.setattr(search_indexer, "_KEEP_EVERY", -1.0)
    await submit(store, *(job(DAILY, options=named(f"secret-{number}")) for number in range(3)))
    kept: list[bytes] = []
    keep, prune = store.search.keep_search, store.search.prune_terms

    async def noting(holder: UUID, body: bytes, period: timedelta) -> bool:
        kept.append(body)
        return await keep(holder, body, period)

    monkeypatch.setattr(store.search, "keep_search", noting)
    monkeypatch.setattr(store.search, "prune_terms", lambda after, batch: prune(after, 1))
    indexer = SearchIndexer(store)
    for _ in range(8):
        await indexer.tick()
    assert kept and not any(b"secret" in body for body in kept)


@pytest.mark.parametrize("given", [{"search": "ing.REF"}, {"task": "billing.refund"}])
async def test_a_rare_task_is_on_the_first_page(
    store: Store, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    monkeypatch.setattr(lists, "BOUND", 60)
    monkeypatch.setattr(lists, "MOST_SECONDS", 60.0)
    rare = [job(task="billing.refund"), job(DAILY, task="billing.refund"), job(task="billing.refund")]
    named_so = job(DAILY, task="other.task", options=named("All about billing.refund"))
    await submit(store, *rare, named_so)
    await submit(store, *(job(DAILY if n % 2 else NOW, task="billing.charge") for n in range(400)))
    await SearchIndexer(store).tick()
    page = await store.lists.list_jobs(TENANT, JobFilter(**given), None, 2)  # type: ignore[arg-type]
    wanted = [each.id for each in rare]
    if "search" in given:
        assert page.items
        assert await find(store, given["search"]) == sorted([*wanted, named_so.id], reverse=True)
        assert await find(store, given["search"], task="other.task") == [named_so.id]
    else:
        assert [item.id for item in page.items] == sorted(wanted, reverse=True)[:2]
    nothing = await store.lists.list_jobs(TENANT, JobFilter(task="no.such.task"), None, 2)
    assert (nothing.items, nothing.next) == ((), None)


async def test_runs_of_a_rare_task_are_on_the_first_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BOUND", "LIVE_BOUND", "SPARSE_BOUND"):
        monkeypatch.setattr(lists, name, 60)
    monkeypatch.setattr(lists, "MOST_SECONDS", 60.0)
    await submit(store, job(task="billing.refund"))
    await submit(store, *(job(task="billing.charge") for _ in range(400)))
    page = await store.lists.list_runs(TENANT, RunFilter(task="billing.refund"))
    assert [item.task for item in page.items] == ["billing.refund"]
