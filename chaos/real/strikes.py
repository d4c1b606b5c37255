"""When what is struck, how hard and for how long: drawn from the seed, before anything begins."""

from random import Random
from typing import NamedTuple

from chaos.scenarios import Scenario


class Strike(NamedTuple):
    t: float
    """Seconds after the beginning."""
    kind: str
    who: float
    """Where it hits, as a share of all that could be hit."""
    lasts: float
    strength: float


def schedule(random: Random, scenario: Scenario) -> list[Strike]:
    """A fault every so often, of a kind drawn by chance; every kind is drawn before one is drawn again."""
    strikes = _draw(random, scenario)
    strikes = strikes[: scenario.most]
    if scenario.who is not None:
        strikes = [strike._replace(who=scenario.who) for strike in strikes]
    if scenario.lasts is not None:
        strikes = [strike._replace(lasts=scenario.lasts) for strike in strikes]
    if scenario.outage is not None:
        outage = scenario.outage
        strikes = [strike._replace(lasts=outage) if strike.kind == "kill broker" else strike for strike in strikes]
    if scenario.strengths:
        strikes = [
            strike._replace(strength=scenario.strengths[place % len(scenario.strengths)])
            for place, strike in enumerate(strikes)
        ]
    return strikes


def _draw(random: Random, scenario: Scenario) -> list[Strike]:
    strikes, t, left = [], scenario.first, list[str]()
    while scenario.kinds and t < scenario.seconds:
        if not left:
            left = random.sample(list(scenario.kinds), len(scenario.kinds))
        strikes.append(_strike(random, t, left.pop()))
        t += scenario.every * random.uniform(1.0 - scenario.jitter, 1.0 + scenario.jitter)
    return strikes


def _strike(random: Random, t: float, kind: str) -> Strike:
    lasts, strength = random.uniform(0.5, 6.0), 0.0
    match kind:
        case "latency":
            strength = random.choice([0.005, 0.05, 0.3])
        case "cut" | "half-open":
            lasts = random.choice([1.0, 4.0, 8.0])
        case "crash database":
            lasts = random.uniform(0.1, 3.0)
        case "node clock":
            strength = random.choice([-300.0, 300.0])
        case "database clock":
            strength = random.choice([-10.0, 10.0, 30.0])
            lasts = 4.0
        case "node drift":
            strength = random.choice([0.9, 1.1])
        case "database drift":
            strength, lasts = random.choice([-1.0, 1.0]), 10.0
        case "lies":
            lasts, strength = 6.0, 0.05
        case "deadlock" | "serialization":
            lasts = 3.0
        case "publish unanswered":
            lasts = 8.0  # longer than a publish is repeated
    return Strike(t, kind, random.random(), lasts, strength)
