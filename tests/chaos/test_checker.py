"""The checker against histories written by hand: it accepts the good one, and names what is wrong with each bad one."""

from copy import deepcopy
from datetime import UTC, datetime

import pytest

from chaos import checker, oracle
from chaos.checker import completion, one_offs, pauses, quiet, recurring
from chaos.checker.facts import sort
from chaos.checker.timeline import Timeline
from tests.chaos.histories import BASE, Logs, end, promises, start, told


@pytest.fixture
def logs() -> Logs:
    """A one-off in ten seconds, and a job every minute from t = 30 to t = 200: nothing is wrong."""
    minute = {"op": "schedule", "tag": "cron", "schedule": {"cron": "* * * * *"}, "misfire": "all"}
    logs: Logs = {
        "setup": [{"base": BASE, "bound": 5.0, "recovery": 10.0, "end": 300.0}],
        "faults": [],
        "asked": [
            {"n": 1, "t": 1.0, "op": "submit", "tag": "one", "in": 10.0, "at": None, "fail": 0, "retries": 3},
            {"n": 2, "t": 30.0, **minute},
            {"n": 3, "t": 200.0, "op": "cancel", "tag": "cron", "recurring": True},
        ],
        "answered": [
            {"n": 1, "t": 1.1, "outcome": "ok", "job": "job-one"},
            {"n": 2, "t": 30.1, "outcome": "ok", "job": "job-cron"},
            {"n": 3, "t": 200.1, "outcome": "ok"},
        ],
        "seen": [start("one", 11.2, 11.05, nonce="a"), end(12.0, "a")],
        "ended": [told("one", 11.05, "a")],
    }
    for minute_at in (60.0, 120.0, 180.0):
        nonce, run = f"c{minute_at}", f"run-{minute_at}"
        logs["seen"] += [start("cron", minute_at + 0.1, minute_at, run=run, nonce=nonce), end(minute_at + 0.2, nonce)]
        logs["ended"].append(told("cron", minute_at, nonce, run=run))
    return logs


def test_a_good_history_is_accepted(logs: Logs) -> None:
    assert checker.check(logs).violations == []


def test_a_job_that_was_acknowledged_and_is_gone(logs: Logs) -> None:
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "a"]
    logs["ended"] = [record for record in logs["ended"] if record["tag"] != "one"]
    assert promises(logs) == {one_offs.LOST}


def test_a_request_that_timed_out_may_have_happened_or_not(logs: Logs) -> None:
    logs["answered"][0] = {"n": 1, "t": 9.0, "outcome": "unknown"}
    assert promises(logs) == set()
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "a"]
    logs["ended"] = [record for record in logs["ended"] if record["tag"] != "one"]
    assert promises(logs) == set()


def test_a_success_that_nobody_saw(logs: Logs) -> None:
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "a"]
    assert one_offs.LOST in promises(logs)


def test_a_run_that_failed_only_because_its_workers_were_lost(logs: Logs) -> None:
    logs["ended"][0] |= {"state": "FAILED", "attempts": [["LOST", 1]], "by": None}
    assert one_offs.LOST in promises(logs)


def test_a_run_that_nobody_asked_for(logs: Logs) -> None:
    logs["seen"].append(start("ghost", 20.0, 20.0, nonce="g"))
    assert one_offs.INVENTED in promises(logs)


def test_a_request_that_became_two_jobs(logs: Logs) -> None:
    logs["seen"] += [start("one", 20.0, 11.05, run="run-other", nonce="b", job="job-other"), end(20.1, "b")]
    assert one_offs.INVENTED in promises(logs)


def test_a_run_that_began_early(logs: Logs) -> None:
    logs["seen"][0]["t"] = 10.9
    assert one_offs.EARLY in promises(logs)


def test_a_delay_that_was_cut_short(logs: Logs) -> None:
    logs["seen"][0] |= {"due": BASE + 5.0, "t": 5.1}
    logs["ended"][0]["due"] = BASE + 5.0
    assert promises(logs) == {one_offs.EARLY}


