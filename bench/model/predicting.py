"""Predicting: what the model says of 2 and 4 processes, beside what was measured; and what 50,000 runs/s take."""

import json
import math
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from bench.crowd import CROWD, CROWDED
from bench.model.fitting import CLAIM_SHARE, Measured, fit
from bench.model.simulation import Costs, Layout, Outcome, simulate

WANTED = 50_000.0
ROOMY = 0.7
"""How busy cores may be in what is recommended: the rest is for bursts."""
NETWORK_TRIP = 500.0
"""There and back between two machines of one data centre, in microseconds. Assumed, not measured: what was measured had
both on one machine."""
BULK = "submit, 1,000 at a time"
"""How jobs are submitted in what is recommended."""
PROFILES = {
    "a run of a one-off job, submitted in bulk": ("submit, 1,000 at a time", "run, async"),
    "a run of a one-off job, submitted alone": ("submit, one at a time", "run, async"),
    "a run of a recurring job": ("fire, recurring", "run, async"),
    "a run in a thread": ("submit, 1,000 at a time", "run, thread"),
    "a run in a process": ("submit, 1,000 at a time", "run, process"),
}
COUNTED = ("client", "database", "WAL", "round trips", "index writes")


def predict(results: Path) -> dict[str, Any]:
    """From `cost.json` and `nodes.json` to `model.json`."""
    body_of_cost = json.loads((results / "cost.json").read_text())
    cost = body_of_cost["ours"]["postgres"]
    nodes = json.loads((results / "nodes.json").read_text())
    passing = body_of_cost["notes"]["passing by, µs"]
    measured = Measured(
        worker=cost["run, async: client"],
        database=cost["run, async: database"],
        sessions=cost.get("run, async: in sessions"),
        rate=nodes["ours"]["postgres"]["1 process"],
        cores=nodes["machine"]["processors"],
        claim_share=_claim_share(body_of_cost["notes"].get("statements", {}).get("run, async", {})),
        skip=passing["being claimed"],
        pass_by=passing["claimed"],
        crowding=_crowding(cost),
    )
    costs = fit(measured)
    body = {
        "fitted on": msgspec.to_builtins(measured),
        "costs": msgspec.to_builtins(costs),
        "blind": [_blind(costs, measured.cores, nodes, processes) for processes in (2, 4)],
        "profiles": {name: profile(cost, steps) for name, steps in PROFILES.items()},
        "wanted": WANTED,
        "assumed": {"round trip to another machine, µs": NETWORK_TRIP},
        "takes": takes(costs, cost),
        "breaks first": breaks_first(costs, written(cost)),
    }
    (results / "model.json").write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n")
    return body


def _claim_share(statements: Mapping[str, Mapping[str, Any]]) -> float:
    """By the time that sessions spend in the statements that claim and that complete."""
    claim, complete = (
        sum(spent["µs"] for spent in statements.values() if spent.get("does") in does)
        for does in (("claim", "look"), ("succeed_runs", "end_runs"))
    )
    return claim / (claim + complete) if claim and complete else CLAIM_SHARE


def _crowding(cost: Mapping[str, float]) -> float:
    """From what a run costs while as many other processes as in `CROWD` want the cores all the time."""
    alone, crowded = (
        sum(cost[f"{step}: {side}"] for side in ("client", "database")) for step in ("run, async", CROWDED)
    )
    return max(0.0, crowded / alone - 1) / CROWD


def _blind(costs: Costs, cores: int, nodes: Mapping[str, Any], processes: int) -> dict[str, float]:
    predicted = simulate(costs, Layout(processes, cores)).rate
    measured = nodes["ours"]["postgres"][f"{processes} processes"]
    return {"processes": processes, "predicted": predicted, "measured": measured, "off by": predicted / measured - 1}


def profile(cost: Mapping[str, float], steps: tuple[str, ...]) -> dict[str, float]:
    """What one run costs from its beginning to its end."""
    return {what: sum(cost[f"{step}: {what}"] for step in steps) for what in COUNTED if f"{steps[0]}: {what}" in cost}


def written(cost: Mapping[str, float]) -> float:
    """Bytes that a run leaves in the log, from its submission to its end."""
    return cost["run, async: WAL"] + cost[f"{BULK}: WAL"]


def _apart(costs: Costs) -> Costs:
    """With the database on a machine of its own, behind a network."""
    return msgspec.structs.replace(costs, trip=NETWORK_TRIP)


def takes(costs: Costs, cost: Mapping[str, float]) -> dict[str, Any]:
    """The smallest layout, with the database on a machine of its own, that runs what is wanted with room to spare: the
    fewest worker processes, then the fewest database cores, then the fewest lanes; and the slowest log that lets it.
    Who submits has processes of his own: they are told, and are not simulated."""
    spent = WANTED * cost[f"{BULK}: database"] / 1e6  # sessions that submit need cores there too
    submitting = WANTED * cost[f"{BULK}: client"] / 1e6
    costs, wal = _apart(costs), written(cost)
    for workers, database, lanes in product(range(1, 65), (2, 4, 8, 16, 32, 64), (1, 2, 4, 8)):
        if database - spent <= 0.5 or lanes > workers:
            continue
        layout = Layout(workers, workers, lanes, database - spent)
        outcome = simulate(costs, layout)
        if outcome.rate >= WANTED and _is_roomy(outcome, workers, database, spent):
            return {
                "worker processes": workers,
                "processes that submit": math.ceil(submitting / ROOMY),
                "database cores": database,
                "lanes with workers of their own": lanes,
                "worker cores busy": WANTED * costs.worker / 1e6,
                "cores busy of those who submit": submitting,
                "database cores busy": WANTED * (costs.claim + costs.complete + costs.background) / 1e6 + spent,
                "WAL MB/s": WANTED * wal / 1e6,
                "log bandwidth, MB/s at least": _log_bandwidth(costs, layout, wal),
                "runs/s at most": outcome.rate,
            }
    return {}


def _log_bandwidth(costs: Costs, layout: Layout, wal: float) -> int | None:
    """The slowest disk for the log, in MB/s, with which this layout still runs what is wanted. Flushes wait for what is
    written before them: it takes more than is written."""
    for bandwidth in range(int(WANTED * wal / 25e6) * 25 + 25, 2_001, 25):
        slower = msgspec.structs.replace(layout, log_bandwidth=bandwidth * 1e6, log_bytes=wal)
        if simulate(costs, slower).rate >= WANTED:
            return bandwidth
    return None


def _is_roomy(outcome: Outcome, workers: int, database: int, spent: float) -> bool:
    part = WANTED / outcome.rate
    busiest = max(outcome.worker_cores / workers, (outcome.database_cores + spent) / database)
    return busiest * part <= ROOMY


def breaks_first(costs: Costs, wal: float) -> list[dict[str, Any]]:
    """As worker processes are added to a database with 16 cores of its own: how much more each one brings, where the
    log can be written as fast as one likes. How fast that would have to be is told beside it; who submits is not in
    it."""
    found = []
    for workers in (1, 2, 4, 8, 16, 32):
        outcome = simulate(_apart(costs), Layout(workers, workers, database_cores=16), seconds=1.0)
        found.append(
            {
                "worker processes": workers,
                "runs/s": outcome.rate,
                "worker cores busy": outcome.worker_cores,
                "database cores busy": outcome.database_cores,
                "WAL MB/s": outcome.rate * wal / 1e6,
            }
        )
    return found
