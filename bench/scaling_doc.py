"""docs/scaling.md, from the measured costs and the model."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.telling import measured

BUSY = 0.2
"""With more than this part of its cores in use by others, a machine is too busy to judge by."""

HEAD = """# Scaling

What a run costs, what a model makes of it, and what it takes to run 50,000 a second. **Written from
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
        _lanes(cost),
    ]
    return "\n".join(part.strip() + "\n" for part in parts if part)


def _busy(*bodies: dict[str, Any]) -> str:
    """A model that was fed on a busy machine has been told of cores that were not there."""
    if max(body["machine"]["busy_before"] for body in bodies) <= BUSY:
        return ""
    return (
        "**The machine was busy with something else when these were measured. CPU, WAL and index writes for a run hold;"
        "\nrates, what was fitted and everything that the model says do not: measure again on a quiet machine.**"
    )


def _costs(cost: dict[str, Any]) -> str:
    own, units = cost["ours"]["postgres"], cost["unit"]["postgres"]
    steps = list(dict.fromkeys(name.rpartition(": ")[0] for name in own))
    whats = list(dict.fromkeys(name.rpartition(": ")[2] for name in own))
    lines = [
        "## What each step costs",
        "",
        "One process, no-op tasks, 200 bytes of arguments; each figure for one run.",
        "",
    ]
    heads = [f"{what} ({next(unit for name, unit in units.items() if name.endswith(': ' + what))})" for what in whats]
    lines += [f"| step | {' | '.join(heads)} |", f"|---|{'---|' * len(whats)}"]
    lines += [f"| {step} | {' | '.join(_show(own.get(f'{step}: {what}')) for what in whats)} |" for step in steps]
    lines += [
        "",
        "`client` is the worker, with the processes that it starts for runs and their start, or whoever submits;",
        "`database` is all processes of PostgreSQL, `in sessions` those that clients are connected to. WAL is measured",
        "right after a checkpoint, so it has its share of full pages. Index writes are B-tree insertions in the log.",
    ]
    return "\n".join(lines)


def _profiles(model: dict[str, Any]) -> str:
    wanted = model["wanted"]
    lines = ["## What a run costs from beginning to end", "", f"And what {wanted:,.0f} of them a second come to.", ""]
    lines += [
        "| profile | client CPU | database CPU | WAL | round trips | index writes"
        " | cores for clients | for the database | WAL/s |"
    ]
    lines += ["|---" * 9 + "|"]
    for name, spent in model["profiles"].items():
        lines.append(
            f"| {name} | {spent['client']:.0f} µs | {spent['database']:.0f} µs | {spent['WAL']:,.0f} B"
            f" | {_show(spent.get('round trips'))} | {_show(spent.get('index writes'))}"
            f" | {wanted * spent['client'] / 1e6:.1f} | {wanted * spent['database'] / 1e6:.1f}"
            f" | {wanted * spent['WAL'] / 1e6:,.0f} MB |"
        )
    return "\n".join(lines)


def _weights(cost: dict[str, Any]) -> str:
    weights = cost["notes"]["bytes"]
    lines = ["## What rows weigh", "", "With their indexes, on PostgreSQL.", "", "| | bytes |", "|---|---|"]
    lines += [f"| {name} | {weight:,.0f} |" for name, weight in weights.items()]
    history = weights["a run in history"]
    lines += [
        "",
        "A day of history, at so many runs a second:",
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
        "the log. It is fed with the costs above and fitted on one worker process: what a durable commit waits for is",
        "chosen so that one simulated process is as fast as the measured one. More are then predicted without looking:",
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
    lines += ["", f"The largest miss is {worst:.0%}: {told} the 20 % that it is asked for."]
    costs = model["costs"]
    lines += [
        "",
        f"Fitted: {costs['worker']:.1f} µs of a worker's CPU, {costs['claim']:.1f} µs to claim and"
        f" {costs['complete']:.1f} µs to complete in sessions, {costs['background']:.1f} µs in the background,"
        f" {costs['flush'] / 1000:.1f} ms for a commit. Workers that share a lane pass by what the others have taken:"
        f" {costs['skip']:.1f} µs for a run that is being claimed, {costs['pass_by']:.1f} µs for one that was"
        f" (`bench/passing.py`). For each process that waits for a core everything takes {costs['crowding']:.1%} more"
        " CPU (`bench/crowd.py`).",
    ]
    return "\n".join(lines)


def _takes(model: dict[str, Any]) -> str:
    takes, wanted = model["takes"], model["wanted"]
    lines = [f"## What {wanted:,.0f} runs a second take", ""]
    if takes:
        lines += [
            "With the database on a machine of its own and no core busier than 70 %; jobs submitted in bulk, by",
            "processes that have cores of their own:",
            "",
            "| | |",
            "|---|---|",
            *(f"| {name} | {_count(figure)} |" for name, figure in takes.items()),
        ]
    else:
        lines.append("More than 64 worker processes or 64 database cores: nothing that the model was asked about.")
    trip = model["assumed"]["round trip to another machine, µs"] / 1000
    lines += [
        "",
        f"A round trip to that machine is taken to last {trip:g} ms, as in one data centre: assumed, not measured. For",
        f"what shares one machine, as here, the model has {model['costs']['trip'] / 1000:g} ms.",
    ]
    lines += ["", "As worker processes are added, on machines of their own, to a database with 16 cores:", ""]
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
            told = f"twice as many bring {grown:.2f} times as much" if grown >= 1 else "more bring less"
            full = after["database cores busy"] > 14
            why = (
                "the database's cores are busy, a growing part of it with claims that pass by what others have taken"
                " from the same lane: queues with workers of their own (`--queues`) are lanes of their own"
                if full
                else "sessions that claim from one lane pass by what others are claiming, and commits wait for the log"
            )
            enough = before["worker processes"]
            return f"What breaks first: from {enough} worker processes on {told}, because {why}."
    return "Nothing breaks up to 32 worker processes."


def _lanes(cost: dict[str, Any]) -> str:
    swept = cost["notes"]["lanes by nodes"]
    rounds = cost["notes"].get("rounds of lanes by nodes", 1)  # there was one before it was noted
    nodes = list(next(iter(swept.values())))
    lines = [
        "## Lanes and nodes",
        "",
        "A drain out of as many lanes by as many worker processes, measured, in runs/s:"
        f" {'a single round' if rounds == 1 else f'medians of {rounds} rounds'}.",
        "",
    ]
    lines += [f"| lanes | {' | '.join(f'{each} worker processes' for each in nodes)} |", f"|---|{'---|' * len(nodes)}"]
    lines += [f"| {lanes} | {' | '.join(f'{row[each]:,.0f}' for each in nodes)} |" for lanes, row in swept.items()]
    lines += [
        "",
        "Worker processes and the database share the cores of one machine here: it shows what more processes or lanes",
        "cost, not what they bring on machines of their own.",
    ]
    return "\n".join(lines)


def _count(figure: float | None) -> str:
    """Whole things are told as such."""
    return f"{figure:,}" if isinstance(figure, int) else _show(figure)


def _show(figure: float | None) -> str:
    if figure is None:
        return "–"
    return f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:,.1f}" if abs(figure) >= 1 else f"{figure:.3f}"
