"""What one seed stands for: what the client asks for, and what is done to the nodes and the database meanwhile.

A plan lasts an hour, or a share of it with as large a share of the work: first faults, then quiet.
"""

from random import Random
from typing import Any, NamedTuple

NODES = 3
HOUR = 3_600.0
_KEYS = ("door", "bridge")
"""Under each of them, one run at a time."""
_EVERY_SECOND = "* * * * * *"
_FEWEST_IN_BURSTS = 20
_LONGEST_FAULT = 120.0
_LONGEST_WAIT = 200.0
_DRAIN = 400.0
"""How long everything that is left may take: leases end, what waits comes due, what was lost is tried again."""
_PROBE = 250.0
_LONG = 240.0
"""Longer than it may take until a run is found whose end was lost."""
_GRACE = 10.0
"""How long a node that is stopped lets its runs end; then it hands back what is left of them."""
_PAUSED = 40.0


class Ask(NamedTuple):
    t: float
    what: str
    tag: str
    options: dict[str, Any]


class Fault(NamedTuple):
    t: float
    kind: str
    node: int
    """Which node is struck; all of them, where the kind says so."""
    lasts: float
    strength: float


class Plan(NamedTuple):
    asks: list[Ask]
    faults: list[Fault]
    probe_at: float
    end: float


_DRAWN = (
    "crash",
    "crash all",
    "crash without claims",
    "restart",
    "freeze",
    "errors before",
    "errors after",
    "delays",
    "cut",
    "database away",
    "clock forward",
    "clock back",
    "clock forward, restart",
    "clock back, restart",
)


_INSTEAD = {"crash": "crash without claims", "errors before": "ends lost", "errors after": "ends lost"}
"""What every other fault of a kind becomes. Drawn apart, so that nothing else of the plan changes."""
_LONGEST_LOSS = 10.0


def make_plan(random: Random, *, base: float, faults: int = 5, share: float = 1.0, pauses: int = 0) -> Plan:
    """`pauses`: how often a job is paused while a node that holds runs of it is stopped."""
    until = HOUR * share - _DRAIN
    struck = sorted(_or_instead(_fault(random, until)) for _ in range(faults))
    asks = [
        *_one_offs(random, base, until, share),
        *_victims(random, struck, share),
        *_crowds(random, base, until, share),
        *_recurring(random, base, until),
    ]
    asks += [*_children(random, asks, until, share), *_followers(random, asks)]
    # Some are cancelled or never arrive, and the probes come on top: there are more than 500 in the end.
    asks += _bursts(random, until, round(random.randint(555, 585) * share) - _runs_of(asks))
    for number in range(pauses):
        t = random.uniform(40.0, until - 3 * _PAUSED)
        struck.append(Fault(t, "restart", random.randrange(NODES), random.uniform(0.1, 30.0), 0.0))
        asks += _paused(random, t, f"paused-{number}")
    # A clock that is put back makes everything wait that much longer.
    back = sum(fault.strength for fault in struck if fault.kind.startswith("clock back"))
    quiet = until + back + _DRAIN
    return Plan(sorted(asks, key=lambda ask: ask.t), struck, quiet, quiet + _PROBE)


def _one_offs(random: Random, base: float, until: float, share: float) -> list[Ask]:
    asks = []
    for number in range(round(random.randint(170, 210) * share)):
        t = random.uniform(1.0, until)
        options: dict[str, Any] = {"seconds": _seconds(random)}
        when = random.random()
        if when < 0.3:
            options["wait"] = round(random.choice([random.uniform(0.1, 15.0), random.uniform(15.0, _LONGEST_WAIT)]), 3)
        elif when < 0.4:
            options["at"] = round(base + t + random.uniform(-5.0, 200.0), 3)
        asks.append(_one_off(random, t, f"one-{number}", options))
    return asks


def _victims(random: Random, faults: list[Fault], share: float) -> list[Ask]:
    """One-offs that are at work when a fault strikes."""
    asks = []
    for number, fault in enumerate(faults):
        for place in range(round(random.randint(4, 10) * share) + 1):
            seconds, before = random.uniform(2.0, 30.0), random.uniform(0.0, 15.0)
            options = {"seconds": round(seconds, 3)}
            asks.append(_one_off(random, max(1.0, fault.t - before), f"victim-{number}-{place}", options))
        if fault.kind == "ends lost":
            asks.append(_claimed_together(fault, number))
    return asks


