"""What a run has to show beyond the promises."""

from typing import Any

import pytest

from chaos import checker
from chaos.demands import Demands
from chaos.figures import figures, struck
from chaos.real.cluster import unexpected_traces
from tests.chaos.histories import BASE, Logs, end, start, told


@pytest.fixture
def logs() -> Logs:
    """Ten jobs, one each ten seconds, all of them on time; a worker is cut off from t = 40 to t = 60."""
    cut = {"kind": "cut", "t": 40.0, "until": 60.0, "node": "worker-1", "pid": 7, "workers": [7, 8]}
    logs: Logs = {
        "setup": [{"base": BASE, "bound": 5.0, "recovery": 5.0, "end": 300.0}],
        "faults": [{**cut, "came_of_it": 3}],
        "asked": [],
        "answered": [],
        "seen": [],
        "ended": [],
    }
    for number in range(10):
        t, tag = 10.0 * number, f"one-{number}"
        logs["asked"].append({"n": number, "t": t, "op": "submit", "tag": tag, "in": None, "at": None})
        logs["answered"].append({"n": number, "t": t, "outcome": "ok", "job": f"job-{tag}"})
        node = f"pid-{7 + number % 2}"
        logs["seen"] += [start(tag, t + 0.1, t, nonce=f"a{number}", node=node), end(t + 0.2, f"a{number}")]
        logs["ended"].append(told(tag, t, f"a{number}"))
    return logs


def not_shown(logs: Logs, **demanded: Any) -> list[str]:
    return Demands(**demanded).broken(logs, checker.check(logs), figures(logs))


def test_strikes_and_jobs_are_counted(logs: Logs) -> None:
    assert not_shown(logs, strikes=1, acknowledged=10) == []
    assert not_shown(logs, strikes=2, acknowledged=11) == [
        "struck 1 times, and not 2 times",
        "10 jobs were acknowledged, and not 11",
    ]
    logs["faults"][0]["came_of_it"] = 0
    assert not_shown(logs) == ["nothing came of cut"]
    assert not_shown(logs, effective=False) == []


def test_what_may_come_to_nothing_among_other_faults(logs: Logs) -> None:
    logs["faults"].append({"kind": "deadlock", "t": 40.0, "until": 60.0, "came_of_it": 0})
    assert not_shown(logs) == []
    assert not_shown(logs, conflicts=True) == ["nothing came of deadlock"]


def test_lag_is_normal_when_nothing_is_wrong(logs: Logs) -> None:
    assert not_shown(logs, quiet_p95=0.2, lag_p95=0.2) == []
    assert len(not_shown(logs, quiet_p95=0.05, lag_p95=0.05)) == 2
    logs["faults"][0] |= {"t": 0.0, "until": 200.0}
    assert not_shown(logs) == ["nothing was due when nothing was wrong"]


def test_lag_leaves_out_the_time_in_which_nobody_was_there(logs: Logs) -> None:
    for record in logs["seen"]:
        record["t"] += 4.0
    assert not_shown(logs, quiet_p95=5.0, lag_p95=3.0) == ["the 95th percentile of lag is 4.1 s, over 3.0 s"]
    logs["setup"][0]["absences"] = [(10.0 * number, 10.0 * number + 2.0) for number in range(10)]
    assert not_shown(logs, quiet_p95=5.0, lag_p95=3.0) == []
    assert not_shown(logs, quiet_p95=5.0, lag_p95=2.0) == ["the 95th percentile of lag is 2.1 s, over 2.0 s"]


def test_an_occurrence_must_have_been_due(logs: Logs) -> None:
    """A run in which no occurrence must have run says nothing about recurring jobs."""
    minute = {"op": "schedule", "tag": "cron", "schedule": {"cron": "* * * * *"}, "misfire": "latest"}
    logs["asked"] += [
        {"n": 20, "t": 10.0, **minute},
        {"n": 21, "t": 20.0, "op": "cancel", "tag": "cron", "recurring": True},
    ]
    logs["answered"] += [{"n": 20, "t": 10.0, "outcome": "ok", "job": "c"}, {"n": 21, "t": 20.0, "outcome": "ok"}]
    assert not_shown(logs) == ["there is no occurrence of a recurring job that must have run"]


