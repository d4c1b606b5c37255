"""Peers: driven alike, named when they cannot run, left out when they are not wanted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from bench.knobs import Knobs
from bench.nodes import drain_by
from bench.peers import environments
from bench.peers.environments import CannotRun
from bench.peers.names import BLOCKING_PEERS, FORGETFUL_PEERS, NODE_PEERS, PYTHON_PEERS
from bench.peers.peer import Peer
from bench.peers.registry import Peers
from bench.sweep import SETTINGS

ROOT = Path(__file__).parents[2]


def test_a_peer_that_cannot_be_installed_is_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(environments, "HOME", tmp_path / "peers")
    monkeypatch.setattr(environments, "REQUIREMENTS", tmp_path)
    (tmp_path / "procrastinate.txt").write_text("procrastinate==0.0.0.nothing\n")
    peers = Peers(Knobs(peers="procrastinate"), lambda: "postgresql://nowhere")
    assert peers.all() == []
    assert "pip" in peers.unavailable["procrastinate"]


def test_no_peers_at_all_when_none_are_wanted() -> None:
    peers = Peers(Knobs(peers="0"), lambda: "")
    assert peers.all() == [] and peers.unavailable == {}


def test_every_peer_is_known_by_its_name() -> None:
    assert {peer.name for peer in Peers(Knobs(), lambda: "")._known()} == PYTHON_PEERS | NODE_PEERS
    assert set(BLOCKING_PEERS) | FORGETFUL_PEERS | SETTINGS.keys() <= PYTHON_PEERS | NODE_PEERS


def test_every_known_peer_has_a_driver_and_pinned_versions() -> None:
    for peer in Peers(Knobs(), lambda: "")._known():
        name = peer.driver
        if peer.node:
            needs = json.loads((environments.REQUIREMENTS / name / "package.json").read_text())["dependencies"]
            assert all(version[0].isdigit() for version in needs.values())
            assert (ROOT / "bench" / "peers" / "drivers" / f"{name}.mjs").exists()
        else:
            pins = (environments.REQUIREMENTS / f"{name}.txt").read_text().split()
            assert pins and all("==" in pin for pin in pins)
            assert (ROOT / "bench" / "peers" / "drivers" / f"{name}.py").exists()


async def test_a_driver_submits_drains_and_shows_its_lag(database: str) -> None:
    peer = Peer("duetime", lambda: database, driver="duetime", python=sys.executable)
    assert await drain_by(peer, 300, 2, LANES="3") > 0
    lags = await peer.lags(50, 1, skip=0)
    assert len(lags) == 50 and 0 <= lags[0] < 30


async def test_jobs_have_a_timeout_into_however_many_lanes_they_go(database: str) -> None:
    peer = Peer("duetime", lambda: database, driver="duetime", python=sys.executable)
    await peer.fill(database, 20, LANES="3")
    connection = await asyncpg.connect(database)
    try:
        found = await connection.fetch("select timeout_ms, count(*) from duetime.runs group by 1")
    finally:
        await connection.close()
    assert [tuple(row) for row in found] == [(30_000, 20)]


async def test_a_driver_plans_ahead_and_shows_how_late_it_is(database: str) -> None:
    peer = Peer("duetime", lambda: database, driver="duetime", python=sys.executable, settings={"PEER_AHEAD": "2"})
    lags = await peer.lateness(50, 1)
    assert len(lags) == 50 and 0 <= lags[0] <= lags[-1] < 30


async def test_what_a_driver_says_when_it_fails_is_told(tmp_path: Path) -> None:
    peer = Peer("duetime", lambda: "postgresql://nobody@127.0.0.1:1/none", driver="duetime", python=sys.executable)
    with pytest.raises(CannotRun, match="reset failed"):
        await peer.drain(10)


@pytest.mark.timeout(300)
def test_a_scenario_writes_its_results(tmp_path: Path) -> None:
    small = {
        "ROUNDS": "1",
        "RUNS": "500",
        "SECONDS": "0.5",
        "PEERS": "0",
        "CHURN": "6000",
        "BENCH_RESULTS": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-m", "bench", "fire", "next_fire", "bloat"],
        env={**os.environ, **small},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    body = json.loads((tmp_path / "fire.json").read_text())
    assert "recurring" in body["ours"]["postgres"].keys() & body["limit"]["sqlite"].keys()
    assert body["ratio_to_limit"]["sqlite"]["recurring"] > 0
    assert body["knobs"]["runs"] == 500 and body["postgres"] and body["revision"]
    assert body["peers"]["postgres"]["recurring"] == {} and body["ratio_to_best_peer"]["postgres"]["recurring"] is None
    assert (tmp_path / "next_fire.json").exists()
    churned = json.loads((tmp_path / "bloat.json").read_text())
    assert churned["notes"]["runs"] == 6000 and churned["ours"]["postgres"]["last minute over first"] > 0


def test_an_unknown_scenario_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "nonsense"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "there are: drain" in done.stdout
