"""The pages say what the results say."""

import json
from pathlib import Path

import pytest

from bench import report
from bench.documents import DOCS, EXPLAINED, performance
from bench.goals import Target
from bench.knobs import HERE
from bench.peers.described import described
from bench.peers.names import PYTHON_PEERS
from bench.readme import BEGIN, END, README, with_figures
from bench.report import Report
from bench.scaling_doc import _what_breaks, scaling
from bench.stream_doc import COST, HISTORY, ID, WAITING, streams

RESULTS = HERE / "results"


def test_the_performance_page_is_written_from_the_results() -> None:
    assert (DOCS / "performance.md").read_text() == performance(RESULTS), "write it again: make bench-docs"


def test_the_scaling_page_is_written_from_the_results() -> None:
    assert (DOCS / "scaling.md").read_text() == scaling(RESULTS), "write it again: make bench-docs"


def test_the_figures_of_the_readme_are_written_from_the_results() -> None:
    text = README.read_text()
    assert text == with_figures(text, RESULTS), "write them again: make bench-docs"


def test_the_readme_tells_slots_and_peers_beside_a_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report, "_busy", lambda _: 0.0)
    written = Report("drain", "runs/s", tmp_path)
    written.notes["slots"] = 3_000
    written.ours("postgres", "async", 37_924.2)
    written.limit("postgres", "async", 46_243.9)
    written.peer("postgres", "async", "huey", 3_167.4)
    written.finish({})
    told = "| drain, PostgreSQL, a worker of 3,000 slots | 37,900 runs/s | 46,200 | huey 3,170 | 11.97 | 11.97 | – |"
    assert told in with_figures(f"before\n{BEGIN}\nold\n{END}\nafter", tmp_path).splitlines()
    assert "old" not in with_figures(f"{BEGIN}old{END}", tmp_path)
    with pytest.raises(ValueError, match="no place for figures"):
        with_figures("nothing", tmp_path)


def test_the_scaling_page_says_what_half_a_million_streamed_runs_a_second_need(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(report, "_busy", lambda _: 0.0)
    assert streams(tmp_path) == ""
    written = Report("stream", "runs/s", tmp_path, about={"revision": "abc", "postgres": "15.1"})
    written.ours("postgres", "database CPU, plain", 33.0, unit="%")
    written.notes[COST] = {
        "database, µs of CPU": 10.0,
        "worker, µs of CPU": 20.0,
        "broker, µs of CPU": 6.8,
        WAITING: 340.0,
        "WAL, bytes": 800.0,
        HISTORY: 400.0,
        ID: 100.0,
    }
    written.finish({})
    told = streams(tmp_path).splitlines()
    for line in (
        "| plain | 33 % |",
        "| cores busy in databases | 5.0 |",
        "| databases of 16 cores | 2 |",
        "| WAL of each database | 200 MB/s |",
        "| disk of each database, for a day of history | 15.1 TB |",
        "| disk of each database, for 30 days (the default `retention`) | 266 TB |",
        "| the same 30 days of all databases as files of the archive | 43 TB |",
        "| worker processes | 15 |",
        "| Redis servers | 5 |",
        "| memory of Redis for a minute's backlog | 10.2 GB |",
    ):
        assert line in told


def test_a_missing_result_leaves_a_page_without_it(tmp_path: Path) -> None:
    assert "## drain" not in performance(tmp_path)


def test_what_is_not_reached_has_a_line_with_the_record_that_explains_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(report, "_busy", lambda _: 0.0)
    for scenario in ("drain", "memory"):
        written = Report(scenario, "runs/s", tmp_path, about={"revision": "abc", "postgres": "15.1"})
        written.ours("postgres", "async", 10.0)
        written.finish({("postgres", "async"): Target(least=20, stretch=50)})
    page = performance(tmp_path)
    assert "| drain | postgres | async | 10 runs/s | ≥ 20 | **not reached** | 50: not reached |" in page
    assert "- drain, async: 10 runs/s misses ≥ 20. [" in page and f"](decisions/{EXPLAINED['drain']})" in page
    assert "- memory, async: 10 runs/s misses ≥ 20. No decision record explains it yet." in page
    assert "PostgreSQL 15.1, revision abc" in page


def test_who_is_missing_stands_beside_a_verdict_that_is_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report, "_busy", lambda _: 0.0)
    written = Report("drain", "runs/s", tmp_path)
    written.ours("postgres", "async", 10.0)
    for name in PYTHON_PEERS - {"huey", "celery"}:
        written.peer("postgres", "async", name, 5.0)
    gone = dict.fromkeys(("celery", "huey"), "pip install failed")
    written.finish({("postgres", "async"): Target(of_best_peer=1.5)}, unavailable=gone)
    assert "| ≥ 1.5 × peer | open, without celery, huey |" in performance(tmp_path)


