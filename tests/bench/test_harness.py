"""What the scenarios stand on: knobs, tallies, the search for a rate, limits, filled databases."""

import os
import struct
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import asyncpg
import pytest

import bench.__main__
from bench import disks, knobs, limits
from bench.context import Bench
from bench.filled import ERRORS, SQL, Filled, _fill, filling, make_due, running, sample, with_jitter
from bench.limits import drain
from bench.peers.environments import CannotRun
from bench.peers.registry import Peers
from bench.peers.tally import Tally
from bench.shares import share
from bench.steady import CLOSE, MOST_TRIES, bisect, holds, step_down
from bench.stores import Databases
from bench.tried import codecs, copying, event_loops, heap_only, prepared, timers
from bench.tried.ways import Place
from duetime.engine.scanner import Scanner
from duetime.model.job import decode_options
from duetime.store.postgres import PostgresStore
from tests.support.postgres import Server

MEMORY = Path("/dev/shm")


def test_knobs_are_read_from_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROUNDS", "1")
    monkeypatch.setenv("SECONDS", "0.5")
    monkeypatch.setenv("PEERS", "huey,arq")
    monkeypatch.setenv("BENCH_RESULTS", str(tmp_path))
    asked = knobs.from_environ()
    assert (asked.rounds, asked.seconds, asked.results) == (1, 0.5, tmp_path)
    assert asked.wants_peer("arq") and not asked.wants_peer("celery")
    assert not knobs.Knobs(peers="0").wants_peer("celery")
    assert knobs.Knobs(runs=1_000).scaled(50_000) == 500


def test_a_knob_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNS", "many")
    with pytest.raises(SystemExit, match="runs"):
        knobs.from_environ()


@pytest.mark.parametrize(
    ("told", "folder"),
    [
        ({}, knobs.RESULTS),
        ({"PEERS": "all", "ROUNDS": "5"}, knobs.RESULTS),
        ({"PEERS": "0"}, knobs.TRIES),
        ({"PEERS": "huey"}, knobs.TRIES),
        ({"ROUNDS": "2"}, knobs.TRIES),
        ({"RUNS": "5000"}, knobs.TRIES),
        ({"SECONDS": "1"}, knobs.TRIES),
        ({"STORED": "1000"}, knobs.TRIES),
        ({"CHURN": "1000"}, knobs.TRIES),
        ({"PEERS": "0", "BENCH_RESULTS": str(knobs.RESULTS)}, knobs.RESULTS),
    ],
)
def test_a_try_leaves_published_results_alone(
    monkeypatch: pytest.MonkeyPatch, told: dict[str, str], folder: Path
) -> None:
    for name in (*map(str.upper, knobs.MEASURED_BY), "BENCH_RESULTS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert knobs.from_environ().results == folder


def test_a_peer_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERS", "huey,selery")
    with pytest.raises(SystemExit, match=r"no peer 'selery'; there are: .*celery"):
        knobs.from_environ()


def test_starts_are_counted_across_processes_and_their_forks(tmp_path: Path) -> None:
    script = "import os, time\nfrom bench.peers.tally import hit\nfor _ in range(50): hit(time.time() - 1)\n"
    script += "pid = os.fork()\nfor _ in range(25): hit(time.time() - 1)\nif pid: os.wait()\n"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script], env={**os.environ, "TALLY": str(tmp_path)}, check=True)
    tally = Tally(tmp_path)
    assert tally.count() == 2 * (50 + 2 * 25)
    assert tally.count() == len(tally.starts)  # nothing is counted twice
    assert all(1.0 <= lag < 30 for lag in tally.lags())
    assert tally.rate() > 0
    tally.forget()
    assert tally.count() == 0 and tally.starts == []


def test_a_start_that_is_half_written_is_counted_when_it_is_whole(tmp_path: Path) -> None:
    pair, file = struct.Struct("=dd"), tmp_path / "1.tally"
    file.write_bytes(pair.pack(1.0, 2.0) + pair.pack(3.0, 0.0) + bytes(64))
    tally = Tally(tmp_path)
    assert tally.count() == 1
    file.write_bytes(pair.pack(1.0, 2.0) + pair.pack(3.0, 4.0) + bytes(64))
    assert tally.count() == 2 and tally.lags() == [1.0, 1.0]


