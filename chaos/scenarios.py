"""Runs with one kind of fault each, as the promises name them; `run` without a scenario mixes all kinds."""

from typing import Literal, NamedTuple

from chaos.demands import Demands
from chaos.real.points import POINTS


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
    jitter: float = 0.5
    """By which share the time between two strikes varies."""
    first: float = 3.0
    """When to strike for the first time, in seconds."""
    most: int | None = None
    """How often to strike, at most."""
    tasks: tuple[float, ...] = (0.0, 0.05, 0.5, 2.0)
    """How many seconds the tasks of single jobs take; each as often as the others."""
    single_every: float = 0.2
    over_http: bool = False
    """The workload asks the servers, not the database."""
    pooled: bool = False
    """PgBouncer stands between all processes and the database."""
    standby: Literal["synchronous", "asynchronous"] | None = None
    patroni: Literal["synchronous", "asynchronous"] | None = None
    """The database is a Patroni cluster with such standbys."""
    stream: Literal["redis", "kafka"] | None = None
    """The queue of the workload goes through a stream at such a broker, and falls back to the store."""
    stored_first: bool = False
    """The queue goes through the store until its kind is changed."""
    outage: float | None = None
    """For how many seconds a broker that is killed is away."""
    midnight: float | None = None
    """All clocks are put forward so that it is midnight soon; the faults go on for so many seconds after that."""
    activities: tuple[str, ...] = ()
    """What else goes on while the faults last: see `real/activities.py`."""
    demands: Demands = Demands()


_FAILOVERS = {"kill": "kill leader", "switchover": "switch over", "cut": "cut off leader"}
_MODES: tuple[Literal["synchronous", "asynchronous"], ...] = ("synchronous", "asynchronous")

# Back by an hour and forward again, while all servers start anew.
_CLOCK_RESTART = Scenario(
    ("database clock and restart",),
    seconds=70.0,
    every=100.0,
    lasts=25.0,
    tasks=(0.05, 0.5, 2.0),
    strengths=(-3600.0,),
    demands=Demands(strikes=1),
)