def _claimed_together(fault: Fault, number: int) -> Ask:
    """One-offs whose ends are lost, and one that goes on for minutes under the same claim."""
    options = {"count": 3, "seconds": (3.0, 4.0, _LONG)}
    return Ask(max(1.0, fault.t - 1.0), "batch", f"together-{number}", options)


def _crowds(random: Random, base: float, until: float, share: float) -> list[Ask]:
    """One-offs that share a key and come at about the same time: all but one of them have to wait."""
    asks = []
    for number in range(round(random.randint(4, 6) * share) + 1):
        t, key = random.uniform(1.0, until - 10.0), random.choice(_KEYS)
        for place in range(random.randint(3, 5)):
            options = {"seconds": round(random.uniform(0.5, 8.0), 3), "concurrency_key": key}
            if random.random() < 0.3:
                options["at"] = round(base + t + 40.0, 3)
            asks.append(_one_off(random, t + random.uniform(0.0, 10.0), f"crowd-{number}-{place}", options))
    return asks


def _one_off(random: Random, t: float, tag: str, options: dict[str, Any]) -> Ask:
    if random.random() < 0.5:
        options["idempotent"] = f"key-{tag}"
    if random.random() < 0.15:
        options["fail"] = random.randint(1, 5)
    elif random.random() < 0.15:
        options["once"] = True
    if random.random() < 0.12:
        options["cancel after"] = random.uniform(0.0, 30.0)
    return Ask(t, "submit", tag, options)


def _runs_of(asks: list[Ask]) -> int:
    """About how many runs these make; a schedule is in force until the next one."""
    runs = 0.0
    in_force: dict[str, Ask] = {}
    for ask in sorted(asks, key=lambda ask: ask.t):
        if ask.what == "submit":
            runs += 1
        elif ask.what in ("schedule", "end"):
            before = in_force.get(ask.tag)
            if before is not None:
                runs += (ask.t - before.t) / _period(before.options["schedule"])
            in_force[ask.tag] = ask
    return round(runs)


def _period(schedule: dict[str, Any]) -> float:
    if "every" in schedule:
        return float(schedule["every"])
    return 1.0 if schedule["cron"] == _EVERY_SECOND else 60.0


def _bursts(random: Random, until: float, jobs: int) -> list[Ask]:
    """Some at once, until there are as many as this; a few in any case."""
    asks: list[Ask] = []
    jobs = max(jobs, _FEWEST_IN_BURSTS)
    while jobs > 0:
        count = random.randint(2, 16)
        asks.append(Ask(random.uniform(1.0, until), "batch", f"burst-{len(asks)}", {"count": count}))
        jobs -= count
    return asks


def _recurring(random: Random, base: float, until: float) -> list[Ask]:
    """Jobs that come, change their minds, and go."""
    asks = []
    for number in range(random.randint(3, 5)):
        tag = f"cron-{number}"
        misfire = random.choice(["all", "all", "latest"])
        t = random.uniform(1.0, until / 5)
        asks.append(Ask(t, "schedule", tag, {"schedule": _schedule(random, base, t), "misfire": misfire}))
        for _ in range(random.randint(0, 2)):
            t += random.uniform(until / 50, until / 5)
            if random.random() < 0.3:
                asks.append(Ask(t, "trigger", tag, {}))
            else:
                asks.append(Ask(t, "schedule", tag, {"schedule": _schedule(random, base, t), "misfire": misfire}))
        asks.append(Ask(random.uniform(max(t + 10.0, until / 2), until), "end", tag, {}))
    t = random.uniform(1.0, until - 60.0)
    every_second = {"schedule": {"cron": _EVERY_SECOND}, "misfire": "all"}
    asks.append(Ask(t, "schedule", "second", every_second))
    asks.append(Ask(t + random.uniform(20.0, 60.0), "end", "second", {}))
    return asks