def test_a_run_that_began_late_unless_there_was_a_fault(logs: Logs) -> None:
    logs["seen"][0]["t"], logs["seen"][1]["t"] = 20.0, 21.0
    assert promises(logs) == {one_offs.LATE}
    logs["faults"] = [{"kind": "crash", "t": 10.0, "until": 12.0}]
    assert promises(logs) == set()


def test_an_occurrence_that_never_ran_is_missed_by_key_and_blindly(logs: Logs) -> None:
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "c120.0"]
    logs["ended"] = [record for record in logs["ended"] if record["run"] != "run-120.0"]
    assert promises(logs) == {recurring.MET, recurring.BLIND}


def test_an_occurrence_may_be_skipped_only_in_trouble_and_by_its_policy(logs: Logs) -> None:
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "c120.0"]
    (skipped,) = (record for record in logs["ended"] if record["run"] == "run-120.0")
    skipped |= {"state": "SKIPPED", "by": None, "attempts": [["SKIPPED", 0]]}
    assert recurring.MET in promises(logs)
    logs["asked"][1]["misfire"] = "latest"
    assert promises(logs) == {recurring.MET}
    logs["faults"] = [{"kind": "crash", "t": 100.0, "until": 150.0}]
    assert promises(logs) == set()


def test_of_very_many_that_were_skipped_the_oldest_may_be_told_as_one(logs: Logs) -> None:
    logs["asked"][1]["misfire"] = "latest"
    logs["faults"] = [{"kind": "outage", "t": 50.0, "until": 170.0}]
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] not in ("c60.0", "c120.0")]
    skipped = told("cron", 60.0, "", run="run-60.0", state="SKIPPED", attempts=[])
    logs["ended"] = [logs["ended"][0], skipped, logs["ended"][3]]
    assert promises(logs) == {recurring.MET}, "nothing is said of the second one"
    moments = [datetime.fromtimestamp(BASE + due, UTC).isoformat() for due in (60.0, 180.0)]
    skipped["why"] = f"missed, like every one from {moments[0]} to {moments[1]}"
    assert promises(logs) == set()


def test_an_occurrence_that_ran_twice(logs: Logs) -> None:
    logs["seen"] += [start("cron", 60.5, 60.0, run="run-again", nonce="x"), end(60.6, "x")]
    assert recurring.ONCE in promises(logs)


def test_a_job_that_was_triggered_and_did_not_run(logs: Logs) -> None:
    logs["asked"].insert(2, {"n": 4, "t": 70.0, "op": "trigger", "tag": "cron"})
    logs["answered"].append({"n": 4, "t": 70.1, "outcome": "ok"})
    assert promises(logs) == {one_offs.LOST}
    logs["seen"] += [start("cron", 70.2, 70.05, run="extra", nonce="x"), end(70.3, "x")]
    assert promises(logs) == set()
    logs["asked"][2]["t"], logs["answered"][-1]["t"] = 198.0, 198.1
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "x"]
    assert promises(logs) == set(), "the job was cancelled at once"


def test_a_run_that_was_triggered_in_the_millisecond_of_an_occurrence(logs: Logs) -> None:
    logs["asked"].insert(2, {"n": 4, "t": 59.99, "op": "trigger", "tag": "cron"})
    logs["answered"].append({"n": 4, "t": 60.01, "outcome": "ok"})
    logs["seen"] += [start("cron", 60.02, 60.0002, run="extra", nonce="x"), end(60.3, "x")]
    assert promises(logs) == set()


def test_a_run_between_two_occurrences(logs: Logs) -> None:
    logs["seen"] += [start("cron", 90.5, 90.0, run="run-again", nonce="x"), end(90.6, "x")]
    assert one_offs.INVENTED in promises(logs)


def test_occurrences_around_an_answer_that_never_came_are_in_doubt(logs: Logs) -> None:
    logs["answered"][2] = {"n": 3, "t": 260.0, "outcome": "unknown"}
    more = deepcopy(logs)
    more["seen"] += [start("cron", 240.1, 240.0, run="run-240.0", nonce="x"), end(240.2, "x")]
    more["ended"].append(told("cron", 240.0, "x", run="run-240.0"))
    assert promises(logs) == promises(more) == set()


