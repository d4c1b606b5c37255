"""The checker on jobs that wait for others: it accepts the good history, and names what is wrong with each bad one."""

import pytest

from chaos import checker
from chaos.checker import followers, one_offs
from tests.chaos.histories import BASE, Logs, end, promises, start, told


@pytest.fixture
def logs() -> Logs:
    """A child of a parent that takes from t = 10 to t = 20, and a job after each run of one that runs every minute."""
    one = {"op": "submit", "in": None, "at": None, "fail": 0, "retries": 3}
    minute = {"op": "schedule", "tag": "cron", "schedule": {"cron": "* * * * *"}, "misfire": "all"}
    logs: Logs = {
        "setup": [{"base": BASE, "bound": 5.0, "recovery": 10.0, "end": 300.0}],
        "faults": [],
        "asked": [
            {"n": 1, "t": 9.9, **one, "tag": "parent"},
            {"n": 2, "t": 11.0, **one, "tag": "child", "parent": "parent", "on": "success"},
            {"n": 3, "t": 30.0, **minute},
            {"n": 4, "t": 31.0, "op": "follow", "tag": "follower", "parent": "cron"},
            {"n": 5, "t": 150.0, "op": "cancel", "tag": "cron", "recurring": True},
            {"n": 6, "t": 160.0, "op": "unfollow", "tag": "follower"},
        ],
        "answered": [
            {"n": 1, "t": 9.95, "outcome": "ok", "job": "job-parent"},
            {"n": 2, "t": 11.1, "outcome": "ok", "job": "job-child"},
            {"n": 3, "t": 30.1, "outcome": "ok", "job": "job-cron"},
            {"n": 4, "t": 31.1, "outcome": "ok", "job": "job-follower"},
            {"n": 5, "t": 150.1, "outcome": "ok"},
            {"n": 6, "t": 160.1, "outcome": "ok"},
        ],
        "seen": [
            *(start("parent", 10.0, 9.92, nonce="p"), end(20.0, "p")),
            *(start("child", 20.1, 11.05, nonce="c"), end(20.2, "c")),
        ],
        "ended": [told("parent", 9.92, "p"), told("child", 11.05, "c")],
    }
    for at in (60.0, 120.0):
        for tag, due in (("cron", at), ("follower", at + 1.0)):
            run, nonce = f"run-{tag}-{at}", f"{tag}-{at}"
            logs["seen"] += [start(tag, due + 0.1, due, run=run, nonce=nonce), end(due + 0.9, nonce)]
            logs["ended"].append(told(tag, due, nonce, run=run))
    return logs


def without(logs: Logs, *nonces: str) -> None:
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] not in nonces]
    logs["ended"] = [record for record in logs["ended"] if record["by"] not in nonces]


def test_a_good_history_is_accepted(logs: Logs) -> None:
    assert checker.check(logs).violations == []


def test_a_child_that_did_not_wait(logs: Logs) -> None:
    logs["seen"][2]["t"] = 19.9
    assert promises(logs) == {followers.AFTER}


def test_a_child_that_was_forgotten(logs: Logs) -> None:
    without(logs, "c")
    assert promises(logs) == {one_offs.LOST}


def test_a_child_that_waited_too_long(logs: Logs) -> None:
    logs["seen"][2]["t"] = 30.0
    logs["seen"][3]["t"] = 30.1
    assert promises(logs) == {one_offs.LATE}


def test_a_child_of_a_parent_that_failed(logs: Logs) -> None:
    logs["ended"][0] |= {"state": "FAILED", "attempts": [["FAILED", 1]], "by": None}
    logs["asked"][0] |= {"fail": 9}
    assert promises(logs) == {followers.AFTER}
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "c"]
    logs["ended"][1] |= {"state": "CANCELLED", "attempts": [], "by": None}
    assert promises(logs) == set()


def test_a_child_that_takes_any_end_of_its_parent(logs: Logs) -> None:
    logs["ended"][0] |= {"state": "FAILED", "attempts": [["FAILED", 1]], "by": None}
    logs["asked"][0] |= {"fail": 9}
    logs["asked"][1] |= {"on": "finished"}
    assert promises(logs) == set()


def test_a_child_whose_parent_ended_otherwise_before_the_database_was_put_back(logs: Logs) -> None:
    """The parent was cancelled, so its child ran; then both were forgotten, and ran as if that had not been."""
    logs["asked"][1] |= {"on": "finished"}
    logs["seen"] += [start("child", 12.0, 11.05, nonce="forgotten"), end(12.1, "forgotten")]
    assert followers.AFTER in promises(logs)
    promoted = {"kind": "promote", "t": 13.0, "until": 14.0, "lost_from": 11.5, "lost_to": 13.0}
    assert followers.AFTER not in promises({**logs, "faults": [promoted]})


def test_a_child_that_was_cancelled_though_its_parent_succeeded(logs: Logs) -> None:
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "c"]
    logs["ended"][1] |= {"state": "CANCELLED", "attempts": [], "by": None}
    assert promises(logs) == {one_offs.LOST}


def test_a_success_that_nothing_followed(logs: Logs) -> None:
    without(logs, "follower-60.0")
    assert promises(logs) == {followers.FOLLOWED}


def test_a_success_that_was_followed_twice(logs: Logs) -> None:
    logs["seen"] += [start("follower", 62.0, 61.0, run="run-again", nonce="x"), end(62.1, "x")]
    logs["ended"].append(told("follower", 61.0, "x", run="run-again"))
    assert promises(logs) == {followers.FOLLOWED}


def test_a_run_that_followed_nothing(logs: Logs) -> None:
    logs["seen"] += [start("follower", 90.0, 90.0, run="run-ghost", nonce="x"), end(90.1, "x")]
    logs["ended"].append(told("follower", 90.0, "x", run="run-ghost"))
    assert promises(logs) == {followers.FOLLOWED}


def test_what_ended_around_the_end_of_its_follower_may_be_followed_or_not(logs: Logs) -> None:
    logs["asked"][5]["t"] = 122.0
    assert promises(logs) == set()
    without(logs, "follower-120.0")
    assert promises(logs) == set()


def test_a_run_that_followed_after_the_clock_was_put_back(logs: Logs) -> None:
    """Its moment had been shown before, when it could not have run."""
    logs["faults"] = [{"t": 115.0, "kind": "clock", "offset": -30.0, "until": 145.0}]
    logs["ended"][-2] |= {"finished": BASE + 90.9}
    for record in (logs["ended"][-1], logs["seen"][-2]):
        record["due"] = BASE + 90.9
    assert not [text for _, text in checker.check(logs).violations if text.startswith("follower")]


def test_a_child_of_a_success_that_the_database_has_forgotten(logs: Logs) -> None:
    logs["ended"][0] |= {"state": "FAILED", "attempts": [["FAILED", 1]], "by": None}
    logs["ended"][1] |= {"state": "CANCELLED", "attempts": [], "by": None}
    logs["asked"][0] |= {"fail": 9}
    restored = {"kind": "promote", "t": 21.0, "until": 22.0, "lost_from": 19.0, "lost_to": 21.0}
    assert followers.AFTER not in promises({**logs, "faults": [restored]})
    assert followers.AFTER in promises({**logs, "faults": [{**restored, "lost_from": 20.5}]})
