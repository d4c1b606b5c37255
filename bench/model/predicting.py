"""Predicting: what the model says of 2 and 4 processes, beside what was measured; and what 50,000 runs/s take."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bench.model.fitting import Measured, fit
from bench.model.simulation import Costs, Layout, Outcome, simulate

WANTED = 50_000.0
ROOMY = 0.7
"""How busy cores may be in what is recommended: the rest is for bursts."""
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
    measured = Measured(
        worker=cost["run, async: client"],
        database=cost["run, async: database"],
        in_statements=cost.get("run, async: in statements"),
        rate=nodes["ours"]["postgres"]["1 process"],
        cores=nodes["machine"]["processors"],
        claim_share=_claim_share(body_of_cost["notes"].get("statements", {}).get("run, async", {})),
    )
    costs = fit(measured)
    body = {
        "fitted on": msgspec.to_builtins(measured),
        "costs": msgspec.to_builtins(costs),
        "blind": [_blind(costs, measured.cores, nodes, processes) for processes in (2, 4)],
        "profiles": {name: profile(cost, steps) for name, steps in PROFILES.items()},
        "wanted": WANTED,
        "takes": takes(costs, cost),
        "breaks first": breaks_first(costs),
    }
    (results / "model.json").write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n")
    return body


def _claim_share(statements: Mapping[str, Mapping[str, float]]) -> float:
    """By the time that sessions spend in the statements that claim and that complete."""
    claim = sum(spent["µs"] for text, spent in statements.items() if "duetime.claim" in text or "duetime.look" in text)
    complete = sum(spent["µs"] for text, spent in statements.items() if "duetime.succeed" in text)
    return claim / (claim + complete) if claim and complete else 0.45


def _blind(costs: Costs, cores: int, nodes: Mapping[str, Any], processes: int) -> dict[str, float]:
    predicted = simulate(costs, Layout(processes, cores)).rate
    measured = nodes["ours"]["postgres"][f"{processes} processes"]
    return {"processes": processes, "predicted": predicted, "measured": measured, "off by": predicted / measured - 1}


def profile(cost: Mapping[str, float], steps: tuple[str, ...]) -> dict[str, float]:
    """What one run costs from its beginning to its end."""
    return {what: sum(cost[f"{step}: {what}"] for step in steps) for what in COUNTED if f"{steps[0]}: {what}" in cost}


def takes(costs: Costs, cost: Mapping[str, float]) -> dict[str, Any]:
    """The smallest layout, with the database on a machine of its own, that runs what is wanted with room to spare."""
    submitting = cost["submit, 1,000 at a time: database"]
    for workers in range(1, 65):
        for database in (2, 4, 8, 16, 32, 64):
            spent = WANTED * submitting / 1e6  # sessions that submit need cores of the same machine
            if database - spent <= 0.5:
                continue
            outcome = simulate(costs, Layout(workers, workers, database - spent))
            if outcome.rate >= WANTED and _is_roomy(outcome, workers, database, spent):
                return {
                    "worker processes": workers,
                    "database cores": database,
                    "worker cores busy": WANTED * costs.worker / 1e6,
                    "database cores busy": WANTED * (costs.claim + costs.complete + costs.background) / 1e6 + spent,
                    "WAL MB/s": WANTED * (cost["run, async: WAL"] + cost["submit, 1,000 at a time: WAL"]) / 1e6,
                    "runs/s at most": outcome.rate,
                }
    return {}


def _is_roomy(outcome: Outcome, workers: int, database: int, spent: float) -> bool:
    part = WANTED / outcome.rate
    busiest = max(outcome.worker_cores / workers, (outcome.database_cores + spent) / database)
    return busiest * part <= ROOMY


def breaks_first(costs: Costs) -> list[dict[str, Any]]:
    """As worker processes are added to a database with 16 cores: how much more each one brings."""
    found = []
    for workers in (1, 2, 4, 8, 16, 32):
        outcome = simulate(costs, Layout(workers, workers, 16), seconds=1.0)
        found.append(
            {
                "worker processes": workers,
                "runs/s": outcome.rate,
                "worker cores busy": outcome.worker_cores,
                "database cores busy": outcome.database_cores,
            }
        )
    return found