def test_a_completion_by_one_who_had_lost_the_claim(logs: Logs) -> None:
    logs["faults"] = [{"kind": "freeze", "t": 11.3, "until": 40.0}]
    logs["seen"] += [start("one", 30.0, 11.05, nonce="b", lost=1), end(31.0, "b")]
    logs["ended"][0] |= {"lost": 1, "attempts": [["LOST", 1], ["SUCCEEDED", 2]], "by": "b"}
    assert promises(logs) == set()
    logs["ended"][0]["by"] = "a"
    assert promises(logs) == {completion.ONE_END}


def test_fences_that_do_not_ascend(logs: Logs) -> None:
    logs["ended"][0]["attempts"] = [["LOST", 2], ["SUCCEEDED", 2]]
    assert promises(logs) == {completion.ONE_END}


def test_two_at_work_on_one_run_without_a_fault(logs: Logs) -> None:
    logs["seen"] += [start("one", 11.5, 11.05, nonce="b"), end(11.9, "b")]
    assert promises(logs) == {completion.ALONE, quiet.TWICE}


def test_two_at_work_on_one_run_because_the_clock_stepped(logs: Logs) -> None:
    """Or because another node was restarted: neither cuts a worker off."""
    logs["seen"] += [start("one", 11.5, 11.05, nonce="b"), end(11.9, "b")]
    logs["faults"] = [
        {"kind": "clock", "t": 11.3, "until": 11.3, "offset": 300.0},
        {"kind": "crash", "t": 11.3, "until": 12.3, "only": "n2"},
    ]
    assert completion.ALONE in promises(logs)
    logs["faults"][1]["only"] = "n1"
    assert completion.ALONE not in promises(logs)


def test_what_a_dead_worker_held_and_the_clock_kept(logs: Logs) -> None:
    logs["faults"] = [
        {"kind": "crash", "t": 11.3, "until": 12.3, "only": "n1"},
        {"kind": "clock", "t": 11.3, "until": 3611.3, "offset": -3600.0},
    ]
    logs["seen"] = [each for each in logs["seen"] if each["what"] != "end" or each["nonce"] != logs["seen"][0]["nonce"]]
    latest = 12.3 + logs["setup"][0]["recovery"] + logs["setup"][0]["bound"]
    again = start("one", latest - 1.0, 11.05, nonce="b", lost=1)
    logs["seen"].append(again)
    assert completion.FREED not in promises(logs)
    again["t"] = latest + 1.0
    assert completion.FREED in promises(logs)


def test_what_shall_never_begin_twice(logs: Logs) -> None:
    logs["asked"][0]["once"] = True
    logs["faults"] = [{"kind": "crash", "t": 11.3, "until": 40.0}]
    logs["seen"][1]["how"] = "stopped"
    logs["ended"][0] |= {"state": "FAILED", "attempts": [["LOST", 1]], "by": None}
    assert promises(logs) == set(), "rather not at all than twice"
    logs["seen"] += [start("one", 30.0, 11.05, nonce="b", lost=1), end(31.0, "b")]
    assert promises(logs) == {one_offs.ONLY_ONCE}


def test_a_run_that_is_not_over(logs: Logs) -> None:
    logs["ended"][0] |= {"state": "RUNNING", "attempts": [], "by": None}
    assert promises(logs) == {one_offs.LOST, quiet.OVER}


def test_a_slot_that_is_missing(logs: Logs) -> None:
    logs["setup"][0]["slots"] = 2
    for number, t in enumerate((250.0, 250.1)):
        tag, nonce = f"probe-{number}", f"p{number}"
        logs["asked"].append({"n": 10 + number, "t": 249.0, "op": "submit", "tag": tag})
        logs["answered"].append({"n": 10 + number, "t": 249.1, "outcome": "ok", "job": f"job-{tag}"})
        logs["seen"] += [start(tag, t, 249.05, nonce=nonce), end(252.0, nonce)]
        logs["ended"].append(told(tag, 249.05, nonce))
    assert promises(logs) == set()
    logs["setup"][0]["slots"] = 3
    assert promises(logs) == {quiet.WHOLE}


