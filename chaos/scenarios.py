"""Runs with one kind of fault each, as the promises name them; `run` without a scenario mixes all kinds."""

from typing import NamedTuple


class Scenario(NamedTuple):
    kinds: tuple[str, ...]
    seconds: float
    every: float
    rate: float = 100.0
    """One-off jobs a second."""
    longest_wait: float = 20.0
    """Seconds: how far ahead the workload asks for things."""
    who: float | None = None
    """Always strike the same one, as a share of all that could be struck."""
    lasts: float | None = None
    strengths: tuple[float, ...] = ()
    """Taken in turn."""


SCENARIOS = {
    "kill": Scenario(("kill worker", "kill server"), seconds=300.0, every=2.0, rate=450.0),
    "crash-database": Scenario(("crash database",), seconds=75.0, every=7.0),
    "cut": Scenario(("cut",), seconds=75.0, every=70.0, who=0.5, lasts=60.0),
    "one-server": Scenario(("kill server",), seconds=60.0, every=2.0, who=0.0),
    "node-clock": Scenario(("node clock",), seconds=40.0, every=6.0, lasts=4.0, strengths=(300.0, -300.0)),
    "database-clock": Scenario(("database clock",), seconds=50.0, every=20.0, lasts=8.0, strengths=(300.0, -300.0)),
    "lies": Scenario(("lies",), seconds=100.0, every=200.0, lasts=90.0, strengths=(0.05,)),
    "disk-full": Scenario(("disk full",), seconds=50.0, every=15.0, rate=200.0, lasts=5.0),
    "kill-all": Scenario(("kill all",), seconds=45.0, every=12.0),
}
