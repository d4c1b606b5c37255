"""Percentiles."""

from collections.abc import Sequence

SHARES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))


def share(sorted_figures: Sequence[float], part: float) -> float:
    """The figure below which this part of them lies."""
    return sorted_figures[min(len(sorted_figures) - 1, int(part * len(sorted_figures)))]
