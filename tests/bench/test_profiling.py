"""Profiles: whose time it was, and which plan."""

from bench.profiling import plans, samples


def test_a_sample_belongs_to_whoever_was_at_work() -> None:
    areas, functions = samples(
        "main (duetime/cli/main.py:3);Runner.run (asyncio/runners.py:118) 5\n"
        "main (duetime/cli/main.py:3);Claimer._begin (duetime/worker/claimer.py:240) 2\n"
        "main (duetime/cli/main.py:3);Attempts.start (duetime/worker/attempts.py:120) 1\n"
        "main (duetime/cli/main.py:3);Attempts.start (duetime/worker/attempts.py:128) 1\n"
    )
    assert areas == {"event loop": 5, "claiming": 2, "an attempt's book-keeping": 2}
    assert functions["Attempts.start (duetime/worker/attempts.py)"] == 2


def test_the_longest_plans_are_shown() -> None:
    log = "".join(
        f"LOG:  duration: {took} ms  plan:\n\tQuery Text: {what}\n\tIndex Scan ({took})\nLOG:  something else\n"
        for took, what in (("1.5", "update duetime.runs"), ("9.25", "update duetime.runs"), ("2.0", "select 1"))
    )
    (plan,) = plans(log)
    assert plan.startswith("\nupdate duetime.runs: 9.25 ms") and "Index Scan (9.25)" in plan
