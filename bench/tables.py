"""A scenario's figures as a table for people."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table


def shown(figure: float | None) -> str:
    """A figure with three digits at least."""
    if figure is None:
        return "–"
    if abs(figure) >= 100 or figure == int(figure):
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if abs(figure) >= 10 else f"{figure:.3g}"


def table(body: Mapping[str, Any]) -> Table:
    found = Table(title=f"{body['scenario']} (medians)")
    of_graphile = body["ratio_to_graphile"]
    ratios = ("× peer", "× graphile") if of_graphile else ("× peer",)
    for heading in ("store", "variant", "duetime", "limit", "× limit", "best peer", *ratios, "to reach", ""):
        found.add_column(heading, justify="left" if heading in ("store", "variant", "best peer") else "right")
    for store, variants in body["ours"].items():
        for variant, figure in variants.items():
            limit = body["limit"].get(store, {}).get(variant)
            best = body["best_peer"].get(store, {}).get(variant)
            peer = None if best is None else body["peers"][store][variant][best]
            found.add_row(
                store,
                variant,
                f"{shown(figure)} {body['unit'][store][variant]}",
                shown(limit),
                _show_ratio(body["ratio_to_limit"][store][variant]),
                "–" if best is None else f"{best} {shown(peer)}",
                _show_ratio(body["ratio_to_best_peer"][store][variant]),
                *([_show_ratio(of_graphile.get(store, {}).get(variant))] if of_graphile else []),
                body["target"].get(store, {}).get(variant, "–"),
                _verdict(body, store, variant),
            )
    return found


def _verdict(body: Mapping[str, Any], store: str, variant: str) -> str:
    if variant not in body["target"].get(store, {}):
        return ""
    missing = body["peers_missing"].get(store, {}).get(variant, [])
    told = {True: "✓", False: "✗", None: "open"}[body["reached"][store][variant]]
    return f"{told}, without {', '.join(missing)}" if missing else told


def _show_ratio(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"
