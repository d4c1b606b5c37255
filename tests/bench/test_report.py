"""A scenario's figures: what is compared with what, and what programs read."""

import json
from pathlib import Path

import pytest

from bench.goals import Target
from bench.peers.names import PYTHON_PEERS
from bench.report import Report


def _written(folder: Path, scenario: str) -> dict:  # type: ignore[type-arg]
    body: dict = json.loads((folder / f"{scenario}.json").read_text())  # type: ignore[type-arg]
    return body


def test_medians_and_ratios_stand_by_store_and_variant(tmp_path: Path) -> None:
    report = Report("drain", "runs/s", tmp_path)
    for ours, limit, slow, quick in ((10, 20, 4, 5), (30, 40, 4, 6), (20, 100, 1, 7)):
        report.ours("postgres", "async", ours)
        report.limit("postgres", "async", limit)
        report.peer("postgres", "async", "rq", slow)
        report.peer("postgres", "async", "huey", quick)
        report.peer("postgres", "async", "graphile", 40)
    others = dict.fromkeys(PYTHON_PEERS - {"rq", "huey"}, "no Redis")
    report.finish({("postgres", "async"): Target(of_limit=0.5)}, unavailable=others)
    body = _written(tmp_path, "drain")
    assert body["ours"] == {"postgres": {"async": 20}}
    assert body["limit"] == {"postgres": {"async": 40}}
    assert body["ratio_to_limit"] == {"postgres": {"async": 0.5}}
    assert body["peers"] == {"postgres": {"async": {"rq": 4, "huey": 6, "graphile": 40}}}
    assert body["best_peer"] == {"postgres": {"async": "huey"}}
    assert body["ratio_to_best_peer"]["postgres"]["async"] == pytest.approx(20 / 6)
    assert body["ratio_to_graphile"]["postgres"]["async"] == 0.5
    assert body["unavailable_peers"] == others and body["unasked_peers"] == []
    assert body["reached"] == {"postgres": {"async": True}}


def test_beside_the_limit_a_figure_goes_by_the_limits_clock(tmp_path: Path) -> None:
    report = Report("drain", "runs/s", tmp_path)
    for ours, beside in ((50.0, 40.0), (52.0, 20.0), (54.0, 30.0)):
        report.ours("postgres", "async", ours, beside_limit=beside)
        report.limit("postgres", "async", 60.0)
        report.peer("postgres", "async", "rq", 26.0)
    report.finish({("postgres", "async"): Target(of_limit=0.7)})
    body = _written(tmp_path, "drain")
    assert body["ours"]["postgres"]["async"] == 52.0 and body["ours_beside_limit"]["postgres"]["async"] == 30.0
    assert body["ratio_to_limit"]["postgres"]["async"] == 0.5 and body["reached"]["postgres"]["async"] is False
    assert body["ratio_to_best_peer"]["postgres"]["async"] == 2.0
    assert body["rounds"]["postgres"]["async"]["ours_beside_limit"] == [40.0, 20.0, 30.0]


def test_a_peer_that_forgets_its_jobs_is_still_a_peer(tmp_path: Path) -> None:
    report = Report("drain", "runs/s", tmp_path)
    report.ours("postgres", "async", 10.0)
    report.peer("postgres", "async", "apscheduler-memory", 20.0)
    report.peer("postgres", "async", "pgqueuer", 5.0)
    others = dict.fromkeys(PYTHON_PEERS - {"apscheduler-memory", "pgqueuer"}, "no Redis")
    report.finish({("postgres", "async"): Target(of_best_peer=1.5)}, unavailable=others)
    body = _written(tmp_path, "drain")
    assert body["best_peer"]["postgres"]["async"] == "apscheduler-memory"
    assert body["ratio_to_best_peer"]["postgres"]["async"] == 0.5
    assert body["ratio_to_best_keeping_peer"]["postgres"]["async"] == 2.0
    assert body["reached"]["postgres"]["async"] is False


def test_where_less_is_better_a_ratio_above_one_is_still_good(tmp_path: Path) -> None:
    report = Report("latency", "ms", tmp_path, better="lower")
    report.ours("postgres", "p50", 2.0)
    report.peer("postgres", "p50", "celery", 10.0)
    report.peer("postgres", "p50", "arq", 4.0)
    report.finish({("postgres", "p50"): Target(most=1.9)})
    body = _written(tmp_path, "latency")
    assert body["best_peer"]["postgres"]["p50"] == "arq"
    assert body["ratio_to_best_peer"]["postgres"]["p50"] == 2.0
    assert body["reached"]["postgres"]["p50"] is False


