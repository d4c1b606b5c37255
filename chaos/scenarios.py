"""Runs with one kind of fault each, as the promises name them; `run` without a scenario mixes all kinds."""

from typing import Literal, NamedTuple

from chaos.demands import Demands


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
    most: int | None = None
    """How often to strike, at most."""
    tasks: tuple[float, ...] = (0.0, 0.05, 0.5, 2.0)
    """How many seconds the tasks of single jobs take; each as often as the others."""
    single_every: float = 0.2
    over_http: bool = False
    """The workload asks the servers, not the database."""
    pooled: bool = False
    """PgBouncer stands between everybody and the database."""
    standby: Literal["synchronous", "asynchronous"] | None = None
    demands: Demands = Demands()


SCENARIOS = {
    "kill": Scenario(("kill worker", "kill server"), seconds=300.0, every=2.0, rate=450.0),
    "crash-database": Scenario(
        ("crash database",), seconds=120.0, every=8.0, demands=Demands(strikes=10, resumes_within=10.0)
    ),
    "cut": Scenario(
        ("cut",),
        seconds=90.0,
        every=70.0,
        who=0.5,
        lasts=60.0,
        most=1,
        tasks=(0.0, 1.0, 2.0, 4.0, 30.0),
        single_every=0.3,
        demands=Demands(strikes=1, refuses_late=True, rejoins=True),
    ),
    "one-server": Scenario(
        ("kill server",), seconds=60.0, every=2.0, who=0.0, demands=Demands(strikes=20, lag_p95=1.0, succeeds=0.999)
    ),
    "node-clock": Scenario(("node clock",), seconds=40.0, every=6.0, lasts=4.0, strengths=(300.0, -300.0)),
    "drift": Scenario(("node drift", "database drift"), seconds=60.0, every=12.0),
    "database-clock": Scenario(("database clock",), seconds=50.0, every=20.0, lasts=8.0, strengths=(300.0, -300.0)),
    "lies": Scenario(("lies",), seconds=100.0, every=200.0, lasts=90.0, strengths=(0.05,)),
    "disk-full": Scenario(("disk full",), seconds=50.0, every=15.0, rate=200.0, lasts=5.0),
    "kill-all": Scenario(("kill all",), seconds=45.0, every=12.0),
    "http": Scenario(
        ("kill server", "kill worker", "restart", "reset", "crash database"), seconds=60.0, every=3.0, over_http=True
    ),
    "clashes": Scenario(
        ("deadlock", "serialization"), seconds=60.0, every=9.0, rate=300.0, lasts=4.0, demands=Demands(came_of_it=True)
    ),
    "pgbouncer": Scenario(
        ("kill worker", "kill server", "terminate backends", "reset", "kill pooler"),
        seconds=60.0,
        every=4.0,
        pooled=True,
    ),
    "promote": Scenario(
        ("promote",), seconds=25.0, every=60.0, most=1, standby="synchronous", demands=Demands(1, resumes_within=10.0)
    ),
    "promote-asynchronous": Scenario(
        ("promote",),
        seconds=25.0,
        every=60.0,
        most=1,
        strengths=(1.0,),
        standby="asynchronous",
        demands=Demands(1, resumes_within=10.0),
    ),
    "restore": Scenario(
        ("restore",), seconds=30.0, every=60.0, most=1, lasts=8.0, demands=Demands(1, resumes_within=10.0)
    ),
    "upgrade": Scenario(("upgrade",), seconds=30.0, every=60.0, most=1, demands=Demands(1, succeeds=0.999)),
}