def test_every_worker_resumes(logs: Logs) -> None:
    assert not_shown(logs, resumes_within=15.0) == []
    assert not_shown(logs, resumes_within=5.0) == ["a worker began nothing for 10.1 s after cut was over"]


def test_all_is_over_soon_after_the_last_fault(logs: Logs) -> None:
    assert not_shown(logs, over_within=1.0) == []
    logs["seen"][9]["t"] = 65.0  # the end of what began at 40
    assert not_shown(logs, over_within=4.0) == ["all was over 5.0 s after the last fault, and not within 4.0 s"]


def test_what_was_cut_off_moves_and_rejoins(logs: Logs) -> None:
    assert not_shown(logs, moves=True, rejoins=True) == ["worker-1 had nothing at work when it was cut off"]
    began = start("one-3", 30.1, 30.0, nonce="lost", node="pid-7")
    elsewhere = start("one-3", 45.0, 30.0, nonce="moved", node="pid-8")
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "a3"]
    logs["seen"] += [began, end(50.0, "lost"), elsewhere, end(46.0, "moved")]
    logs["ended"][3]["by"] = "moved"
    assert not_shown(logs, moves=True, rejoins=True, refuses_late=True) == []
    elsewhere["t"] = 61.0
    assert not_shown(logs, moves=True) == ["run-one-3 was at work on worker-1, and did not move while that was cut off"]
    logs["seen"] = [record for record in logs["seen"] if record.get("node") != "pid-7" or record["t"] < 60.0]
    assert not_shown(logs, rejoins=True) == ["worker-1 began nothing after it was reachable again"]


def test_runs_succeed_and_late_ones_are_refused(logs: Logs) -> None:
    assert not_shown(logs, succeeds=1.0) == []
    logs["ended"][0]["state"] = "FAILED"
    assert not_shown(logs, succeeds=0.95) == ["of 10 runs 9 succeeded"]
    assert len(not_shown(logs, refuses_late=True)) == 1


def test_somebody_is_told(logs: Logs) -> None:
    assert not_shown(logs, tells="No space") == ["no request was told 'No space'"]
    logs["answered"].append({"n": 99, "t": 50.0, "outcome": "unknown", "error": "StoreUnavailable: No space left"})
    assert not_shown(logs, tells="No space") == []
    assert not_shown(logs, writes="No space") == ["no process has logged 'No space'"]
    logs["setup"][0]["written"] = ["No space"]
    assert not_shown(logs, writes="No space") == []


def test_what_hits_several_at_once_is_one_strike() -> None:
    kill = {"kind": "kill all", "until": 2.0, "strike": 3.5}
    faults = [
        {**kill, "t": 1.0},
        {**kill, "t": 1.1},
        {**kill, "t": 9.0, "strike": 9.5},
        {"kind": "lie: claim", "t": 1.0},
    ]
    assert struck([*faults, {"kind": "clock", "of": "drift", "t": 1.0}]) == {"kill all": 2, "lie: claim": 1, "drift": 1}


def test_what_a_killed_worker_held_begins_again_in_time(logs: Logs) -> None:
    logs["faults"].append({"kind": "kill worker", "t": 33.0, "until": 35.0, "node": "worker-1", "pid": 9})
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "a3"]
    logs["seen"] += [
        start("one-3", 30.1, 30.0, nonce="lost", node="pid-9"),
        start("one-3", 45.0, 30.0, nonce="again", node="pid-8"),
        end(46.0, "again"),
    ]
    logs["ended"][3]["by"] = "again"
    assert not_shown(logs, frees_within=15.0) == []
    assert not_shown(logs, frees_within=10.0) == ["run-one-3 began again 12.0 s after its worker was killed"]
    logs["setup"][0]["absences"] = [(32.0, 33.5), (34.0, 35.5), (45.0, 50.0)]
    assert not_shown(logs, frees_within=10.1) == []
    assert not_shown(logs, frees_within=9.9) == ["run-one-3 began again 10.0 s after its worker was killed"]


