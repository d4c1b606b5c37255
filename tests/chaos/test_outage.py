"""Two hours without any node, in virtual time: each misfire policy does exactly what it says."""

from typing import Any

import pytest

from chaos.simulation.plan import Ask, Fault, Plan
from chaos.simulation.world import World
from duetime import Misfire

DOWN_AT, DOWN_FOR = 330.0, 7_200.0
"""Half a minute after a minute, and back half a minute after one: 120 occurrences are missed."""
END = 8_100.0


@pytest.mark.parametrize(
    ("misfire", "missed_that_run"),
    [
        ("latest", 1),
        ("skip", 1),  # the latest is 30 s late, and 60 s are allowed
        (Misfire("skip", after=10.0), 0),
        (Misfire("all"), 100),
        (Misfire("all", most=1000), 120),
        (Misfire("all", age=3_600.0), 60),
    ],
    ids=str,
)
def test_what_becomes_of_two_hours_of_missed_minutes(misfire: Any, missed_that_run: int) -> None:
    world = World(1, faults=0)
    asks = [
        Ask(1.0, "schedule", "cron", {"schedule": {"cron": "* * * * *"}, "misfire": misfire}),
        Ask(END - 260.0, "end", "cron", {}),
    ]
    faults = [Fault(DOWN_AT, "crash all", 0, DOWN_FOR, 0.0)]
    world.plan = Plan(asks, faults, END - 200.0, END)
    logs = world.run().logs

    ended = [run for run in logs["ended"] if run["what"] == "run" and run["tag"] == "cron"]
    dues = sorted(run["due"] - logs["setup"][0]["base"] for run in ended)
    assert dues == [60.0 * minute for minute in range(1, len(dues) + 1)], "no occurrence is lost from sight"
    missed = [run for run in ended if DOWN_AT < run["due"] - logs["setup"][0]["base"] < DOWN_AT + DOWN_FOR]
    assert len(missed) == 120
    newest = sorted(missed, key=lambda run: -run["due"])
    states = [run["state"] for run in newest]
    assert states == ["SUCCEEDED"] * missed_that_run + ["SKIPPED"] * (120 - missed_that_run)
    others = {run["state"] for run in ended if run not in missed}
    assert others == {"SUCCEEDED"}
