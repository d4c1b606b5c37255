"""The checker on jobs that share a key: it accepts one at a time, and names what is wrong with each bad history."""

import pytest

from chaos import checker
from chaos.checker import completion, limits, one_offs, quiet
from tests.chaos.histories import BASE, Logs, end, promises, start, told


@pytest.fixture
def logs() -> Logs:
    """Two jobs with one key, both asked for at t = 10: the second begins when the first has ended, at t = 40. A third
    one has a key of its own, and a fourth has none."""
    one = {"op": "submit", "in": None, "at": None, "fail": 0, "retries": 3}
    keys = {"first": {"alone": "key"}, "second": {"alone": "key"}, "third": {"alone": "other"}, "fourth": {}}
    seen = {"first": (10.1, 40.0), "second": (40.1, 60.0), "third": (10.1, 30.0), "fourth": (10.1, 50.0)}
    logs: Logs = {"setup": [{"base": BASE, "bound": 5.0, "recovery": 10.0, "end": 300.0}], "faults": []}
    logs |= {"asked": [], "answered": [], "seen": [], "ended": []}
    for n, (tag, (began, ended)) in enumerate(seen.items()):
        logs["asked"].append({"n": n, "t": 10.0, **one, "tag": tag, **keys[tag]})
        logs["answered"].append({"n": n, "t": 10.05, "outcome": "ok", "job": f"job-{tag}"})
        logs["seen"] += [start(tag, began, 10.02, nonce=tag), end(ended, tag)]
        logs["ended"].append(told(tag, 10.02, tag))
    return logs


def begin_second(logs: Logs, t: float) -> None:
    logs["seen"][2]["t"] = t


def strike(logs: Logs, t: float) -> None:
    logs["faults"] = [{"t": t, "kind": "freeze", "until": t + 1.0}]


def test_a_good_history_is_accepted(logs: Logs) -> None:
    assert checker.check(logs).violations == []


def test_two_at_work_on_one_key(logs: Logs) -> None:
    begin_second(logs, 39.9)
    assert promises(logs) == {limits.WITHIN}


def test_two_at_work_on_one_key_that_began_long_after_each_other(logs: Logs) -> None:
    """Another one in between, which ended, hides nothing."""
    logs["asked"][2]["alone"] = "key"
    logs["seen"][4] |= {"t": 12.0}
    logs["seen"][5] |= {"t": 13.0}
    begin_second(logs, 20.0)
    broken = checker.check(logs).broken(limits.WITHIN)
    assert [text.split(" began")[0] for text in broken] == ["third", "second"]


def test_nobody_knows_that_it_lost_its_claim_in_a_fault(logs: Logs) -> None:
    """The first was taken for lost, and what it did then does not count."""
    begin_second(logs, 30.0)
    strike(logs, 20.0)
    logs["seen"] += [start("first", 61.0, 10.02, nonce="again", lost=1), end(62.0, "again")]
    logs["ended"][0] |= {"by": "again", "lost": 1, "attempts": [["LOST", 1], ["SUCCEEDED", 2]]}
    assert promises(logs) == set()


def test_a_fault_is_no_excuse_for_two_whose_results_count(logs: Logs) -> None:
    begin_second(logs, 30.0)
    strike(logs, 20.0)
    assert promises(logs) == {limits.WITHIN}


def test_a_worker_that_was_killed_keeps_no_key(logs: Logs) -> None:
    """Its attempt never came to an end."""
    strike(logs, 20.0)
    logs["seen"][1] |= {"nonce": "again", "t": 62.0}
    logs["seen"].append(start("first", 61.0, 10.02, nonce="again", lost=1))
    logs["ended"][0] |= {"by": "again", "lost": 1, "attempts": [["LOST", 1], ["SUCCEEDED", 2]]}
    assert promises(logs) == set()


def test_two_at_work_on_one_run_break_another_promise(logs: Logs) -> None:
    logs["seen"] += [start("first", 20.0, 10.02, nonce="again"), end(39.0, "again")]
    assert promises(logs) == {completion.ALONE, quiet.TWICE}


def test_one_that_began_early(logs: Logs) -> None:
    """It need not be in time, but it is not to be too soon."""
    logs["seen"][2]["due"] = logs["ended"][1]["due"] = BASE + 41.0
    assert promises(logs) == {one_offs.EARLY}
