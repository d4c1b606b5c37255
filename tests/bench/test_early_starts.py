"""Early starts: one run in one round is too many, however the other rounds went."""

import struct
import sys
from pathlib import Path
from uuid import UUID

import pytest

from bench import herd, precision
from bench.peers.peer import Peer
from bench.peers.tally import Tally
from tests.bench.small import results, small_bench
from tests.support.postgres import Server

GOOD, BAD = [0.5, 1.0, 2.0], [-0.5, 1.0, 2.0]


async def test_precision_counts_early_starts_over_all_rounds(
    postgres: Server, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = iter([GOOD, GOOD, BAD, GOOD, GOOD, GOOD])  # one of each store in turn
    planned = iter([GOOD, BAD, GOOD])

    async def measured(*_: object) -> list[float]:
        return next(rounds)

    async def late(*_: object) -> list[float]:
        return next(planned)

    monkeypatch.setattr(precision, "measure", measured)
    monkeypatch.setattr(Peer, "lateness", late)
    with small_bench(postgres, tmp_path, database, rounds=3) as bench:
        await precision.run(bench)
    body = results(tmp_path, "precision")
    assert body["ours"]["postgres"]["started early"] == 1 and body["reached"]["postgres"]["started early"] is False
    assert body["ours"]["sqlite"]["started early"] == 0 and body["reached"]["sqlite"]["started early"] is True
    assert body["reached"]["postgres"]["100 a second started early"] is False
    assert body["ours"]["postgres"]["100 a second p50"] == 1000.0


async def test_a_herd_counts_early_starts_over_all_rounds(
    postgres: Server, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = iter([GOOD, GOOD, GOOD, BAD, GOOD, GOOD])
    herds: list[set[UUID]] = []

    async def measured(_: str, __: object, jobs: list[UUID], ___: float) -> list[float]:
        herds.append(set(jobs))
        return next(rounds)

    monkeypatch.setattr(herd, "_measure", measured)
    with small_bench(postgres, tmp_path, database, rounds=3, runs=300) as bench:
        await herd.run(bench)
    body = results(tmp_path, "herd")
    assert len(set.union(*herds)) == 6 * 300  # each of others
    assert body["ours"]["postgres"]["started early"] == 1 and body["reached"]["postgres"]["started early"] is False


async def test_what_starts_before_its_time_is_below_nought(tmp_path: Path) -> None:
    pair = struct.Struct("=dd")
    (tmp_path / "1.tally").write_bytes(pair.pack(10.0, 12.0) + pair.pack(20.0, 19.5) + bytes(64))
    peer = Peer("duetime", lambda: "", driver="duetime", python=sys.executable)
    assert await peer._planned(Tally(tmp_path), 2, 1.0) == [-0.5, 2.0]