def test_the_databases_clock_and_true_time() -> None:
    faults = [
        {"kind": "clock", "t": 100.0, "until": 100.0, "offset": 300.0},
        {"kind": "clock", "t": 200.0, "until": 500.0, "offset": 0.0},
    ]
    timeline = Timeline({"base": 0.0, "bound": 5.0, "recovery": 10.0}, faults)
    assert [timeline.database(t) for t in (50.0, 150.0, 250.0)] == [50.0, 450.0, 250.0]
    assert timeline.reached(90.0) == 90.0
    assert timeline.reached(350.0) == 100.0, "it was jumped over"
    assert timeline.reached(450.0) == 150.0
    assert timeline.reached(450.0, 300.0) == 450.0, "for what was asked after it was put back"
    assert timeline.latest_shown(201.0, 10.0) == 500.0, "just before it was put back"
    assert timeline.latest_shown(250.0, 10.0) == 250.0
    assert timeline.deadline(50.0) == 55.0
    assert timeline.deadline(98.0) == 115.0, "its whole bound, after the fault and the recovery from it"


def test_the_oracle() -> None:
    assert list(oracle.fires({"cron": "* * * * *"}, 59.5, 181.0)) == [60.0, 120.0, 180.0]
    assert list(oracle.fires({"cron": "* * * * * *"}, 0.0, 2.0)) == [0.0, 1.0, 2.0]
    assert list(oracle.fires({"cron": "*/20 * * * * *"}, 1.0, 61.0)) == [20.0, 40.0, 60.0]
    assert list(oracle.fires({"every": 7.0, "start_at": 10.0}, 0.0, 25.0)) == [10.0, 17.0, 24.0]
    assert list(oracle.fires({"every": 7.0, "start_at": 10.0}, 11.0, 25.0)) == [17.0, 24.0]


def test_what_a_restored_database_has_forgotten_is_no_loss(logs: Logs) -> None:
    """Only within the window that was stated: what was acknowledged before it must be there."""
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "a"]
    logs["ended"][0] = {"what": "job", "tag": "one", "job": "job-one", "found": False}
    assert one_offs.LOST in promises(logs)
    restored = {"kind": "restore", "t": 4.0, "until": 5.0, "lost_from": 0.5, "lost_to": 4.0}
    assert promises({**logs, "faults": [restored]}) == set()
    assert one_offs.LOST in promises({**logs, "faults": [{**restored, "lost_from": 2.0}]})


def test_what_shall_never_start_twice_may_be_stopped_with_its_worker(logs: Logs) -> None:
    logs["asked"][0]["once"] = True
    logs["seen"][1] = end(12.0, "a", "stopped")
    logs["ended"][0] = told("one", 11.05, "a", state="FAILED", attempts=[["FAILED", 1]])
    assert one_offs.LOST in promises(logs), "no fault had ended its worker"
    assert promises({**logs, "faults": [{"kind": "restart", "t": 11.5, "until": 15.0}]}) == set()


def test_a_database_may_go_on_with_the_old_time_for_a_moment() -> None:
    """Its processes learn one after the other that the clock was changed."""
    forward_and_back = [
        {"kind": "clock", "t": 100.0, "until": 101.0, "offset": 30.0},
        {"kind": "clock", "t": 110.0, "until": 140.0, "offset": 0.0},
    ]
    timeline = Timeline({"base": BASE, "bound": 5.0, "recovery": 10.0, "clock slack": 2.0}, forward_and_back)
    assert timeline.span_shown(99.0) == (BASE + 99.0, BASE + 99.0)
    assert timeline.span_shown(101.0) == (BASE + 101.0, BASE + 131.0)
    assert timeline.span_shown(103.0) == (BASE + 133.0, BASE + 133.0)
    assert timeline.span_shown(111.0) == (BASE + 111.0, BASE + 141.0)
    assert timeline.reached(BASE + 141.0) == 111.0
    assert timeline.reached(BASE + 143.0) == 143.0