def test_percentiles() -> None:
    figures = list(range(100))
    assert share(figures, 0.5) == 50 and share(figures, 0.95) == 95 and share(figures, 1.0) == 99


@pytest.mark.parametrize(("able", "first"), [(1_000.0, 100.0), (1_000.0, 5_000.0), (1_000.0, 1_000.0)])
async def test_the_highest_rate_is_found_from_above_and_below(able: float, first: float) -> None:
    async def keeps_up(rate: float) -> bool:
        return rate <= able

    assert able / CLOSE < await bisect(keeps_up, first, MOST_TRIES) <= able


async def test_who_never_keeps_up_gets_nothing() -> None:
    async def never(_: float) -> bool:
        return False

    assert await bisect(never, 1_000.0, 4) == 0.0


async def test_a_rate_that_is_not_held_is_stepped_down() -> None:
    async def is_held(rate: float) -> bool:
        return rate <= 900.0

    assert 850.0 <= await step_down(is_held, 1_000.0) <= 900.0
    assert await step_down(is_held, 800.0) == 800.0
    assert await step_down(is_held, 5_000.0) == 0.0  # so far from what was found that nothing is told


def test_a_rate_is_held_when_lag_is_short_and_does_not_grow() -> None:
    assert holds([0.2] * 90)
    assert holds([0.01] * 60 + [0.06] * 30)  # by less than counts
    assert not holds([0.2] * 60 + [0.5] * 30)
    assert not holds([1.2] * 90)
    assert not holds([0.1] * 80 + [float("inf")] * 10)


async def test_the_pinned_drain_is_what_it_says(database: str) -> None:
    """Claims of 500 with a fence and a claims row, 200 bytes of arguments, history, no index touched by a claim."""
    assert drain.BATCH == 500 and len(drain.ARGS) == 199
    assert "limit 500 for update skip locked" in drain._CLAIM and "fence = fence + 1" in drain._CLAIM
    watching, connection = await asyncpg.connect(database), await asyncpg.connect(database)
    notes: list[int] = []
    try:
        await drain.fill_pinned(connection, 2_000)
        sessions = "select count(*) from pg_stat_activity where datname = current_database()"
        sessions += " and backend_type = 'client backend'"
        claims, claim = "select max(claim_no), count(*) from pinned.claims", (uuid.uuid4(), 1, drain.EPOCH)
        taken = await connection.fetch(drain._CLAIM, *claim)
        assert len(taken) == 500 and {row["fence"] for row in taken} == {1}
        assert all(isinstance(row["ready"], int) for row in taken)
        assert tuple((await watching.fetch(claims))[0]) == (1, 1)
        ids = [row["id"] for row in taken]
        assert await connection.fetchval(drain._COMPLETE, ids, [2] * 500, claim[0], 1) == 0  # another's fence
        await connection.execute("insert into pinned.claims values ($1, 1, $2)", claim[0], ids)
        assert await connection.fetchval(drain._COMPLETE, ids, [1] * 500, claim[0], 1) == 500
        await drain.drain_pinned(connection, 1_500)
        notes.append(await watching.fetchval(sessions))
        assert await watching.fetchval("select count(*) from pinned.runs") == 0
        assert await watching.fetchval("select count(*) from pinned.claims") == 0
        kept = "select count(*), min(length(args)), max(fence) from pinned.history where finished_at is not null"
        assert tuple((await watching.fetch(kept))[0]) == (2_000, 199, 1)
        await connection.execute("select pg_stat_force_next_flush()")
        updated, heap_only = (
            await watching.fetch("select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'runs'")
        )[0]
        assert updated == 2_000 and heap_only >= 0.9 * updated
        assert notes == [2]  # this test's and the loop's own
    finally:
        await connection.execute("drop schema pinned cascade")
        await connection.close()
        await watching.close()


