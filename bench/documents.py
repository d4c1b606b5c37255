"""`python -m bench.documents`: the model, the plots, docs/performance.md, docs/scaling.md and the figures in README.md,
from the results."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.knobs import RESULTS, from_environ
from bench.model.predicting import predict
from bench.peers.described import described
from bench.peers.environments import CannotRun, python_of
from bench.provenance import measured
from bench.readme import README, with_figures
from bench.scaling_doc import BUSY, scaling
from bench.tables import shown

DOCS = Path(__file__).parents[1] / "docs"
ORDER = (
    *("drain", "steady", "submit", "latency", "precision", "fire", "herd", "autoscale", "stored", "nodes", "list"),
    *(
        "bloat",
        "dashboard",
        "memory",
        "remote",
        "next_fire",
        "neighbour",
        "breaker",
        "targets",
        "stream",
        "spike",
        "archive",
    ),
)
EXPLAINED = {
    **dict.fromkeys(("drain", "steady", "nodes", "fire", "herd", "stored"), "0018-where-the-time-goes.md"),
    **dict.fromkeys(("stream", "spike"), "0028-workers-on-streams.md"),
    **dict.fromkeys(("stream, App.submit", "stream, http single"), "0026-submitting-to-streams.md"),
    "archive": "0029-archived-history.md",
    "autoscale": "0035-demand.md",
    "dashboard": "0037-search.md",
}
"""The decision records that say what a figure of a scenario, or of one variant of it, is made of."""

HEAD = """# Performance

duetime's throughput and latency, compared with the limit of the machine and with other job queues. **Written from
`bench/results/*.json` by `make bench-docs`; do not edit.**

## How to read it

- Each scenario measures duetime, and where comparable the limit and the peers, in turns, in the same run on the same
  machine, and reports medians. Where there is no comparison, it says why. Machines differ, so compare the ratios. A
  ratio is above 1 where duetime is better.
- **The limit** is a pinned loop of plain SQL (`bench/limits/`) without any code around it. Its tables have the columns,
  indexes and guarantees that matter (leases with fences and claims rows, history, durable commits). It uses 200 bytes
  of arguments and one connection. Drains use batches of 500, fires and bulk submits batches of 1,000. The limit of
  `steady` submits on a second connection. For HTTP, the limit is the raw framework that reads the same body and
  responds.
- **The peers** run in separate environments, with pinned versions, in their best documented settings (`bench/peers/`;
  the last section lists them). Peers on Redis keep jobs only in its memory. duetime, the limit and peers on PostgreSQL
  commit durably. `apscheduler-memory` keeps its jobs in the process that runs them and loses them with it; a separate
  column compares duetime with the best peer that keeps jobs. graphile-worker runs on Node, is not a Python peer, and
  has its own column. All databases are vacuumed, analyzed and on disk before a drain begins.
- **A target** for a ratio to the best peer counts as reached only when every known Python peer was measured. Otherwise
  it is open, and the missing peers are named beside it. A stretch is a goal beyond the target.
- PostgreSQL runs on the same machine as everything else, with 2 GB of shared buffers and durable commits.

## How to repeat it

```
make bench                                    everything (two hours and more; first fills ten million jobs: 15 GB)
make bench SCENARIO=drain                     one scenario; PEERS=0 leaves the peers out, PEERS=huey,arq picks some
make bench SCENARIO=drain ROUNDS=1 RUNS=5000  a short trial, which is written to bench/.tries
make bench SCENARIO=sweep PEERS=huey          a peer in several settings, to find its best
make bench SCENARIO=stored STORED=100000      with fewer stored jobs
make bench BENCH_RESULTS=elsewhere            leaves the results and pages of the repository alone, like a trial
make bench-docs                               plots and these pages again, from the results
python -m bench.profiling                     where the time of a drain goes (needs py-spy)
```