def test_nothing_is_taken_from_a_worker_that_lives(logs: Logs) -> None:
    logs["seen"].append(start("one-3", 45.0, 30.0, nonce="again", node="pid-7", lost=1))
    logs["seen"].append(end(46.0, "again"))
    assert not_shown(logs, keeps=True) == ["run-one-3 was taken from pid-8, which lived"]
    logs["faults"].append({"kind": "kill worker", "t": 33.0, "until": 35.0, "node": "worker-1", "pid": 8})
    assert not_shown(logs, keeps=True) == []


def test_failures_that_the_workload_asked_for_are_no_complaints() -> None:
    asked = '{"level":"error","exc":"Traceback (most recent call last)\\n… chaos.tasks.Broken: attempt 1 was to fail"}'
    assert unexpected_traces(asked) == []
    assert len(unexpected_traces(f"{asked}\nTraceback (most recent call last):\n  …\nKeyError: 1\n{asked}")) == 1


def test_runs_go_through_the_stream_before_and_after(logs: Logs) -> None:
    assert not_shown(logs, carried=1, carries_again=True) == [
        "0 runs went through the stream, and not 1",
        "nothing went through the stream after the last fault",
    ]
    after = max(fault["until"] for fault in logs["faults"]) + 1.0
    for number, t in ((50, 1.0), (51, after)):
        logs["asked"].append({"n": number, "t": t, "op": "batch", "tags": [f"many-{number}-0", f"many-{number}-1"]})
        logs["answered"].append({"n": number, "t": t, "outcome": "ok", "jobs": ["a", "b"], "vias": ["stream", "store"]})
    assert not_shown(logs, carried=2, carries_again=True) == []
    assert not_shown(logs, carried=3) == ["2 runs went through the stream, and not 3"]


def test_what_is_stored_counts_only_while_the_broker_is_away(logs: Logs) -> None:
    for number, t in ((50, 70.0), (51, 80.0)):
        logs["asked"].append({"n": number, "t": t, "op": "batch", "tags": [f"many-{number}-0"]})
        logs["answered"].append({"n": number, "t": t, "outcome": "ok", "jobs": ["a"], "vias": ["store"]})
    logs["faults"].append({"kind": "kill broker", "t": 75.0, "until": 85.0, "came_of_it": 1})
    assert not_shown(logs, fallen_back=1) == []
    assert not_shown(logs, fallen_back=2) == ["1 runs were stored instead of published, and not 2"]


def test_a_midnight_shows_something_on_both_sides_and_across(logs: Logs) -> None:
    assert len(not_shown(logs, midnight=True)) == 3
    day = 86400.0 - BASE % 86400.0
    for number, (due, finished) in enumerate([(day - 9, day - 8), (day - 1, day + 1), (day + 2, day + 3)]):
        tag, nonce = f"carried-{number}", f"c{number}"
        logs["asked"].append({"n": 60 + number, "t": 90.0, "op": "submit", "tag": tag})
        logs["answered"].append({"n": 60 + number, "t": 90.0, "outcome": "ok", "job": tag, "via": "stream"})
        logs["seen"] += [start(tag, 91.0, due, nonce=nonce), end(92.0, nonce)]
        logs["ended"].append({**told(tag, due, nonce), "finished": BASE + finished})
    assert not_shown(logs, midnight=True) == ["no message of the day before was delivered again"]
    logs["faults"][0]["from_yesterday"] = 1
    assert not_shown(logs, midnight=True) == []