async def test_the_pinned_loops_run_at_any_size(database: str, tmp_path: Path) -> None:
    assert await limits.drain_postgres(database, 700) > 0
    assert await limits.fire_postgres(database, 1_200) > 0
    assert await limits.submit_postgres(database, 20, 10) > 0
    assert await limits.steady_postgres(database, 1_700) > 0
    assert limits.drain_sqlite(tmp_path / "drain.db", 700) > 0
    assert limits.fire_sqlite(tmp_path / "fire.db", 1_200) > 0
    assert limits.submit_sqlite(tmp_path / "submit.db", 20, 10) > 0
    assert limits.steady_sqlite(tmp_path / "steady.db", 1_700) > 0


async def test_a_filled_database_is_like_one_that_was_submitted_to(database: str) -> None:
    await _fill(database, 4_000)
    connection = await asyncpg.connect(database)
    count = "select count(*) from duetime.{} where {}"
    try:
        assert await connection.fetchval(count.format("jobs", "recurring and state = 0")) == 2_000
        assert await connection.fetchval(count.format("jobs", "not recurring")) == 2_000
        assert await connection.fetchval(count.format("cursors", "true")) == 4_000
        assert await connection.fetchval(count.format("history", "true")) == 4_000
        assert await connection.fetchval(count.format("dead_letters", "true")) == 40
        tenants = "select count(distinct tenant_id) from duetime.{}"
        assert await connection.fetchval(tenants.format("jobs")) == 1_000
        assert await connection.fetchval(tenants.format("labels")) == 1_000
        assert await connection.fetchval(count.format("jobs", "tenant_id = 1 and state = 0")) == 2 * 182
        assert 340 < await connection.fetchval(count.format("history", "tenant_id = 1")) < 390
        assert await connection.fetchval(count.format("graphs", "true")) == 20
        assert await connection.fetchval(count.format("audit", "true")) == 40
        assert await connection.fetchval("select count(distinct fingerprint) from duetime.dead_letters") == len(ERRORS)
        async with running(connection, 300):
            assert await connection.fetchval(count.format("runs", "worker_id is not null")) == 300
            assert await connection.fetchval("select sum(cardinality(run_ids)) from duetime.claims") == 300
        assert await connection.fetchval(count.format("workers", "true")) == 0
        store = PostgresStore(database)
        await store.open()
        try:
            assert (await Scanner(store).tick()) > 0  # nothing fires by itself
            assert (await store.reads.counts()).runs == 0
            jobs = await sample(connection, 500)
            assert len({*jobs, *await sample(connection, 500, offset=500)}) == 1_000
            await make_due(connection, jobs, await store.now())
            await Scanner(store).tick()
            assert (await store.reads.counts()).runs == 500
        finally:
            await store.close()
    finally:
        await connection.close()


async def test_a_scenario_that_fails_leaves_the_others_to_be_measured(
    monkeypatch: pytest.MonkeyPatch, postgres: Server, tmp_path: Path
) -> None:
    measured: list[str] = []

    async def fine(_: Bench) -> None:
        measured.append("drain")

    async def broken(_: Bench) -> None:
        raise CannotRun("submit failed: connection refused")

    monkeypatch.setattr(bench.__main__, "SCENARIOS", {"fire": broken, "drain": fine})
    given = Bench(knobs.Knobs(), Databases(postgres, tmp_path), Peers(knobs.Knobs(), str), Filled(tmp_path))
    failed = await bench.__main__._measure(["fire", "drain"], given)
    assert failed == {"fire": "CannotRun: submit failed: connection refused"} and measured == ["drain"]


def test_without_room_nothing_is_filled(monkeypatch: pytest.MonkeyPatch, postgres: Server, tmp_path: Path) -> None:
    asked = knobs.Knobs(stored=10_000_000, data=tmp_path / "data")
    given = Bench(asked, Databases(postgres, tmp_path), Peers(asked, str), Filled(asked.data))
    monkeypatch.setattr(disks.shutil, "disk_usage", lambda _: SimpleNamespace(free=14_000_000_000))
    with (
        pytest.raises(disks.NoDisk, match=r"take about 15\.0 GB in .*, where 14\.0 GB are free"),
        given.server_with_many(),
    ):
        pass
    assert not asked.data.exists()
    asked.data.mkdir()
    with (asked.data / "filled before").open("wb") as kept:
        kept.truncate(2_000_000_000)
    disks.check_room(asked.data, asked.stored)  # what is there already is not needed again