A run with fewer than three rounds, without all peers, or with other sizes than the defaults is a trial. Its results and
pages go to `bench/.tries` unless `BENCH_RESULTS` names a folder, and the published ones stay unchanged.

Peers' environments are under `bench/.peers`, and filled databases under `bench/.data`. You can delete both. Other
databases are in the folder for temporary files, or under `bench/.data` if that folder is in memory. Peers on Redis need
a `redis-server`: the one in `REDIS_SERVER`, the system's, or Debian's package, which is unpacked there. A peer that
cannot run is named with the reason.
"""


def main() -> None:
    results = from_environ().results
    # What was measured into another folder is not what the docs tell.
    docs = DOCS if results == RESULTS else results
    if (results / "cost.json").exists() and (results / "nodes.json").exists():
        predict(results)
        (docs / "scaling.md").write_text(scaling(results))
    _plot(results)
    (docs / "performance.md").write_text(performance(results))
    if docs == DOCS:
        README.write_text(with_figures(README.read_text(), results))


def performance(results: Path) -> str:
    found = [
        json.loads((results / f"{name}.json").read_text()) for name in ORDER if (results / f"{name}.json").exists()
    ]
    parts = [HEAD, _summary(found), *(_section(body, results) for body in found), _settings(found)]
    return "\n".join(part.strip() + "\n" for part in parts if part)


def was_busy(body: dict[str, Any]) -> bool:
    """Whether others kept the machine busy: then figures are too low, and targets cannot be judged."""
    return bool(body["machine"]["busy_before"] > BUSY)


def _plot(results: Path) -> None:
    try:
        python = python_of("plots")
    except CannotRun as error:
        print(f"no plots: {error}", file=sys.stderr)
        return
    subprocess.run([str(python), str(Path(__file__).with_name("plotting.py")), str(results)], check=True)


def _summary(found: list[dict[str, Any]]) -> str:
    lines = [
        "## Targets",
        "",
        "| scenario | store | variant | figure | target | | stretch |",
        "|---|---|---|---|---|---|---|",
    ]
    missed: list[str] = []
    for body in found:
        for store, variant, target in _each(body["target"]):
            reached = body["reached"].get(store, {}).get(variant)
            told = {True: "✓", False: "**not reached**", None: "open"}[reached]
            if missing := body.get("peers_missing", {}).get(store, {}).get(variant):
                told += f", without {', '.join(missing)}"
            if was_busy(body):
                told += " (busy machine)"
            figure, stretch = _figure(body, store, variant), body.get("stretch", {}).get(store, {}).get(variant)
            lines.append(
                f"| {body['scenario']} | {store} | {variant} | {figure} | {target} | {told} | {_stretched(stretch)} |"
            )
            if reached is False or (stretch is not None and not stretch["reached"]):
                wanted = target if reached is False else f"the stretch of {shown(stretch['at'])}"
                missed.append(f"- {body['scenario']}, {variant}: {figure} misses {wanted}. {_explained(body, variant)}")
    return "\n".join([*lines, "", *(missed or ["All targets are reached."])])


def _stretched(stretch: dict[str, Any] | None) -> str:
    return "" if stretch is None else f"{shown(stretch['at'])}: {'✓' if stretch['reached'] else 'not reached'}"


def _explained(body: dict[str, Any], variant: str) -> str:
    """The record that explains the difference."""
    scenario = body["scenario"]
    record = EXPLAINED.get(f"{scenario}, {variant}", EXPLAINED.get(scenario))
    if record is None:
        return "No decision record explains it yet."
    title = (DOCS / "decisions" / record).read_text().split("\n", 1)[0].partition(". ")[2]
    return f"[{title}](decisions/{record}) explains the difference."


def _section(body: dict[str, Any], results: Path) -> str:
    name = body["scenario"]
    lines = [f"## {name}", "", _about(name), ""]
    if was_busy(body):
        lines += ["**The machine was busy with other work: only the ratios are meaningful.**", ""]
    lines += _compared(body) + _peers(body)
    if (results / f"{name}.png").exists():
        lines += ["", f"![{name}]({'../bench/results/' if results == RESULTS else ''}{name}.png)"]
    notes = [f"{key}: {_note(value)}" for key, value in body["notes"].items() if not isinstance(value, dict)]
    lines += ["", "; ".join([measured(body), *notes]) + "."]
    return "\n".join(lines)


def _compared(body: dict[str, Any]) -> list[str]:
    """duetime beside the limit and the best of the peers; and beside graphile-worker, where that was measured."""
    ratios = {
        "× peer": body["ratio_to_best_peer"],
        "× best that keeps jobs": body.get("ratio_to_best_keeping_peer", {}),
        "× graphile-worker": body.get("ratio_to_graphile", {}),
    }
    if not any(ratios["× graphile-worker"].values()):
        del ratios["× graphile-worker"]
    heads = ["store", "variant", "duetime", "limit", "× limit", "best Python peer", *ratios]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for store, variant, _ in _each(body["ours"]):
        best = body["best_peer"].get(store, {}).get(variant)
        cells = [
            *(store, variant, _figure(body, store, variant)),
            shown(body["limit"].get(store, {}).get(variant)),
            shown(body["ratio_to_limit"][store][variant]),
            "–" if best is None else f"{best} {shown(body['peers'][store][variant][best])}",
            *(shown(ratio.get(store, {}).get(variant)) for ratio in ratios.values()),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _peers(body: dict[str, Any]) -> list[str]:
    """All peers, where they were measured: the same figures for each store."""
    places = {variant: named for _, variant, named in _each(body["peers"]) if named}
    left_out = body["unavailable_peers"] | body.get("failed_peers", {})
    if not places and not left_out:
        return []
    names = sorted({name for named in places.values() for name in named})
    lines = ["", f"| peer | {' | '.join(places)} |", f"|---|{'---|' * len(places)}"]
    lines += [f"| {name} | {' | '.join(shown(named.get(name)) for named in places.values())} |" for name in names]
    for name, why in left_out.items():
        lines.append(f"| {name} | {'not measured: ' + why.replace('|', '/')} |" + " |" * (len(places) - 1))
    lines += [f"| {name} | not asked for |" + " |" * (len(places) - 1) for name in body.get("unasked_peers", [])]
    return lines


def _settings(found: list[dict[str, Any]]) -> str:
    """As each result says that its peers were; where one says nothing, as they are now."""
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for body in found:
        noted = body.get("peer_settings", {})
        for name in sorted({name for _, _, named in _each(body["peers"]) for name in named}):
            facts = noted.get(name) or described(name)
            since = "" if name in noted else " (not recorded then: the current ones)"
            rows.setdefault((name, facts["versions"], facts["settings"], since), []).append(body["scenario"])
    if not rows:
        return ""
    lines = ["## Peer settings", "", "| peer | versions | settings | in |", "|---|---|---|---|"]
    for (*facts, since), scenarios in sorted(rows.items()):
        lines.append(f"| {' | '.join(fact.replace('|', '/') for fact in facts)} | {', '.join(scenarios)}{since} |")
    return "\n".join(lines)


def _about(name: str) -> str:
    module = {"list": "lists"}.get(name, name)
    text = (Path(__file__).parent / f"{module}.py").read_text().split('"""')[1]
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _each(nested: dict[str, dict[str, Any]]) -> list[tuple[str, str, Any]]:
    return [(store, variant, value) for store, variants in nested.items() for variant, value in variants.items()]


def _figure(body: dict[str, Any], store: str, variant: str) -> str:
    return f"{shown(body['ours'][store][variant])} {body['unit'][store][variant]}"


def _note(value: Any) -> str:
    if isinstance(value, list):
        return (
            ", ".join(_note(each) for each in value)
            if len(value) < 10
            else f"from {_note(value[0])} to {_note(value[-1])}"
        )
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    main()
