"""The part of docs/scaling.md about streams: what a run through Redis costs, and what half a million a second need."""

import json
from math import ceil
from pathlib import Path
from typing import Any

from bench.provenance import measured

WANTED = 500_000
CORES, BUSY = 16, 0.7
"""The cores of a database, and how busy a core may be."""
LOG = 200.0
"""MB of WAL that a database may write in a second."""
COST = "a plain run through Redis"
WAITING = "broker, bytes of memory per waiting run"
HISTORY, ID = "row of history, bytes", "its id, bytes"
DAYS, DAYS_OF_IDS = 30, 3
"""How long the database keeps history by default, and ids at least."""
FILES = 33
"""Bytes of a row in the archive (decision 29)."""


def streams(results: Path) -> str:
    """Empty without results."""
    file = results / "stream.json"
    if not file.exists():
        return ""
    body = json.loads(file.read_text())
    cost = body["notes"].get(COST)
    return "" if cost is None else "\n".join([*_costs(body, cost), *_needs(cost)])


def _costs(body: dict[str, Any], cost: dict[str, float]) -> list[str]:
    lines = [
        "## Through a stream",
        "",
        "A plain run through Redis, from its submission in bulk to its end in history; from `bench/results/stream.json`"
        " (`make bench SCENARIO=stream`).",
        f"{measured(body)}.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {figure:,.1f} |" for name, figure in cost.items()),
        "",
        "What it costs the database, as a part of what the same run costs through the store:",
        "",
        "| run | CPU |",
        "|---|---|",
    ]
    own = body["ours"]["postgres"]
    parts = {name.rpartition(", ")[2]: figure for name, figure in own.items() if name.startswith("database CPU, ")}
    return [*lines, *(f"| {kind} | {figure:.0f} % |" for kind, figure in parts.items()), ""]


def _needs(cost: dict[str, float]) -> list[str]:
    database, worker, broker = (WANTED * cost[f"{name}, µs of CPU"] / 1e6 for name in ("database", "worker", "broker"))
    wal = WANTED * cost["WAL, bytes"] / 1e6
    databases = max(ceil(database / (CORES * BUSY)), ceil(wal / LOG))
    history, ids, files = (WANTED * 86_400 * each / 1e12 for each in (cost[HISTORY], cost[ID], FILES))
    return [
        f"### What {WANTED:,} plain runs a second need",
        "",
        f"By these costs, with no core busier than {BUSY:.0%}, databases of {CORES} cores that write at most"
        f" {LOG:.0f} MB of WAL a second,",
        "and Redis on one core each. Queues or tenants are divided among the databases; an installation of duetime",
        "has one. Costs on other machines differ: measure yours, and compare the ratios.",
        "",
        "| | |",
        "|---|---|",
        f"| cores busy in databases | {database:,.1f} |",
        f"| databases of {CORES} cores | {databases} |",
        f"| WAL of each database | {wal / databases:,.0f} MB/s |",
        f"| disk of each database, for a day of history | {(history + DAYS_OF_IDS * ids) / databases:,.1f} TB |",
        f"| disk of each database, for {DAYS} days (the default `retention`) |"
        f" {(DAYS * history + DAYS_OF_IDS * ids) / databases:,.0f} TB |",
        f"| the same {DAYS} days of all databases as files of the archive | {DAYS * files:,.0f} TB |",
        f"| worker processes | {ceil(worker / BUSY)} |",
        f"| Redis servers | {ceil(broker / BUSY)} |",
        f"| memory of Redis for a minute's backlog | {WANTED * 60 * cost[WAITING] / 1e9:,.1f} GB |",
    ]
