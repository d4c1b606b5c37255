"""docs/scaling.md, from the measured costs and the model."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.provenance import measured
from bench.stream_doc import streams
from bench.tables import shown

BUSY = 0.2
"""If other programs use more than this part of its cores, a machine is too busy for a verdict."""

HEAD = """# Scaling

The measured cost of a run, a model of larger installations, and the hardware for 50,000 runs a second. **Written from
`bench/results/cost.json`, `nodes.json` and `model.json` by `make bench-docs`; do not edit.** `make bench
SCENARIO=cost` and `SCENARIO=nodes` measure them again.
"""


def scaling(results: Path) -> str:
    cost = json.loads((results / "cost.json").read_text())
    model = json.loads((results / "model.json").read_text())
    nodes = json.loads((results / "nodes.json").read_text())
    parts = [
        HEAD,
        _busy(cost, nodes),
        f"- costs: {measured(cost)}.\n- nodes: {measured(nodes)}.",
        _costs(cost),
        _profiles(model),
        _weights(cost),
        _model(model),
        _takes(model),
        streams(results),
        _lanes(cost),
    ]
    return "\n".join(part.strip() + "\n" for part in parts if part)


def _busy(*bodies: dict[str, Any]) -> str:
    """A model fitted on a busy machine assumes cores that were not available."""
    if max(body["machine"]["busy_before"] for body in bodies) <= BUSY:
        return ""
    return (
        "**The machine was busy with other work during these measurements. CPU, WAL and index writes per run are valid;"
        "\nrates, fitted values and the model's predictions are not: measure again on a quiet machine.**"
    )


def _costs(cost: dict[str, Any]) -> str:
    own, units = cost["ours"]["postgres"], cost["unit"]["postgres"]
    steps = list(dict.fromkeys(name.rpartition(": ")[0] for name in own))
    whats = list(dict.fromkeys(name.rpartition(": ")[2] for name in own))
    lines = [
        "## Cost of each step",
        "",
        "One process, no-op tasks, 200 bytes of arguments; each figure is per run.",
        "",
    ]
    heads = [f"{what} ({next(unit for name, unit in units.items() if name.endswith(': ' + what))})" for what in whats]
    lines += [f"| step | {' | '.join(heads)} |", f"|---|{'---|' * len(whats)}"]
    lines += [f"| {step} | {' | '.join(shown(own.get(f'{step}: {what}')) for what in whats)} |" for step in steps]
    lines += [
        "",
        "`client` is the submitting process, or the worker with the processes that it starts for runs and their start.",
        "`database` is all processes of PostgreSQL, `in sessions` only those that serve clients. WAL is measured",
        "right after a checkpoint, so it includes full page images. Index writes are B-tree insertions in the log.",
    ]
    return "\n".join(lines)


def _profiles(model: dict[str, Any]) -> str:
    wanted = model["wanted"]
    lines = ["## Cost of a run from beginning to end", "", f"With the totals for {wanted:,.0f} runs a second.", ""]
    lines += [
        "| profile | client CPU | database CPU | WAL | round trips | index writes"
        " | cores for clients | for the database | WAL/s |"
    ]
    lines += ["|---" * 9 + "|"]
    for name, spent in model["profiles"].items():
        lines.append(
            f"| {name} | {spent['client']:.0f} µs | {spent['database']:.0f} µs | {spent['WAL']:,.0f} B"
            f" | {shown(spent.get('round trips'))} | {shown(spent.get('index writes'))}"
            f" | {wanted * spent['client'] / 1e6:.1f} | {wanted * spent['database'] / 1e6:.1f}"
            f" | {wanted * spent['WAL'] / 1e6:,.0f} MB |"
        )
    return "\n".join(lines)


def _weights(cost: dict[str, Any]) -> str:
    weights = cost["notes"]["bytes"]
    lines = ["## Row sizes", "", "With their indexes, on PostgreSQL.", "", "| | bytes |", "|---|---|"]
    lines += [f"| {name} | {weight:,.0f} |" for name, weight in weights.items()]
    history = weights["a run in history"]
    lines += [
        "",
        "A day of history, by runs per second:",
        "",
        "| runs/s | rows a day | GB a day |",
        "|---|---|---|",
    ]
    lines += [
        f"| {rate:,} | {rate * 86_400:,} | {rate * 86_400 * history / 1e9:,.1f} |"
        for rate in (1, 100, 1_000, 10_000, 50_000)
    ]
    return "\n".join(lines)


def _model(model: dict[str, Any]) -> str:
    lines = [
        "## The model",
        "",
        "A discrete-event simulation (`bench/model/simulation.py`) of worker processes, database sessions, cores and",
        "the log. Its input is the costs above, and it is fitted on one worker process: the wait for a commit is",
        "chosen so that one simulated process is as fast as the measured one. It then predicts more processes blindly:",
        "",
        "| worker processes | predicted runs/s | measured runs/s | off by |",
        "|---|---|---|---|",
        *(
            f"| {each['processes']:.0f} | {each['predicted']:,.0f} | {each['measured']:,.0f} | {each['off by']:+.0%} |"
            for each in model["blind"]
        ),
    ]
    worst = max(abs(each["off by"]) for each in model["blind"])
    told = "within" if worst <= 0.2 else "**not within**"
    lines += ["", f"The largest error is {worst:.0%}: {told} the required 20 %."]
    costs = model["costs"]
    lines += [
        "",
        f"Fitted: {costs['worker']:.1f} µs of a worker's CPU, {costs['claim']:.1f} µs to claim and"
        f" {costs['complete']:.1f} µs to complete in sessions, {costs['background']:.1f} µs in the background,"
        f" {costs['flush'] / 1000:.1f} ms for a commit. Workers that share a lane skip what the others have taken:"
        f" {costs['skip']:.1f} µs for a run that is being claimed, {costs['pass_by']:.1f} µs for a claimed one"
        f" (`bench/passing.py`). Each process that waits for a core adds {costs['crowding']:.1%} to all CPU costs"
        " (`bench/crowd.py`).",
    ]
    return "\n".join(lines)


def _takes(model: dict[str, Any]) -> str:
    takes, wanted = model["takes"], model["wanted"]
    lines = [f"## Hardware for {wanted:,.0f} runs a second", ""]
    if takes:
        lines += [
            "With the database on a separate machine and no core busier than 70 %; jobs are submitted in bulk, by",
            "processes with separate cores:",
            "",
            "| | |",
            "|---|---|",
            *(f"| {name} | {_count(figure)} |" for name, figure in takes.items()),
        ]
    else:
        lines.append("More than 64 worker processes or 64 database cores, which is beyond the model.")
    trip = model["assumed"]["round trip to another machine, µs"] / 1000
    lines += [
        "",
        f"The model assumes a round trip of {trip:g} ms to that machine, as in one data center (not measured), and",
        f"{model['costs']['trip'] / 1000:g} ms on one machine, as here.",
    ]
    lines += ["", "Adding worker processes, on separate machines, to a database with 16 cores:", ""]
    lines += ["| worker processes | runs/s | worker cores busy | database cores busy | WAL |", "|---|---|---|---|---|"]
    lines += [
        f"| {each['worker processes']} | {each['runs/s']:,.0f} | {each['worker cores busy']:.1f}"
        f" | {each['database cores busy']:.1f} | {each['WAL MB/s']:,.0f} MB/s |"
        for each in model["breaks first"]
    ]
    return "\n".join([*lines, "", _what_breaks(model)])


def _what_breaks(model: dict[str, Any]) -> str:
    steps = model["breaks first"]
    for before, after in pairwise(steps):
        grown = after["runs/s"] / before["runs/s"]
        if grown < 1.5:
            told = f"twice as many give only {grown:.2f} times the throughput" if grown >= 1 else "throughput falls"
            full = after["database cores busy"] > 14
            why = (
                "the database's cores are busy, increasingly with claims that skip runs which others have taken from"
                " the same lane; queues with separate workers (`--queues`) have separate lanes"
                if full
                else "sessions that claim from one lane skip what others are claiming, and commits wait for the log"
            )
            enough = before["worker processes"]
            return f"The first bottleneck: beyond {enough} worker processes, {told}, because {why}."
    return "There is no bottleneck up to 32 worker processes."


def _lanes(cost: dict[str, Any]) -> str:
    swept = cost["notes"]["lanes by nodes"]
    rounds = cost["notes"].get("rounds of lanes by nodes", 1)  # there was one before it was noted
    nodes = list(next(iter(swept.values())))
    lines = [
        "## Lanes and nodes",
        "",
        "Measured drains, in runs/s, by number of lanes and worker processes:"
        f" {'a single round' if rounds == 1 else f'medians of {rounds} rounds'}.",
        "",
    ]
    lines += [f"| lanes | {' | '.join(f'{each} worker processes' for each in nodes)} |", f"|---|{'---|' * len(nodes)}"]
    lines += [f"| {lanes} | {' | '.join(f'{row[each]:,.0f}' for each in nodes)} |" for lanes, row in swept.items()]
    lines += [
        "",
        "Worker processes and the database share the cores of one machine here. The table shows the cost of more",
        "processes or lanes, not their benefit on separate machines.",
    ]
    return "\n".join(lines)


def _count(figure: float | None) -> str:
    """Integers have no decimals."""
    return f"{figure:,}" if isinstance(figure, int) else shown(figure)