def _paused(random: Random, stopped_at: float, tag: str) -> list[Ask]:
    """A job that is paused about when a node hands back what it held of it: before that, or just after it."""
    t = stopped_at + random.uniform(0.5, _GRACE + 0.5)
    every_few_seconds = {"schedule": {"cron": "*/3 * * * * *"}, "misfire": "all", "seconds": 25.0}
    return [
        Ask(stopped_at - 30.0, "schedule", tag, every_few_seconds),
        Ask(t, "pause", tag, {}),
        Ask(t + _PAUSED, "resume", tag, {}),
        Ask(t + 2 * _PAUSED, "end", tag, {}),
    ]


def _children(random: Random, asks: list[Ask], until: float, share: float) -> list[Ask]:
    """Jobs that wait for others, some of which are children themselves; a parent may be over, or yet to run."""
    oldest = [ask for ask in asks if ask.what == "submit"]
    slow = [ask for ask in oldest if ask.options.get("seconds", 0.0) > 1.0 or ask.options.get("wait", 0.0) > 1.0]
    children: list[Ask] = []
    for number in range(round(random.randint(110, 150) * share)):
        is_early = random.random() < 0.8
        parent = random.choice(slow if is_early else oldest + children[: number // 2])
        on = random.choice(["success", "success", "finished"])
        options: dict[str, Any] = {"seconds": min(15.0, _seconds(random)), "parent": parent.tag, "on": on}
        if random.random() < 0.2:
            options["wait"] = round(random.uniform(0.1, 60.0), 3)
        if random.random() < 0.5:
            options["idempotent"] = f"child-{number}"
        t = min(until, parent.t + random.uniform(0.01, 0.5 if is_early else 60.0))
        children.append(Ask(t, "submit", f"child-{number}", options))
    return children


def _followers(random: Random, asks: list[Ask]) -> list[Ask]:
    """Jobs that run after each run of one that recurs: seldom, and every second."""
    first = min(ask.t for ask in asks if ask.tag == "cron-0")
    last = max(ask.t for ask in asks if ask.tag == "cron-0")
    t = random.uniform(first, (first + last) / 2)
    return [
        Ask(t, "follow", "follower", {"parent": "cron-0"}),
        Ask(random.uniform(t + 10.0, last + 30.0), "unfollow", "follower", {}),
        *_echo(asks),
    ]


def _echo(asks: list[Ask]) -> list[Ask]:
    first, last = (ask.t for ask in asks if ask.tag == "second")
    return [
        Ask(first + 0.5, "follow", "echo", {"parent": "second"}),
        Ask(last + 60.0, "unfollow", "echo", {}),
    ]


def _schedule(random: Random, base: float, t: float) -> dict[str, Any]:
    if random.random() < 0.5:
        return {"cron": "* * * * *"}
    return {
        "every": float(random.choice([30, 45, 77, 120])),
        "start_at": float(round(base + t + random.uniform(-100, 100))),
    }


def _seconds(random: Random) -> float:
    draw = random.random()
    if draw < 0.3:
        return 0.0
    return round(random.uniform(0.01, 1.0) if draw < 0.7 else random.uniform(1.0, 15.0 if draw < 0.95 else 60.0), 3)


def _fault(random: Random, until: float) -> Fault:
    kind = random.choice(_DRAWN)
    lasts = random.choice([random.uniform(0.1, 5.0), random.uniform(5.0, 30.0), random.uniform(30.0, _LONGEST_FAULT)])
    strength = random.choice([0.05, 0.2, 0.5])
    if kind == "delays":
        strength = random.choice([0.5, 5.0, 20.0])
    elif kind.startswith("clock"):
        strength = random.choice([2.0, 60.0, 300.0])
        if kind == "clock back, restart":
            strength = random.choice([60.0, 300.0, HOUR])
    return Fault(random.uniform(20.0, until - _LONGEST_FAULT), kind, random.randrange(NODES), lasts, strength)


def _or_instead(fault: Fault) -> Fault:
    if fault.kind not in _INSTEAD or Random(str(fault)).random() >= 0.5:
        return fault
    kind = _INSTEAD[fault.kind]
    return fault._replace(kind=kind, lasts=min(fault.lasts, _LONGEST_LOSS) if kind == "ends lost" else fault.lasts)