def test_a_clock_that_runs_ahead_step_by_step_may_show_a_time_by_any_of_them() -> None:
    steps = [{"kind": "clock", "t": 100.0 + step / 2, "until": 101.0, "offset": step / 8} for step in range(1, 4)]
    timeline = Timeline({"base": BASE, "bound": 5.0, "recovery": 10.0, "clock slack": 2.0}, steps)
    assert timeline.reached(BASE + 101.25) == 101.25 - 2 / 8
    assert timeline.reached(BASE + 102.0) == 102.0 - 3 / 8


def test_an_edit_may_have_read_the_clock_from_before_it_was_changed(logs: Logs) -> None:
    """The rhythm of a job that is changed in this moment may begin by either reading."""
    logs["setup"][0]["clock slack"] = 2.0
    logs["faults"] = [
        {"t": 29.0, "kind": "clock", "offset": 100.0, "until": 31.0},
        {"t": 32.0, "kind": "clock", "offset": 0.0, "until": 132.0},
    ]
    assert promises(logs) == set()


def test_a_job_that_is_one_of_very_many_has_to_be_done_as_its_task_saw_it(logs: Logs) -> None:
    """Not every such job is asked about; one that is asked about has to be known."""
    logs["setup"][0]["sampled"] = True
    logs["ended"] = [record for record in logs["ended"] if record["tag"] != "one"]
    assert promises(logs) == set()
    unseen = [record for record in logs["seen"] if record["nonce"] != "a"]
    assert promises({**logs, "seen": unseen}) == {one_offs.LOST}
    logs["ended"].append({"what": "job", "tag": "one", "job": "job-one", "found": True})
    assert promises(logs) == {one_offs.LOST}, "the product knows the job, and no run of it"


def test_a_delay_is_counted_on_the_clock_that_was_shown_when_it_was_asked_for(logs: Logs) -> None:
    back = {"kind": "clock", "t": 1.05, "until": 2.0, "offset": -3.0}
    mended = {"kind": "clock", "t": 20.0, "until": 20.0, "offset": 0.0}
    logs["faults"] = [back, mended]
    logs["seen"][0]["due"] = logs["ended"][0]["due"] = BASE + 8.1
    assert promises(logs) == set(), "it may have been asked for after the clock was put back"
    logs["faults"] = [{**back, "t": 1.2}, mended]
    assert one_offs.EARLY in promises(logs)


def test_what_was_claimed_before_the_clock_was_put_back_begins_soon_or_waits(logs: Logs) -> None:
    logs["faults"] = [{"kind": "clock", "t": 2.0, "until": 3.0, "offset": 300.0}]
    logs["faults"].append({"kind": "clock", "t": 3.0, "until": 4.0, "offset": 0.0})
    logs["seen"][0] |= {"t": 9.0}
    assert one_offs.EARLY not in promises(logs)
    logs["setup"][0]["claim to start"] = 5.0
    assert one_offs.EARLY in promises(logs)


def test_a_recurring_run_that_did_not_end_well(logs: Logs) -> None:
    for state in ("FAILED", "CANCELLED"):
        logs["ended"][1] |= {"state": state, "attempts": [["LOST", 1]]}
        assert promises(logs) == {one_offs.LOST}


def test_an_occurrence_that_the_product_has_two_runs_of(logs: Logs) -> None:
    logs["ended"].append(told("cron", 60.0, "c60.0", run="another", state="SKIPPED", attempts=[]))
    assert promises(logs) == {recurring.ONCE}


def test_an_occurrence_that_ran_late(logs: Logs) -> None:
    late = [start("cron", 66.0, 60.0, run="run-60.0", nonce="c60.0"), end(66.1, "c60.0")]
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "c60.0"] + late
    assert promises(logs) == {one_offs.LATE, recurring.BLIND}
    assert promises({**logs, "faults": [{"kind": "kill", "t": 50.0, "until": 52.0}]}) == set()