def test_without_what_it_is_compared_with_a_target_is_neither_reached_nor_missed(tmp_path: Path) -> None:
    report = Report("drain", "runs/s", tmp_path)
    report.ours("postgres", "async", 10.0)
    report.finish({("postgres", "async"): Target(of_best_peer=1.5)})
    assert _written(tmp_path, "drain")["reached"]["postgres"]["async"] is None


def test_the_best_of_some_peers_is_not_the_best_of_all(tmp_path: Path) -> None:
    report = Report("drain", "runs/s", tmp_path)
    report.ours("postgres", "async", 10.0)
    report.peer("postgres", "async", "rq", 1.0)
    report.finish({("postgres", "async"): Target(of_best_peer=1.5)}, unavailable={"huey": "no Redis"})
    body = _written(tmp_path, "drain")
    assert body["ratio_to_best_peer"]["postgres"]["async"] == 10.0
    assert body["reached"]["postgres"]["async"] is None
    assert body["peers_missing"]["postgres"]["async"] == sorted(PYTHON_PEERS - {"rq"})
    assert "celery" in body["unasked_peers"] and not {"rq", "huey"} & set(body["unasked_peers"])


@pytest.mark.parametrize(("of_best", "verdict"), [(1.5, None), (3.0, False)])
def test_a_peer_that_cannot_be_installed_leaves_the_target_open_and_is_named(
    tmp_path: Path, of_best: float, verdict: bool | None
) -> None:
    report = Report("drain", "runs/s", tmp_path)
    report.ours("postgres", "async", 10.0)
    for name in PYTHON_PEERS - {"huey"}:
        report.peer("postgres", "async", name, 5.0)
    report.finish({("postgres", "async"): Target(of_best_peer=of_best)}, unavailable={"huey": "pip install failed"})
    body = _written(tmp_path, "drain")
    assert body["reached"]["postgres"]["async"] is verdict  # missed is missed, whichever peers there are
    assert body["peers_missing"] == {"postgres": {"async": ["huey"]}}


def test_with_every_peer_a_target_is_judged(tmp_path: Path) -> None:
    report = Report("drain", "runs/s", tmp_path)
    report.ours("postgres", "async", 10.0)
    for name in PYTHON_PEERS:
        report.peer("postgres", "async", name, 5.0)
    report.finish({("postgres", "async"): Target(of_best_peer=1.5)}, unavailable={"graphile": "Node is not installed"})
    body = _written(tmp_path, "drain")
    assert body["reached"]["postgres"]["async"] is True and body["peers_missing"] == {}


def test_a_peer_that_failed_in_a_later_round_has_no_figure(tmp_path: Path) -> None:
    report = Report("drain", "runs/s", tmp_path)
    report.ours("postgres", "async", 10.0)
    for name in ("rq", "huey"):
        report.peer("postgres", "async", name, 5.0)
    rest = dict.fromkeys(PYTHON_PEERS - {"rq", "huey"}, "no Redis")
    failed = {"huey": "3 of 5 runs started"}
    report.finish({("postgres", "async"): Target(of_best_peer=1.5)}, unavailable=rest, failed=failed)
    body = _written(tmp_path, "drain")
    assert body["failed_peers"] == failed and body["unasked_peers"] == ["graphile"]
    assert body["reached"]["postgres"]["async"] is None, "it might have been the fastest"
    assert body["peers"] == {"postgres": {"async": {"rq": 5.0}}}
    assert body["rounds"]["postgres"]["async"]["peers"] == {"rq": [5.0]}


def test_a_stretch_is_told_and_not_judged_by(tmp_path: Path) -> None:
    report = Report("drain", "runs/s", tmp_path, about={"revision": "abc"})
    report.ours("postgres", "async", 10.0)
    report.finish({("postgres", "async"): Target(least=5, stretch=50)})
    body = _written(tmp_path, "drain")
    assert body["reached"]["postgres"]["async"] is True
    assert body["stretch"] == {"postgres": {"async": {"at": 50, "reached": False}}}
    assert body["revision"] == "abc"


def test_never_is_written_as_null(tmp_path: Path) -> None:
    report = Report("steady", "s", tmp_path, better="lower")
    report.ours("postgres", "p95", float("inf"))
    report.finish({})
    assert _written(tmp_path, "steady")["ours"]["postgres"]["p95"] is None