SCENARIOS = {
    "kill": Scenario(
        ("kill worker", "kill server"),
        seconds=300.0,
        every=2.0,
        rate=450.0,
        demands=Demands(strikes=130, acknowledged=100_000, over_within=10.0),  # the lease and five seconds
    ),
    "crash-database": Scenario(
        ("crash database",), seconds=300.0, every=25.0, demands=Demands(strikes=10, resumes_within=10.0)
    ),
    "cut": Scenario(
        ("cut",),
        seconds=90.0,
        every=70.0,
        who=0.5,
        lasts=60.0,
        first=12.0,
        most=1,
        # Some are at work when it is cut off and done before it gives them up; some take longer than that.
        tasks=(1.0, 2.0, 3.0, 4.0) * 5 + (30.0,),
        single_every=0.15,
        demands=Demands(refuses_late=True, moves=True, rejoins=True),
    ),
    # For longer than the lease: what was at work has moved when it goes on, and sends what it had done.
    "freeze": Scenario(
        ("freeze",),
        seconds=80.0,
        every=10.0,
        lasts=8.0,
        tasks=(0.05, 0.5, 2.0),
        single_every=0.05,
        demands=Demands(strikes=6, refuses_late=True),
    ),
    "one-server": Scenario(
        ("kill server",), seconds=60.0, every=2.0, who=0.0, demands=Demands(strikes=20, lag_p95=1.0, succeeds=0.999)
    ),
    "node-clock": Scenario(
        ("node clock",),
        seconds=40.0,
        every=6.0,
        lasts=4.0,
        strengths=(300.0, -300.0),
        demands=Demands(strikes=5, lag_p95=1.0),
    ),
    "drift": Scenario(
        ("node drift", "database drift"), seconds=60.0, every=12.0, demands=Demands(strikes=4, lag_p95=1.0)
    ),
    # Far enough apart that what begins early is not taken for what was claimed before the jump.
    "database-clock": Scenario(
        ("database clock",),
        seconds=120.0,
        every=50.0,
        lasts=20.0,
        strengths=(300.0, -300.0),
        demands=Demands(strikes=2),
    ),
    "database-clock-restart": _CLOCK_RESTART,
    "pgbouncer-clock-restart": _CLOCK_RESTART._replace(pooled=True),
    "lies": Scenario(("lies",), seconds=100.0, every=200.0, lasts=90.0, strengths=(0.05,)),
    "disk-full": Scenario(
        ("disk full",),
        seconds=50.0,
        every=15.0,
        rate=200.0,
        lasts=5.0,
        over_http=True,
        demands=Demands(strikes=3, tells="The database is not available", writes="No space left on device"),
    ),
    "kill-all": Scenario(("kill all",), seconds=45.0, every=12.0, demands=Demands(strikes=3)),
    "http": Scenario(
        ("kill server", "kill worker", "restart", "reset", "crash database"),
        seconds=60.0,
        every=3.0,
        over_http=True,
        demands=Demands(strikes=15),
    ),
    "conflicts": Scenario(
        ("deadlock", "serialization"),
        seconds=60.0,
        every=9.0,
        rate=300.0,
        lasts=4.0,
        demands=Demands(strikes=5, conflicts=True),
    ),
    "pgbouncer": Scenario(
        ("kill worker", "kill server", "terminate backends", "reset", "kill pooler"),
        seconds=60.0,
        every=4.0,
        pooled=True,
        demands=Demands(strikes=12),
    ),
    "promote": Scenario(
        ("promote",), seconds=25.0, every=60.0, most=1, standby="synchronous", demands=Demands(resumes_within=10.0)
    ),
    # The standby stops receiving three seconds before the primary dies: the tail of everything is lost.
    "promote-asynchronous": Scenario(
        ("promote",),
        seconds=25.0,
        every=60.0,
        first=8.0,
        most=1,
        strengths=(3.0,),
        standby="asynchronous",
        demands=Demands(resumes_within=10.0),
    ),
    "promote-pgbouncer": Scenario(
        ("promote",),
        seconds=25.0,
        every=60.0,
        first=8.0,
        most=1,
        strengths=(3.0,),
        pooled=True,
        standby="asynchronous",
        demands=Demands(resumes_within=15.0),
    ),
    # An hour back and, after 30 s, an hour forward; an hour forward for good. Nodes die and start meanwhile.
    "hour-back": Scenario(
        ("database hour", "kill worker", "restart", "kill server"),
        seconds=50.0,
        every=6.0,
        lasts=30.0,
        strengths=(-3600.0,),
        demands=Demands(strikes=5, frees_within=20.0, keeps=True),
    ),
    "hour-ahead": Scenario(
        ("database hour", "kill worker", "restart", "kill server"),
        seconds=40.0,
        every=6.0,
        strengths=(3600.0,),
        demands=Demands(strikes=4, frees_within=20.0, keeps=True),
    ),
    "descriptors": Scenario(
        ("descriptors",),
        seconds=45.0,
        every=14.0,
        who=0.0,
        lasts=10.0,
        activities=("zones",),
        demands=Demands(strikes=2),
    ),
    "poison": Scenario((), seconds=60.0, every=1.0, activities=("poison",), demands=Demands(strikes=2, lag_p95=5.0)),
    "poison-afresh": Scenario(
        (), seconds=60.0, every=1.0, activities=("afresh",), demands=Demands(strikes=2, lag_p95=5.0)
    ),
    "hold": Scenario((), seconds=55.0, every=1.0, activities=("hold",), demands=Demands(strikes=2, lag_p95=1.0)),
    "pause": Scenario(
        ("kill worker", "kill server", "restart"),
        seconds=60.0,
        every=8.0,
        activities=("pauses",),
        demands=Demands(strikes=4, backlog=15),
    ),
    "restore": Scenario(
        ("restore",), seconds=30.0, every=60.0, most=1, lasts=8.0, demands=Demands(resumes_within=10.0)
    ),
    **{
        f"patroni-{name}{'' if mode == 'synchronous' else '-asynchronous'}": Scenario(
            (kind,),
            seconds=20.0,
            every=30.0,
            jitter=0.0,
            first=5.0,
            most=1,
            rate=60.0,
            patroni=mode,
            demands=Demands(resumes_within=10.0, gap_beyond_election=3.0),
        )
        for name, kind in _FAILOVERS.items()
        for mode in _MODES
    },
    "patroni-kill-20": Scenario(
        ("kill leader",),
        seconds=600.0,
        every=30.0,
        jitter=0.0,
        first=5.0,
        most=20,
        rate=30.0,
        patroni="synchronous",
        demands=Demands(strikes=20, resumes_within=10.0, gap_beyond_election=3.0),
    ),
    "upgrade": Scenario(("upgrade",), seconds=30.0, every=60.0, most=1, demands=Demands(succeeds=0.999)),
    # While a killed process is not reaped, workers find the runs that its relay would have announced after a second.
    "streams-kill": Scenario(
        ("kill worker", "kill server", "duplicate", "reset offsets", *POINTS),
        seconds=44.0,
        every=2.5,
        rate=60.0,
        stream="redis",
        over_http=True,
        demands=Demands(strikes=12, quiet_p95=1.5, carried=500, carries_again=True),
    ),
    "streams-kafka": Scenario(
        ("kill broker", "rebalance", "duplicate", "kill worker", "reset offsets"),
        seconds=44.0,
        every=8.0,
        jitter=0.2,
        outage=6.0,
        rate=60.0,
        stream="kafka",
        demands=Demands(strikes=5, carried=500, carries_again=True),
    ),
    "streams-outage": Scenario(
        ("publish unanswered", "kill broker"),
        seconds=20.0,
        every=12.0,
        jitter=0.2,
        most=2,
        outage=60.0,
        rate=60.0,
        stream="redis",
        over_http=True,
        demands=Demands(strikes=2, carried=100, fallen_back=200, carries_again=True),
    ),
    # At least as far apart as servers need to agree on the kind of a queue, so that runs are carried in between.
    "streams-change": Scenario(
        ("change kind",),
        seconds=48.0,
        every=20.0,
        jitter=0.05,
        rate=60.0,
        stream="redis",
        stored_first=True,
        over_http=True,
        demands=Demands(strikes=3, carried=500, carries_again=True),
    ),
    "streams-midnight": Scenario(
        ("duplicate", "kill worker", "reset offsets"),
        seconds=95.0,
        every=4.0,
        rate=60.0,
        stream="redis",
        midnight=18.0,
        demands=Demands(strikes=8, carried=500, carries_again=True, midnight=True),
    ),
}
