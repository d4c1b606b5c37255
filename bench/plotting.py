"""Plots of the results, drawn in an environment of their own: `python bench/plotting.py results-folder`.

Nothing but matplotlib and the standard library: duetime is not there.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

OURS, LIMIT, PEER = "#1f6feb", "#8b949e", "#d9a441"
COMPARED = {
    "drain": [("postgres", "async"), ("sqlite", "async")],
    "steady": [("postgres", "highest rate")],
    "submit": [("postgres", "bulk"), ("postgres", "single")],
    "latency": [("postgres", "across processes p50")],
    "fire": [("postgres", "recurring"), ("sqlite", "recurring")],
}


def main() -> None:
    folder = Path(sys.argv[1])
    for file in sorted(folder.glob("*.json")):
        body = json.loads(file.read_text())
        if file.stem in COMPARED:
            _bars(body, COMPARED[file.stem], file.with_suffix(".png"))
        elif file.stem == "bloat":
            rates = body["notes"]["runs/s in each minute"]
            _line(rates, "minutes' worth of churn", "runs/s", "a transaction held open", file.with_suffix(".png"))
        elif file.stem == "nodes":
            _nodes(body, folder, file.with_suffix(".png"))
        elif file.stem in ("stored", "list", "precision", "herd", "autoscale", "memory", "dashboard"):
            _own(body, file.with_suffix(".png"))


def _bars(body: dict[str, Any], places: list[tuple[str, str]], file: Path) -> None:
    places = [place for place in places if place[1] in body["ours"].get(place[0], {})]
    figure, axes = pyplot.subplots(1, len(places), figsize=(6.5 * len(places), 4.5), squeeze=False)
    for axis, (store, variant) in zip(axes[0], places, strict=True):
        bars = [("duetime", body["ours"][store][variant], OURS)]
        limit = body["limit"].get(store, {}).get(variant)
        if limit is not None:
            bars.append(("limit (plain SQL)", limit, LIMIT))
        peers = {name: each for name, each in body["peers"].get(store, {}).get(variant, {}).items() if each}
        bars += [(name, each, PEER) for name, each in sorted(peers.items(), key=lambda item: -item[1])]
        names, figures, colours = zip(*bars[::-1], strict=True)
        drawn = axis.barh(names, figures, color=colours)
        axis.bar_label(drawn, labels=[f"{each:,.0f}" if each >= 100 else f"{each:,.1f}" for each in figures], padding=3)
        axis.set_title(f"{body['scenario']}: {store}, {variant}")
        axis.set_xlabel(f"{body['unit'][store][variant]} ({body['better'][store][variant]} is better)")
        axis.margins(x=0.15)
    _save(figure, file)


def _own(body: dict[str, Any], file: Path) -> None:
    bars = [
        (f"{variant}" if len(body["ours"]) == 1 else f"{store} {variant}", figure, body["unit"][store][variant])
        for store, variants in body["ours"].items()
        for variant, figure in variants.items()
        if figure and "early" not in variant and "over" not in variant and "memory" not in variant
    ]
    units = list(dict.fromkeys(unit for _, _, unit in bars))
    figure, axes = pyplot.subplots(1, len(units), figsize=(8 * len(units), 1 + 0.3 * len(bars)), squeeze=False)
    for axis, unit in zip(axes[0], units, strict=True):
        names, figures = zip(*[(name, each) for name, each, of in bars if of == unit][::-1], strict=True)
        drawn = axis.barh(names, figures, color=OURS)
        axis.bar_label(drawn, labels=[f"{each:,.1f}" for each in figures], padding=3)
        axis.set_xlabel(unit)
        axis.set_title(body["scenario"])
        axis.margins(x=0.15)
    _save(figure, file)


def _nodes(body: dict[str, Any], folder: Path, file: Path) -> None:
    figure, axis = pyplot.subplots(figsize=(6.5, 4.5))
    counts = [1, 2, 4]
    own = body["ours"]["postgres"]
    axis.plot(counts, [own[f"{n} process{'es' if n > 1 else ''}"] for n in counts], "o-", color=OURS, label="measured")
    model = folder / "model.json"
    if model.exists():
        blind = json.loads(model.read_text())["blind"]
        axis.plot(
            [each["processes"] for each in blind],
            [each["predicted"] for each in blind],
            "x--",
            color=PEER,
            label="predicted from one process",
        )
    axis.set_xlabel("worker processes on two cores, the database beside them")
    axis.set_ylabel("runs/s")
    axis.set_ylim(bottom=0)
    axis.legend()
    _save(figure, file)


def _line(figures: list[float], x: str, y: str, title: str, file: Path) -> None:
    figure, axis = pyplot.subplots(figsize=(8, 4))
    axis.plot(range(1, len(figures) + 1), figures, color=OURS)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.set_ylim(bottom=0)
    axis.set_title(title)
    _save(figure, file)


def _save(figure: Any, file: Path) -> None:
    figure.tight_layout()
    figure.savefig(file, dpi=80)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