def test_what_the_run_itself_has_seen(logs: Logs) -> None:
    logs["setup"][0] |= {
        "left": ["PENDING: a run"],
        "damages": ["runs: a page is torn"],
        "crashes": ["worker-1 ended with 1"],
    }
    assert promises(logs) == {quiet.OVER, quiet.SOUND, quiet.ALIVE}


def test_a_run_that_is_told_of_twice(logs: Logs) -> None:
    logs["ended"].append(logs["ended"][0])
    assert completion.ONE_END in promises(logs)


def test_a_result_that_no_attempt_gave(logs: Logs) -> None:
    logs["ended"][0]["by"] = "somebody"
    assert promises(logs) == {completion.ONE_END}


def test_a_request_that_was_refused_and_ran(logs: Logs) -> None:
    logs["answered"][0] = {"n": 1, "t": 1.1, "outcome": "refused"}
    assert one_offs.INVENTED in promises(logs)


def test_a_failure_that_was_not_asked_for(logs: Logs) -> None:
    logs["ended"][0] |= {"state": "FAILED", "attempts": [["FAILED", 1]]}
    assert one_offs.LOST in promises(logs)
    logs["asked"][0]["fail"] = 4
    assert one_offs.LOST not in promises(logs)


def paused(logs: Logs, start_at: float, end_at: float) -> None:
    """The job is paused and resumed."""
    for number, (t, op) in enumerate([(start_at, "pause"), (end_at, "resume")], 90):
        logs["asked"].append({"n": number, "t": t, "op": op, "tag": "cron"})
        logs["answered"].append({"n": number, "t": t, "outcome": "ok"})


def test_a_paused_job_makes_up_for_what_it_missed(logs: Logs) -> None:
    paused(logs, 115.0, 150.0)
    assert promises(logs) == {pauses.STILL}
    at_two_minutes = next(record for record in logs["seen"] if record["nonce"] == "c120.0")
    at_two_minutes["t"] = 150.5
    assert promises(logs) == set()
    assert pauses.backlog(sort(logs)) == 0  # it became due during the pause
    logs["seen"] = [record for record in logs["seen"] if record["nonce"] != "c120.0"]
    logs["ended"] = [record for record in logs["ended"] if record["by"] != "c120.0"]
    assert promises(logs) == {recurring.MET, recurring.BLIND}


def test_a_run_that_began_before_the_pause_may_be_tried_again(logs: Logs) -> None:
    paused(logs, 125.0, 150.0)
    logs["seen"] += [start("cron", 140.0, 120.0, run="run-120.0", nonce="again", lost=1), end(141.0, "again")]
    assert pauses.STILL not in promises(logs)


def test_a_pause_finds_what_waits(logs: Logs) -> None:
    paused(logs, 125.0, 150.0)
    next(record for record in logs["seen"] if record["nonce"] == "c120.0")["t"] = 151.0
    assert pauses.backlog(sort(logs)) == 1


def test_a_run_that_no_worker_holds_is_stuck(logs: Logs) -> None:
    logs["setup"][0] |= {"unattended": [{"run": "run-1", "since": 100.0, "until": 164.0}], "stuck after": 65.0}
    assert promises(logs) == set()
    logs["setup"][0]["unattended"][0]["until"] = 170.0
    assert promises(logs) == {quiet.STUCK}


def test_only_so_many_occurrences_are_caught_up_with(logs: Logs) -> None:
    """The clock was put forward by an hour: of sixty occurrences that are open at once, ten have to run."""
    logs["asked"][1]["most"] = 10
    logs["asked"][2]["t"] = logs["answered"][2]["t"] = 210.0
    logs["faults"].append({"kind": "clock", "t": 185.0, "until": 187.0, "offset": 3600.0, "node": "database"})
    assert promises(logs) == {recurring.MET, recurring.BLIND}
    for number in range(54, 64):
        due, nonce = 60.0 * number, f"late-{number}"
        logs["seen"] += [start("cron", 188.0, due, run=nonce, nonce=nonce), end(189.0, nonce)]
        logs["ended"].append(told("cron", due, nonce, run=nonce))
    assert promises(logs) == set()