@pytest.mark.skipif(disks.file_system(MEMORY) != "tmpfs", reason="no file system in memory is here to be told apart")
def test_databases_are_not_made_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if disks.is_in_memory(tmp_path):
        pytest.skip("there is no disk to move to")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    disks.keep_on_disk(tmp_path / "data")
    assert tempfile.gettempdir() == str(tmp_path), "on a disk already"
    monkeypatch.setattr(tempfile, "tempdir", str(MEMORY))
    with pytest.raises(disks.NoDisk, match="is in memory, where no commit is durable"):
        disks.keep_on_disk(MEMORY / "data")
    disks.keep_on_disk(tmp_path / "data")
    assert tempfile.gettempdir() == str(tmp_path / "data" / "temporary") and Path(tempfile.gettempdir()).is_dir()
    with pytest.raises(disks.NoDisk, match="is in memory"):
        disks.check_room(MEMORY / "data", 10)


async def test_what_was_filled_in_another_way_or_not_to_the_end_is_filled_again(
    postgres: Server, tmp_path: Path
) -> None:
    kept = Filled(tmp_path)
    kept._server = postgres
    try:
        dsn = await kept.database(1_000)
        for told, again in ((filling(), False), ("another", True), (None, True)):
            connection = await asyncpg.connect(dsn)
            before = await connection.fetchval("select filled_at from filled.facts")
            await connection.execute("update filled.facts set filling = $1", told)
            await connection.close()
            await kept.database(1_000)
            connection = await asyncpg.connect(dsn)
            assert (await connection.fetchval("select filled_at from filled.facts") != before) is again
            await connection.close()
    finally:
        postgres.drop_database("filled_1000")


async def test_jobs_have_jitter_for_as_long_as_it_is_wanted(database: str) -> None:
    """And what else they say stays; what a run that was broken off has left behind is put back."""
    await _fill(database, 4_000)
    connection = await asyncpg.connect(database)
    said = "select id, convert_from(options, 'UTF8')::jsonb, xmin::text from duetime.jobs order by id"
    try:
        before, jobs = await connection.fetch(said), await sample(connection, 500)
        async with with_jitter(connection, jobs, 0.0):
            assert await connection.fetch(said) == before  # not even written to
        with pytest.raises(ZeroDivisionError):
            async with with_jitter(connection, jobs, 30.0):
                found = {
                    row[0]: decode_options(row[1].encode() if row[1] else None) for row in await connection.fetch(said)
                }
                assert {job for job, options in found.items() if options.jitter == 30.0} == set(jobs)
                owners = Counter(decode_options(row[1].encode() if row[1] else None).owner for row in before)
                assert Counter(options.owner for options in found.values()) == owners
                assert {"nightly"} < {tag for job in jobs for tag in found[job].tags}
                raise ZeroDivisionError
        assert [row[:2] for row in await connection.fetch(said)] == [row[:2] for row in before]
        await connection.execute(SQL["set_aside"], jobs)
        await connection.execute(SQL["add_jitter"], jobs, 30.0)
        async with with_jitter(connection, jobs, 0.0):
            assert [row[:2] for row in await connection.fetch(said)] == [row[:2] for row in before]
    finally:
        await connection.close()


def test_what_was_tried_can_be_tried_again(postgres: Server, tmp_path: Path) -> None:
    place = Place(Databases(postgres, tmp_path), 500)
    for ways in (prepared.WAYS, event_loops.WAYS, heap_only.WAYS, copying.WAYS, timers.WAYS, codecs.WAYS):
        assert all(way(place) > 0 for way in ways.values())


def test_a_kept_server_comes_back_with_its_data(postgres: Server) -> None:
    with tempfile.TemporaryDirectory(prefix="duetime-kept-") as folder:
        Path(folder).chmod(0o755)  # the server's user has to reach it
        kept = Path(folder) / "kept"
        with Server(postgres.binaries, keep=kept) as first:
            first.create_database("one")
        with Server(postgres.binaries, keep=kept, work_mem="5MB") as second:
            second.create_database("two", template="one")  # which is still there
        assert not first.folder.exists() and not second.folder.exists()
