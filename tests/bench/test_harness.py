"""What the scenarios stand on: knobs, tallies, the search for a rate, limits, filled databases."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import asyncpg
import pytest

from bench import knobs, limits
from bench.filled import _fill, make_due, sample
from bench.peers.tally import Tally
from bench.shares import share
from bench.steady import bisect
from duetime.engine.scanner import Scanner
from duetime.store.postgres import PostgresStore
from tests.support.postgres import Server


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


def test_starts_are_counted_across_processes_and_their_forks(tmp_path: Path) -> None:
    script = "import os, time\nfrom bench.peers.tally import hit\nfor _ in range(50): hit(time.time() - 1)\n"
    script += "pid = os.fork()\nfor _ in range(25): hit(time.time() - 1)\nif pid: os.wait()\n"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script], env={**os.environ, "TALLY": str(tmp_path)}, check=True)
    tally = Tally(tmp_path)
    assert tally.count() == 2 * (50 + 2 * 25)
    assert tally.count() == len(tally.starts)  # nothing is counted twice
    lags = tally.lags()
    assert 1.0 <= lags[0] <= lags[-1] < 30
    assert tally.rate() > 0


def test_percentiles() -> None:
    figures = list(range(100))
    assert share(figures, 0.5) == 50 and share(figures, 0.95) == 95 and share(figures, 1.0) == 99


@pytest.mark.parametrize(("able", "first"), [(1_000.0, 100.0), (1_000.0, 5_000.0), (1_000.0, 1_000.0)])
async def test_the_highest_rate_is_found_from_above_and_below(able: float, first: float) -> None:
    async def keeps_up(rate: float) -> bool:
        return rate <= able

    assert 0.9 * able <= await bisect(keeps_up, first, 12) <= able


async def test_who_never_keeps_up_gets_nothing() -> None:
    async def never(_: float) -> bool:
        return False

    assert await bisect(never, 1_000.0, 4) == 0.0


async def test_the_pinned_loops_run_at_any_size(database: str, tmp_path: Path) -> None:
    assert await limits.drain_postgres(database, 700) > 0
    assert await limits.fire_postgres(database, 1_200) > 0
    assert await limits.submit_postgres(database, 20, 10) > 0
    assert limits.drain_sqlite(tmp_path / "drain.db", 700) > 0
    assert limits.fire_sqlite(tmp_path / "fire.db", 1_200) > 0
    assert limits.submit_sqlite(tmp_path / "submit.db", 20, 10) > 0


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
        assert await connection.fetchval("select count(distinct tenant_id) from duetime.jobs") == 1_000
        store = PostgresStore(database)
        await store.open()
        try:
            assert (await Scanner(store).tick()) > 0  # nothing fires by itself
            assert (await store.counts()).runs == 0
            jobs = await sample(connection, 500)
            assert len(set(jobs)) == 500
            await make_due(connection, jobs, await store.now())
            await Scanner(store).tick()
            assert (await store.counts()).runs == 500
        finally:
            await store.close()
    finally:
        await connection.close()


def test_a_kept_server_comes_back_with_its_data(postgres: Server) -> None:
    with tempfile.TemporaryDirectory(prefix="duetime-kept-") as folder:
        Path(folder).chmod(0o755)  # the server's user has to reach it
        kept = Path(folder) / "kept"
        with Server(postgres.binaries, keep=kept) as first:
            first.create_database("one")
        with Server(postgres.binaries, keep=kept, work_mem="5MB") as second:
            second.create_database("two", template="one")  # which is still there
        assert not first.folder.exists() and not second.folder.exists()
