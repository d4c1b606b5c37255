"""What only the embedded file has: one owner, one thread, group commit, and a disk."""

import asyncio
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from unittest.mock import ANY

import msgspec
import pytest

from chaos.real.disk import can_be_filled, fill, make_room, small_disk
from duetime.errors import InvalidInput, SchemaMismatch, StoreError, StoreLocked, StoreRejected, StoreUnavailable
from duetime.ids import new_id
from duetime.model.job import NewJob, Options, encode_options
from duetime.model.run import RunState
from duetime.model.schedule import Every, Once
from duetime.store.protocol.store import Hint
from duetime.store.shared.transaction import Transaction
from duetime.store.sqlite import SqliteStore, database, schema
from duetime.store.sqlite.connection import SQL, Connection
from duetime.store.sqlite.schema import VERSION
from tests.contract.conftest import on_sqlite
from tests.contract.hands import TENANT, fire, hand, job, submit
from tests.contract.worlds import World
from tests.support.releases import put_next_release

HOUR = timedelta(hours=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "duetime.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    await store.migrate()
    yield store
    await store.close()


async def test_the_folder_and_the_file_are_for_the_owner_alone(store: SqliteStore, path: Path) -> None:
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    assert (path.parent / "duetime.db.lock").read_text() == f"{os.getpid()}\n"


async def test_a_second_process_learns_who_owns_the_file(store: SqliteStore, path: Path) -> None:
    script = f"""
import asyncio
from pathlib import Path
from duetime.errors import StoreLocked
from duetime.store.sqlite import SqliteStore
try:
    asyncio.run(SqliteStore(Path({str(path)!r})).open())
except StoreLocked as error:
    print(error)
"""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == (
        f"the file {path} belongs to process {os.getpid()} (stop it, or use PostgreSQL (DUETIME_DATABASE_URL))"
    )
    # Asking did not take the lock away.
    again = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert again.stdout == done.stdout


async def test_a_file_whose_owner_was_killed_can_be_opened(path: Path) -> None:
    script = f"""
import asyncio, os
from pathlib import Path
from duetime.store.sqlite import SqliteStore
from tests.contract.hands import job, submit
async def main():
    store = SqliteStore(Path({str(path)!r}))
    await store.open()
    await store.migrate()
    await submit(store, job(args=b"[1]"))
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    store = SqliteStore(path)
    await store.open()
    assert await store.check_schema() == VERSION
    assert (await (await hand(store)).claim_one()).args == b"[1]"
    await store.close()


async def test_one_file_is_opened_once_in_a_process(store: SqliteStore, path: Path) -> None:
    other = SqliteStore(path.parent / ".." / "data" / "duetime.db")
    with pytest.raises(StoreLocked, match="this process"):
        await other.open()
    await other.close()
    assert (await store.reads.counts()).runs == 0
    await store.close()
    await other.open()
    assert (await other.reads.counts()).runs == 0
    await other.close()


async def test_an_opening_that_is_given_up_leaves_the_file_to_others(path: Path) -> None:
    opening = asyncio.create_task(SqliteStore(path).open())
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    other = SqliteStore(path)
    await other.open()
    await other.close()


async def test_opening_twice_is_opening_once(store: SqliteStore) -> None:
    await store.open()
    assert (await store.reads.counts()).runs == 0


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, and not a database at all\n" * 100)
    with pytest.raises(StoreError, match=r"notes\.txt is not a duetime database"):
        await SqliteStore(path).open()
    assert path.read_text().startswith("these are notes")
    # The failed attempt holds nothing.
    with pytest.raises(StoreError, match="not a duetime database"):
        await SqliteStore(path).open()


async def test_a_damaged_file_is_named(store: SqliteStore, path: Path) -> None:
    await submit(store, *(job(args=b"x" * 1000) for _ in range(200)))
    await store.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))
    with pytest.raises(StoreError, match="is damaged"):
        await store.open()


async def test_a_path_that_cannot_be_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be used"):
        await SqliteStore(tmp_path / "file" / "duetime.db").open()
    with pytest.raises(StoreError, match="cannot be used"):
        await SqliteStore(tmp_path).open()


async def test_a_full_disk_changes_nothing_and_asks_to_be_tried_again(store: SqliteStore) -> None:
    await submit(store, job())

    async def leave_room(pages: int) -> None:
        def work(connection: Connection, _now: int) -> None:
            (count,) = connection.raw.execute("pragma page_count").fetchone()
            connection.raw.execute(f"pragma max_page_count = {count + pages}")

        await store.database.run(work)

    await leave_room(2)
    big = [job(args=b"x" * 100_000) for _ in range(20)]
    with pytest.raises(StoreUnavailable, match="full"):
        await store.intake.submit(TENANT, big)
    # What shares the commit with it may fail too, but is then told so.
    small = await asyncio.gather(
        *(submit(store, job()) for _ in range(3)), store.intake.submit(TENANT, big), return_exceptions=True
    )
    assert isinstance(small[-1], StoreUnavailable)
    stored = sum(not isinstance(answer, StoreUnavailable) for answer in small)
    assert (await store.reads.counts()).runs == 1 + stored
    await leave_room(10_000)
    assert len(await store.intake.submit(TENANT, big)) == 20
    assert (await store.reads.counts()).runs == 1 + stored + 20


async def test_a_store_that_is_opened_on_a_full_disk_asks_to_be_tried_again(tmp_path: Path) -> None:
    with small_disk(tmp_path, "4m") as disk:
        if not can_be_filled(disk):
            pytest.skip("no disk may be mounted here: run the tests as root, with CAP_SYS_ADMIN")
        store = SqliteStore(disk / "duetime.db")
        fill(disk)
        with pytest.raises(StoreUnavailable, match=re.escape("No space left on device (free disk space)")):
            await store.open()
        make_room(disk)
        await store.open()
        await store.migrate()
        await submit(store, job())
        assert (await store.reads.counts()).runs == 1
        await store.close()


async def test_a_memory_store_works_like_a_file() -> None:
    store = SqliteStore(":memory:")
    await store.open()
    assert await store.migrate() == [VERSION]
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    await worker.succeed(run)
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.SUCCEEDED
    await store.close()
    await store.open()
    with pytest.raises(SchemaMismatch):
        await store.check_schema()
    await store.close()


async def test_of_many_at_once_only_the_one_that_fails_is_rolled_back(store: SqliteStore) -> None:
    """Operations that share a commit do not share their failures."""
    good = [job(queue=f"q{number}") for number in range(60)]
    bad = [job(timeout_ms=2**70, queue=f"bad{number}") for number in range(20)]
    answers = await asyncio.gather(
        *(submit(store, item) for pair in zip(good, bad * 3, strict=True) for item in pair), return_exceptions=True
    )
    assert [isinstance(answer, StoreRejected) for answer in answers] == [False, True] * 60
    assert (await store.reads.counts()).runs == 60
    assert len(await store.claims.lanes()) == 60
    worker = await hand(store)
    assert len(await worker.claim()) == 60


async def test_runs_that_are_too_large_for_one_value_are_claimed_in_several_claims(store: SqliteStore) -> None:
    """A value of SQLite has at most a gigabyte, and arguments may have 64 MB."""
    await store.database.run_outside(lambda it: it.raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 500_000))
    args = [b"%d" % number + b" " * 100_000 for number in range(10)]
    await submit(store, *(job(args=each) for each in args))
    worker, found = await hand(store), list[bytes]()
    for _ in range(5):
        found += [run.args for run in await worker.claim(10)]
    assert sorted(found) == sorted(args)


async def test_what_is_cancelled_while_it_waits_does_not_happen(store: SqliteStore) -> None:
    held = threading.Event()
    entered = threading.Event()

    def hold(_connection: Connection, _now: int) -> None:
        entered.set()
        held.wait(10)

    holding = asyncio.create_task(store.database.run(hold))
    await asyncio.to_thread(entered.wait, 10)
    waiting = asyncio.create_task(submit(store, job()))
    other = asyncio.create_task(submit(store, job()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    held.set()
    await holding
    await other
    assert (await store.reads.counts()).runs == 1


async def test_closing_first_does_what_was_asked_before(store: SqliteStore) -> None:
    asked = [asyncio.create_task(submit(store, job())) for _ in range(200)]
    await asyncio.sleep(0)
    await store.close()
    assert all(answer.created for answer in await asyncio.gather(*asked))
    with pytest.raises(StoreUnavailable, match="not open"):
        await submit(store, job())
    await store.open()
    assert (await store.reads.counts()).runs == 200


async def test_any_thread_and_any_event_loop_may_ask(store: SqliteStore) -> None:
    async def ask(place: SqliteStore) -> None:
        await asyncio.gather(*(submit(place, job()) for _ in range(25)))

    def in_a_loop_of_its_own() -> None:
        asyncio.run(ask(store.companion()))

    await asyncio.gather(ask(store), *(asyncio.to_thread(in_a_loop_of_its_own) for _ in range(4)))
    assert (await store.reads.counts()).runs == 125


async def test_an_event_loop_that_ended_meanwhile_harms_nobody(store: SqliteStore) -> None:
    async def ask_and_go() -> None:
        asked = asyncio.ensure_future(submit(store, job()))
        await asyncio.sleep(0)
        assert not asked.done()

    for _ in range(20):
        await asyncio.to_thread(asyncio.run, ask_and_go())
    assert (await submit(store, job())).created


async def test_hints_are_coalesced_and_reach_listeners_on_their_own_loops(store: SqliteStore) -> None:
    heard: list[Hint] = []
    stop = store.listen(heard.append)
    for _ in range(50):
        store.context.hints.give(Hint.READY)
    store.context.hints.give(Hint.CANCEL)
    await asyncio.sleep(0)
    assert heard == [Hint.READY, Hint.CANCEL]
    elsewhere: list[tuple[int, Hint]] = []

    async def listen_elsewhere() -> int:
        got = asyncio.Event()

        def hear(hint: Hint) -> None:
            elsewhere.append((threading.get_ident(), hint))
            got.set()

        store.companion().listen(hear)
        ready.set()
        await asyncio.wait_for(got.wait(), 10)
        return threading.get_ident()

    ready = threading.Event()
    listening = asyncio.create_task(asyncio.to_thread(asyncio.run, listen_elsewhere()))
    await asyncio.to_thread(ready.wait, 10)
    store.context.hints.give(Hint.READY)
    assert elsewhere == [(await listening, Hint.READY)]
    # Its loop is closed by now.
    store.context.hints.give(Hint.READY)
    stop()


async def test_commits_are_synced_to_the_disk(store: SqliteStore) -> None:
    def settings(connection: Connection, _now: int) -> tuple[str, int]:
        (mode,) = connection.raw.execute("pragma journal_mode").fetchone()
        (synchronous,) = connection.raw.execute("pragma synchronous").fetchone()
        return mode, synchronous

    assert await store.database.run(settings) == ("wal", 2)


async def test_old_code_runs_on_a_schema_that_bears_it(store: SqliteStore) -> None:
    async def execute(statement: str) -> None:
        await store.database.run(lambda connection, _: connection.raw.execute(statement) and None)

    newer = VERSION + 1
    await execute(f"insert into schema_versions values ({newer}, {VERSION}, 0)")
    assert await store.check_schema() == newer
    assert await store.migrate() == []
    await execute(f"update schema_versions set oldest_code = {newer} where version = {newer}")
    with pytest.raises(SchemaMismatch, match="install a newer duetime"):
        await store.check_schema()
    await execute("delete from schema_versions")
    with pytest.raises(SchemaMismatch, match="duetime migrate"):
        await store.check_schema()


async def test_a_file_of_the_last_release_is_upgraded_while_it_is_used(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def use(stop: asyncio.Event) -> int:
        worker, done = await hand(store), 0
        while not stop.is_set():
            await submit(store, *(job() for _ in range(5)))
            runs = await worker.claim()
            await worker.succeed(*runs)
            done += len(runs)
        return done

    stop = asyncio.Event()
    using = asyncio.create_task(use(stop))
    migrations = {
        "0002_expand.sql": "alter table jobs add column next_release text;\ncreate table next_release (id integer);",
        "0003_index.sql": "create index runs_by_due on runs (due_at);",
    }
    put_next_release(schema, monkeypatch, tmp_path, migrations)
    companion = store.companion()
    await companion.open()
    first, second = await asyncio.gather(store.migrate(), companion.migrate())
    await companion.close()
    assert sorted(first + second) == [2, 3]
    assert await store.check_schema() == 3
    stop.set()
    assert await using == (await store.reads.counts()).history > 0


async def test_a_migration_that_fails_leaves_nothing_behind(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrations = {"0002_fails.sql": "create table next_release (id integer);\nselect * from there_is_none;"}
    put_next_release(schema, monkeypatch, tmp_path, migrations)
    with pytest.raises(SchemaMismatch, match="there_is_none"):
        await store.migrate()
    put_next_release(schema, monkeypatch, tmp_path, {"0002_works.sql": "create table next_release (id integer);"})
    assert await store.migrate() == [2]


async def test_what_is_no_connection_is_refused(store: SqliteStore) -> None:
    with pytest.raises(InvalidInput, match="not a supported connection"):
        await store.caller_transactions.submit_within(object(), TENANT, job())
    with pytest.raises(InvalidInput, match="not a supported connection"):
        await store.caller_transactions.complete_within(object(), job().id, job().id, 1, None, None)


HOT = ["look", "claim", "claimed_before", "exceptions", "succeed_runs", "end_runs", "retry_runs", "due_cursors"]
HOT += [
    "lease_claimed",
    "live_runs_of",
    "make_runs",
    "skip_runs",
    "move_cursors",
    "unblock",
    "find_attempts",
    "ended_runs_of_job",
]
HOT += ["remove_succeeded", "due_in_backlog", "backlogs", "admit_fires", "put_in_backlogs", "end_cursors"]


@pytest.mark.parametrize("name", HOT)
async def test_the_hot_path_never_reads_a_whole_table(store: SqliteStore, name: str) -> None:
    def plans(connection: Connection, _now: int) -> list[str]:
        return [
            row[3]
            for statement in SQL[name]
            for row in connection.raw.execute(f"explain query plan {statement}", _Anything())
        ]

    found = await store.database.run(plans)
    assert not [line for line in found if re.match(r"SCAN (runs|history|cursors|jobs|[rhcj])\b", line)]


async def test_firing_takes_as_many_steps_for_many_jobs_as_for_one(store: SqliteStore) -> None:
    """The interpreter's lock is let go for each step, and a busy event loop has it for milliseconds each time: while
    the writer waits for it again and again, all callers wait for the writer."""
    exact = encode_options(Options(overlap="skip"))

    async def steps(count: int) -> int:
        each = (job(Every(HOUR)), job(Every(HOUR), options=exact), job(Once(delay=HOUR)))
        await store.intake.submit(TENANT, [one for _ in range(count) for one in map(_anew, each)])
        await store.database.run(lambda connection, now: connection.raw.execute(_ALL_DUE, (now - 1, now - 1)))
        taken: list[str] = []
        await store.database.run(lambda connection, _: connection.raw.set_trace_callback(taken.append))
        assert (await fire(store)).fired == 3 * count
        await store.database.run(lambda connection, _: connection.raw.set_trace_callback(None))
        return len(taken)

    few = await steps(1)
    assert await steps(50) == few < 30


async def test_new_lanes_of_a_batch_are_counted_once(store: SqliteStore) -> None:
    """The count reads all lanes of the tenant; one for each new lane kept the file for minutes."""
    taken: list[str] = []
    await store.database.run(lambda connection, _: connection.raw.set_trace_callback(taken.append))
    await store.intake.submit(TENANT, [job(queue=f"q{number}") for number in range(50)])
    await store.database.run(lambda connection, _: connection.raw.set_trace_callback(None))
    assert sum("insert into lanes" in statement for statement in taken) == 50
    assert sum("count(*) from (" in statement for statement in taken) == 1


_ALL_DUE = "update cursors set scan_at = ?, next_fire_at = ? where made = 0"


def _anew(one: NewJob) -> NewJob:
    return msgspec.structs.replace(one, id=new_id())


async def test_the_newest_attempts_are_found_without_sorting_the_others(store: SqliteStore) -> None:
    def plan(connection: Connection, _now: int) -> str:
        (statement,) = SQL["find_attempts"]
        return " | ".join(row[3] for row in connection.raw.execute(f"explain query plan {statement}", _Anything()))

    found = await store.database.run(plan)
    assert "history_of_tenant (tenant_id=? AND run_id=?)" in found
    assert "B-TREE FOR ORDER BY" not in found, "the fence comes from the index; only what shares a fence is sorted"


@pytest.mark.parametrize(
    ("name", "lists"), [("list_found", ("kinds", "values")), ("sum_attempts", ("tenant_ids", "targets"))]
)
async def test_two_lists_are_read_side_by_side(store: SqliteStore, name: str, lists: tuple[str, str]) -> None:
    """Joined by their places, each item of one list would read all of the other."""

    def instructions(count: int) -> Callable[[Connection, int], int]:
        def work(connection: Connection, _now: int) -> int:
            taken = 0

            def count_them() -> int:
                nonlocal taken
                taken += 1
                return 0

            given = _Anything(zip(lists, (json.dumps([1] * count), json.dumps(["x"] * count)), strict=True), bound=9)
            connection.raw.set_progress_handler(count_them, 100)
            connection.rows(name, given)
            connection.raw.set_progress_handler(None, 0)
            return taken

        return work

    few, many = [await store.database.run(instructions(count)) for count in (300, 3000)]
    assert many < 20 * few


class _Anything(dict[str, object]):
    def __missing__(self, key: str) -> object:
        return "[]" if key in ("fences", "words", "lane_ids", "places") else None


async def test_a_heartbeat_gets_through_while_a_hundred_batches_wait(store: SqliteStore) -> None:
    worker = await hand(store)
    asked = [asyncio.create_task(store.intake.submit(TENANT, [job() for _ in range(20)])) for _ in range(100)]
    await asyncio.sleep(0)
    renewal = await store.companion().leases.renew(worker.id, timedelta(seconds=30), [])
    assert renewal.freed == 0
    await asyncio.gather(*asked)


@pytest.mark.parametrize("name", ["parked_limits", "keys_in_turn", "payload_refs_in_turn"])
async def test_what_is_done_again_and_again_reads_no_whole_table(store: SqliteStore, name: str) -> None:
    def plans(connection: Connection, _now: int) -> list[str]:
        (statement,) = SQL[name]
        return [row[3] for row in connection.raw.execute(f"explain query plan {statement}", _Anything())]

    found = await store.database.run(plans)
    assert not [line for line in found if re.match(r"SCAN (limits|l|keys|payload_refs)$", line)], found


@on_sqlite
async def test_what_was_written_while_the_clock_was_ahead_keeps_no_history(world: World) -> None:
    store, time = world.store, world.time
    await store.open()
    await store.migrate()
    worker = await hand(store, timedelta(days=9000))
    time.advance(days=3000)
    await submit(store, *(job() for _ in range(10)))
    await worker.succeed(*await worker.claim())
    time.advance(days=-3000)
    await submit(store, *(job() for _ in range(10)))
    await worker.succeed(*await worker.claim())
    time.advance(days=400)
    for _ in range(9):
        await store.pruning.prune(timedelta(days=30), timedelta(days=30), 3)
    assert (await store.reads.counts()).history == 10, "those whose time has not come"
    await store.close()


async def test_work_that_waits_for_something_else_is_refused(store: SqliteStore) -> None:
    async def waits(transaction: Transaction) -> None:
        await transaction.execute("keep_secret", name="early", fresh=b"1")
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="await only its transaction"):
        await store.context.transactions.run(waits)
    assert await store.context.transactions.value("find_secret", name="early") is None


async def test_a_column_that_is_not_declared_is_refused(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SQL, "undeclared", ("select 1 as somewhere",))
    with pytest.raises(LookupError, match="undeclared returns somewhere"):
        await store.context.transactions.rows("undeclared")


async def test_what_is_queued_while_a_transaction_runs_joins_it(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_OPEN_FOR", 600.0)
    begun, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def keep(name: str) -> Callable[[Connection, int], None]:
        def work(connection: Connection, _now: int) -> None:
            if name == "first":
                begun.set()
                go_on.wait(60)
            connection.raw.execute("insert into secrets values (?, x'')", (name,))
            if name == "fails":
                raise ValueError(name)

        return work

    await store.database.run(lambda connection, _: connection.raw.set_trace_callback(done.append))
    done.clear()
    first = asyncio.create_task(store.database.run(keep("first")))
    await asyncio.to_thread(begun.wait, 60)
    others = [asyncio.create_task(store.database.run(keep(name))) for name in ("second", "fails")]
    alone = asyncio.create_task(store.database.run_outside(lambda connection: connection.raw.in_transaction))
    await asyncio.sleep(0)
    go_on.set()
    assert await asyncio.gather(first, *others, alone, return_exceptions=True) == [None, None, ANY, False]
    assert isinstance(others[1].exception(), ValueError)
    assert [statement for statement in done if statement in ("begin immediate", "commit")] == [
        "begin immediate",
        "commit",
    ]
    names = await store.database.run(
        lambda connection, _: connection.raw.execute("select name from secrets").fetchall()
    )
    assert {("first",), ("second",)} <= set(names) and ("fails",) not in names
