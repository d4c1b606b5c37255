"""Rates that are held: searched for closely, and none at all is no figure."""

from pathlib import Path

import pytest

from bench import steady
from bench.peers.environments import CannotRun
from bench.peers.peer import Peer
from tests.bench.small import results, small_bench
from tests.support.postgres import Server


def _that_bears(monkeypatch: pytest.MonkeyPatch, most: float) -> list[float]:
    """Let every peer keep up with so many a second; returns the rates that are tried."""
    asked: list[float] = []

    async def lags(_: Peer, rate: float, *__: object) -> list[float]:
        asked.append(rate)
        return [0.01 if rate <= most else 5.0] * 30

    monkeypatch.setattr(Peer, "lags", lags)
    return asked


@pytest.mark.parametrize("able", [17.0, 299.0, 1_000.0, 4_321.0])
async def test_a_search_goes_on_until_it_is_close(
    able: float, postgres: Server, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _that_bears(monkeypatch, able)
    with small_bench(postgres, tmp_path, database, runs=100_000) as bench:
        rate = await steady.highest_rate(Peer("somebody", lambda: ""), bench)
    assert able / steady.CLOSE < rate <= able
    assert len(asked) <= steady.MOST_TRIES


async def test_who_keeps_up_with_nothing_has_failed(
    postgres: Server, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _that_bears(monkeypatch, 0.0)
    failed = pytest.raises(CannotRun, match="kept up with none of 16 rates from 5 a second downwards")
    with small_bench(postgres, tmp_path, database) as bench, failed:
        await steady._round(Peer("somebody", lambda: ""), bench, {})


async def test_who_holds_nothing_has_failed_and_is_searched_for_again(
    postgres: Server, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _that_bears(monkeypatch, 0.0)
    peer = Peer("somebody", lambda: "")
    tried = {peer: 1_000.0}
    failed = pytest.raises(CannotRun, match="held none of 8 rates from 1,000 a second downwards")
    with small_bench(postgres, tmp_path, database) as bench, failed:
        await steady._round(peer, bench, tried)
    assert tried == {}


async def test_duetime_that_holds_nothing_holds_nothing(
    postgres: Server, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _that_bears(monkeypatch, 0.0)
    with small_bench(postgres, tmp_path, database, rounds=1) as bench:
        await steady.run(bench)
    body = results(tmp_path, "steady")
    assert body["ours"]["postgres"]["highest rate"] == 0 and body["reached"]["postgres"]["highest rate"] is False
