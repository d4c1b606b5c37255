"""A scenario's figures: medians over rounds, beside the limit and the peers; a table for people, JSON for programs.

A figure belongs to a store and a variant. The file has `ours`, `limit`, `ratio_to_limit`, `peers` and
`ratio_to_best_peer`, each by store and then by variant. The best peer is the fastest one written in Python, of any
kind. `ratio_to_best_keeping_peer` leaves out those whose jobs end with their process; no target is judged by it. A
ratio above 1 means that duetime is better, whether more or less is better. Where the limit goes by another clock than
the peers, `ours_beside_limit` has the figure by that clock, and the ratio to the limit is taken of it.

The best of some peers is not the best of all: a target that asks for it counts as reached only when every Python peer
that is known was measured. One that is missing for whatever reason (it was not asked for, it could not be installed, it
failed) leaves it open, and is named beside the verdict (`peers_missing`).
"""

import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from rich.console import Console

from bench.goals import Target
from bench.peers.described import described
from bench.peers.names import FORGETFUL_PEERS, NODE_PEERS, PYTHON_PEERS
from bench.tables import shown, table

console = Console(width=None if sys.stdout.isatty() else 170)

Key = tuple[str, str]


class Report:
    def __init__(
        self,
        scenario: str,
        unit: str,
        results: Path,
        *,
        better: str = "higher",
        about: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.scenario = scenario
        self.unit = unit
        self.better = better
        self._results = results
        self._about = about
        self._machine = machine()  # as it was before this began
        self._ours: dict[Key, list[float]] = {}
        self._limit: dict[Key, list[float]] = {}
        self._beside_limit: dict[Key, list[float]] = {}
        self._peers: dict[Key, dict[str, list[float]]] = {}
        self._units: dict[Key, str] = {}
        self._better: dict[Key, str] = {}
        self.notes: dict[str, Any] = {}
        """What else a reader should know: sizes, settings, costs."""

    def ours(
        self,
        store: str,
        variant: str,
        figure: float,
        *,
        unit: str | None = None,
        better: str | None = None,
        beside_limit: float | None = None,
    ) -> None:
        """A figure of a round; `beside_limit` is the same by the limit's clock, where that is another."""
        key = (store, variant)
        if beside_limit is not None:
            self._beside_limit.setdefault(key, []).append(beside_limit)
        self._ours.setdefault(key, []).append(figure)
        self._units[key] = unit or self.unit
        self._better[key] = better or self.better
        self._say(store, variant, "duetime", figure)

    def limit(self, store: str, variant: str, figure: float) -> None:
        self._limit.setdefault((store, variant), []).append(figure)
        self._say(store, variant, "limit", figure)

    def peer(self, store: str, variant: str, name: str, figure: float) -> None:
        self._peers.setdefault((store, variant), {}).setdefault(name, []).append(figure)
        self._say(store, variant, name, figure)

    def _say(self, store: str, variant: str, who: str, figure: float) -> None:
        unit = self._units.get((store, variant), self.unit)
        console.print(f"  {self.scenario} · {store} · {variant} · {who}: {shown(figure)} {unit}", style="dim")

    def median_of(self, store: str, variant: str) -> float:
        return median(self._ours[store, variant])

    def finish(
        self,
        targets: Mapping[Key, Target],
        *,
        unavailable: Mapping[str, str] | None = None,
        failed: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Print the table and write the file. Where peers are measured at all, `unavailable` says which of them cannot
        run here, and `failed` which of them could not be measured: nothing is said then of being faster than all."""
        for named in self._peers.values():
            for name in failed.keys() & named.keys():
                del named[name]  # one round is no figure
        body = self._body(targets, unavailable, failed)
        console.print(table(body))
        for name, why in (body["unavailable_peers"] | body["failed_peers"]).items():
            console.print(f"  {name} was not measured: {why}", style="yellow", markup=False)
        if body["unasked_peers"]:
            console.print(f"  not asked for: {', '.join(body['unasked_peers'])}", style="yellow", markup=False)
        self._results.mkdir(parents=True, exist_ok=True)
        file = self._results / f"{self.scenario}.json"
        # A figure that is not finite ("never") is no JSON: it is written as null.
        file.write_text(json.dumps(_finite(body), indent=2, ensure_ascii=False) + "\n")
        return body

    def _body(
        self, targets: Mapping[Key, Target], unavailable: Mapping[str, str] | None, failed: Mapping[str, str]
    ) -> dict[str, Any]:
        ours = {key: median(figures) for key, figures in self._ours.items()}
        limit = {key: median(figures) for key, figures in self._limit.items()}
        peers = {key: {name: median(each) for name, each in named.items()} for key, named in self._peers.items()}
        beside = {key: median(figures) for key, figures in self._beside_limit.items()}
        of_limit = {
            key: _ratio(beside.get(key, figure), limit.get(key), self._better[key]) for key, figure in ours.items()
        }
        best = {key: _best(named, self._better.get(key, self.better)) for key, named in peers.items()}
        best_figures = {key: peers[key][name] for key, name in best.items() if name is not None}
        of_best = {key: _ratio(figure, best_figures.get(key), self._better[key]) for key, figure in ours.items()}
        told = (unavailable or {}).keys()
        missing = {
            key: sorted(targets[key].among - peers.get(key, {}).keys())
            for key in ours
            if key in targets and targets[key].asks_for_peers
        }
        reached = {
            key: targets[key].reached(figure, of_limit[key], of_best[key], all_peers=not missing.get(key))
            for key, figure in ours.items()
            if key in targets
        }
        measured = {name for named in peers.values() for name in named}
        unasked = [] if unavailable is None else sorted((PYTHON_PEERS | NODE_PEERS) - measured - told - failed.keys())
        rounds = {
            key: {
                "ours": figures,
                "ours_beside_limit": self._beside_limit.get(key, []),
                "limit": self._limit.get(key, []),
                "peers": self._peers.get(key, {}),
            }
            for key, figures in self._ours.items()
        }
        return {
            "scenario": self.scenario,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": self._machine,
            **self._about,
            "unit": _by_store(self._units),
            "better": _by_store(self._better),
            "ours": _by_store(ours),
            "ours_beside_limit": _by_store(beside),
            "limit": _by_store({key: limit.get(key) for key in ours}),
            "ratio_to_limit": _by_store(of_limit),
            "peers": _by_store({key: peers.get(key, {}) for key in ours}),
            "best_peer": _by_store({key: best.get(key) for key in ours}),
            "ratio_to_best_peer": _by_store(of_best),
            "ratio_to_best_keeping_peer": _by_store(
                {
                    key: _ratio(figure, peers[key][name], self._better[key])
                    for key, figure in ours.items()
                    if (name := _best(peers.get(key, {}), self._better[key], without=FORGETFUL_PEERS)) is not None
                }
            ),
            "ratio_to_graphile": _by_store(
                {
                    key: _ratio(figure, peers.get(key, {}).get("graphile"), self._better[key])
                    for key, figure in ours.items()
                    if "graphile" in peers.get(key, {})
                }
            ),
            "peer_settings": {name: described(name) for name in sorted(measured)},
            "unavailable_peers": dict(unavailable or {}),
            "failed_peers": dict(failed),
            "unasked_peers": unasked,
            "peers_missing": _by_store({key: names for key, names in missing.items() if names}),
            "target": _by_store({key: str(target) for key, target in targets.items() if key in ours}),
            "reached": _by_store(reached),
            "stretch": _by_store(
                {
                    key: {"at": stretch, "reached": figure >= stretch}
                    for key, figure in ours.items()
                    if key in targets and (stretch := targets[key].stretch) is not None
                }
            ),
            "rounds": _by_store(rounds),
            "notes": self.notes,
        }


def machine() -> dict[str, Any]:
    """The machine, and how busy others keep it: asked for while nothing of ours runs yet."""
    return {
        "processors": os.cpu_count(),
        "architecture": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "busy_before": round(_busy(1.0), 2),
    }


def _busy(seconds: float) -> float:
    """Which part of all cores is in use."""
    before = _ticks()
    time.sleep(seconds)
    spent = [now - then for now, then in zip(_ticks(), before, strict=True)]
    idle = spent[3] + spent[4]  # waiting for disks is idling, too
    return 1 - idle / max(1, sum(spent))


def _ticks() -> list[int]:
    return [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


def _ratio(ours: float, other: float | None, better: str) -> float | None:
    if other is None or not ours or not other:
        return None
    return ours / other if better == "higher" else other / ours


def _best(named: Mapping[str, float], better: str, *, without: frozenset[str] = frozenset()) -> str | None:
    python = {name: figure for name, figure in named.items() if name not in NODE_PEERS | without}
    if not python:
        return None
    choose: Callable[..., str] = max if better == "higher" else min
    return choose(python, key=lambda name: python[name])


def _by_store(figures: Mapping[Key, Any]) -> dict[str, dict[str, Any]]:
    nested: dict[str, dict[str, Any]] = {}
    for (store, variant), figure in figures.items():
        nested.setdefault(store, {})[variant] = figure
    return nested


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
