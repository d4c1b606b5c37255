"""What one seed stands for: what the client asks for, and what is done to the nodes and the database meanwhile.

A plan lasts an hour, or a share of it with as large a share of the work: first faults, then quiet.
"""

from random import Random
from typing import Any, NamedTuple

NODES = 3
HOUR = 3_600.0
_LONGEST_FAULT = 120.0
_LONGEST_WAIT = 200.0
_DRAIN = 400.0
"""How long everything that is left may take: leases end, what waits comes due, what was lost is tried again."""
_PROBE = 250.0


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


KINDS = (
    "crash",
    "crash all",
    "restart",
    "freeze",
    "errors before",
    "errors after",
    "delays",
    "cut",
    "database away",
    "clock forward",
    "clock back",
)


def make_plan(random: Random, *, base: float, faults: int = 5, share: float = 1.0) -> Plan:
    until = HOUR * share - _DRAIN
    asks = [*_one_offs(random, base, until, share), *_bursts(random, until, share), *_recurring(random, base, until)]
    struck = sorted(_fault(random, until) for _ in range(faults))
    # A clock that is put back makes everything wait that much longer.
    back = sum(fault.strength for fault in struck if fault.kind == "clock back")
    quiet = until + back + _DRAIN
    return Plan(sorted(asks, key=lambda ask: ask.t), struck, quiet, quiet + _PROBE)


def _one_offs(random: Random, base: float, until: float, share: float) -> list[Ask]:
    asks = []
    for number in range(round(random.randint(200, 260) * share)):
        t = random.uniform(1.0, until)
        options: dict[str, Any] = {"seconds": _seconds(random)}
        when = random.random()
        if when < 0.3:
            options["wait"] = round(random.choice([random.uniform(0.1, 15.0), random.uniform(15.0, _LONGEST_WAIT)]), 3)
        elif when < 0.4:
            options["at"] = round(base + t + random.uniform(-5.0, 200.0), 3)
        if random.random() < 0.5:
            options["idempotent"] = f"key-{number}"
        if random.random() < 0.15:
            options["fail"] = random.randint(1, 5)
        elif random.random() < 0.15:
            options["once"] = True
        if random.random() < 0.12:
            options["cancel after"] = random.uniform(0.0, 30.0)
        asks.append(Ask(t, "submit", f"one-{number}", options))
    return asks


def _bursts(random: Random, until: float, share: float) -> list[Ask]:
    return [
        Ask(random.uniform(1.0, until), "batch", f"burst-{number}", {"count": random.randint(2, 16)})
        for number in range(round(random.randint(4, 10) * share) + 1)
    ]


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
    every_second = {"schedule": {"cron": "* * * * * *"}, "misfire": "all"}
    asks.append(Ask(t, "schedule", "second", every_second))
    asks.append(Ask(t + random.uniform(20.0, 60.0), "end", "second", {}))
    return asks


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
    kind = random.choice(KINDS)
    lasts = random.choice([random.uniform(0.1, 5.0), random.uniform(5.0, 30.0), random.uniform(30.0, _LONGEST_FAULT)])
    strength = random.choice([0.05, 0.2, 0.5])
    if kind == "delays":
        strength = random.choice([0.5, 5.0, 20.0])
    elif kind.startswith("clock"):
        strength = random.choice([2.0, 60.0, 300.0])
    return Fault(random.uniform(20.0, until - _LONGEST_FAULT), kind, random.randrange(NODES), lasts, strength)
