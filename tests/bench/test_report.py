"""A scenario's figures: what is compared with what, and what programs read."""

import json
from pathlib import Path

import pytest

from bench.goals import Target
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
    report.finish({("postgres", "async"): Target(of_limit=0.5, of_best_peer=3)}, unavailable={"arq": "no Redis"})
    body = _written(tmp_path, "drain")
    assert body["ours"] == {"postgres": {"async": 20}}
    assert body["limit"] == {"postgres": {"async": 40}}
    assert body["ratio_to_limit"] == {"postgres": {"async": 0.5}}
    assert body["peers"] == {"postgres": {"async": {"rq": 4, "huey": 6, "graphile": 40}}}
    assert body["best_peer"] == {"postgres": {"async": "huey"}}
    assert body["ratio_to_best_peer"]["postgres"]["async"] == pytest.approx(20 / 6)
    assert body["ratio_to_graphile"]["postgres"]["async"] == 0.5
    assert body["unavailable_peers"] == {"arq": "no Redis"}
    assert body["reached"] == {"postgres": {"async": True}}


def test_a_peer_that_forgets_its_jobs_is_still_a_peer(tmp_path: Path) -> None:
    report = Report("drain", "runs/s", tmp_path)
    report.ours("postgres", "async", 10.0)
    report.peer("postgres", "async", "apscheduler-memory", 20.0)
    report.peer("postgres", "async", "pgqueuer", 5.0)
    report.finish({("postgres", "async"): Target(of_best_peer=1.5)})
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


def test_never_is_written_as_null(tmp_path: Path) -> None:
    report = Report("steady", "s", tmp_path, better="lower")
    report.ours("postgres", "p95", float("inf"))
    report.finish({})
    assert _written(tmp_path, "steady")["ours"]["postgres"]["p95"] is None