def test_graphile_worker_has_a_column_where_it_was_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report, "_busy", lambda _: 0.0)
    for scenario, name in (("submit", "graphile"), ("steady", "huey")):
        written = Report(scenario, "jobs/s", tmp_path)
        written.ours("postgres", "bulk", 10.0)
        written.ours("postgres", "http", 10.0)
        written.peer("postgres", "bulk", name, 40.0)
        written.finish({})
    page = performance(tmp_path)
    steady, submit = page.index("## steady"), page.index("## submit")
    assert "| × best that keeps jobs | × graphile-worker |" in page[submit:]
    assert "| postgres | bulk | 10 jobs/s | – | – | – | – | – | 0.25 |" in page[submit:]
    assert "| postgres | http | 10 jobs/s | – | – | – | – | – | – |" in page[submit:]
    assert "× graphile-worker" not in page[steady:submit]


def test_peers_are_told_as_they_were_when_they_were_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report, "_busy", lambda _: 0.0)
    written = Report("drain", "runs/s", tmp_path)
    written.ours("postgres", "async", 10.0)
    for name in ("huey", "graphile", "apscheduler-memory"):
        written.peer("postgres", "async", name, 5.0)
    written.finish({})
    file = tmp_path / "drain.json"
    body = json.loads(file.read_text())
    assert body["peer_settings"]["huey"] == described("huey")
    assert "graphile-worker" in body["peer_settings"]["graphile"]["versions"]
    assert "APScheduler" in body["peer_settings"]["apscheduler-memory"]["versions"]
    body["peer_settings"]["huey"] = {"versions": "huey 0.1", "settings": "Nine threads."}
    file.write_text(json.dumps(body))
    assert "| huey | huey 0.1 | Nine threads. | drain |" in performance(tmp_path)
    del body["peer_settings"]["huey"]
    file.write_text(json.dumps(body))
    today = described("huey")
    told = f"| huey | {today['versions']} | {today['settings']} | drain (not recorded then: the current ones) |"
    assert told in performance(tmp_path)


def test_a_section_tells_which_sizes_were_not_the_usual_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report, "_busy", lambda _: 0.0)
    usual = {"rounds": 3, "runs": 100_000, "seconds": 10.0, "stored": 10_000_000, "churn": 3_600_000, "peers": "all"}
    for scenario, knobs in (("drain", usual), ("steady", usual | {"rounds": 2, "runs": 5_000})):
        written = Report(scenario, "runs/s", tmp_path, about={"revision": scenario, "knobs": knobs})
        written.ours("postgres", "async", 10.0)
        written.finish({})
    page = performance(tmp_path)
    assert "revision drain." in page
    assert "revision steady; **with rounds 2 instead of 3, runs 5,000 instead of 100,000**." in page


def test_every_record_that_is_linked_to_is_there() -> None:
    assert all((DOCS / "decisions" / record).exists() for record in EXPLAINED.values())


def test_where_more_processes_bring_less_it_is_said() -> None:
    steps = [
        {"worker processes": count, "runs/s": rate, "database cores busy": 16.0}
        for count, rate in ((8, 100.0), (16, 190.0), (32, 90.0))
    ]
    assert "beyond 16 worker processes, throughput falls" in _what_breaks({"breaks first": steps})
    steps[2]["runs/s"] = 209.0
    assert "twice as many give only 1.10 times the throughput" in _what_breaks({"breaks first": steps})
