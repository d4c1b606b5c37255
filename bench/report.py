"""A scenario's figures: medians over rounds, a table for people and a JSON file for programs."""

import json
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
console = Console()


class Report:
    def __init__(self, scenario: str, unit: str, *, better: str = "higher") -> None:
        self.scenario = scenario
        self.unit = unit
        self.better = better
        self._rounds: dict[str, dict[str, list[float]]] = {}

    def add(self, variant: str, who: str, figure: float) -> None:
        """One round's figure of a variant: `ours`, or `limit`."""
        self._rounds.setdefault(variant, {}).setdefault(who, []).append(figure)
        console.print(f"  {self.scenario} · {variant} · {who}: {figure:,.1f} {self.unit}", style="dim")

    def finish(self, targets: dict[str, float]) -> None:
        table = Table(title=f"{self.scenario} ({self.unit}, {self.better} is better, medians)")
        for heading in ("variant", "duetime", "limit", "duetime / limit", "to reach", ""):
            table.add_column(heading, justify="left" if heading == "variant" else "right")
        results = {}
        for variant, rounds in self._rounds.items():
            ours = median(rounds["ours"])
            limit = median(rounds["limit"]) if "limit" in rounds else None
            target = targets.get(variant)
            results[variant] = {
                "ours": ours,
                "limit": limit,
                "ratio_to_limit": None if limit is None else ours / limit,
                "rounds": rounds,
                "target": target,
            }
            reached = target is not None and (ours >= target if self.better == "higher" else ours <= target)
            table.add_row(
                variant,
                f"{ours:,.1f}",
                "–" if limit is None else f"{limit:,.1f}",
                "–" if limit is None else f"{ours / limit:.2f}",
                "–" if target is None else f"{target:,.0f}",
                "" if target is None else "✓" if reached else "✗",
            )
        console.print(table)
        RESULTS.mkdir(exist_ok=True)
        body = {"scenario": self.scenario, "unit": self.unit, "better": self.better, "variants": results}
        (RESULTS / f"{self.scenario}.json").write_text(json.dumps(body, indent=2) + "\n")
