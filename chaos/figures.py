"""Figures of a run, second by second: how much came to its end, how late things began, what was struck."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.checker.facts import Facts, sort
from chaos.history import Record


@dataclass
class Figures:
    struck: dict[str, int]
    throughput: dict[int, int]
    """Attempts that came to a good end, by second of the run."""
    lag: dict[int, float]
    """The 95th percentile of what began in a second."""
    quantiles: dict[str, float]
    """Of lag, over the whole run and of what was due in quiet times."""
    faults: list[tuple[float, float, str]]
    over_after: float | None
    """Seconds from the end of the last fault, or from when it was due, to the end of the last run asked for before."""


def figures(logs: Mapping[str, Sequence[Record]]) -> Figures:
    facts = sort(logs)
    began = min((record["t"] for record in logs["asked"]), default=0.0)
    throughput: Counter[int] = Counter()
    for record in logs["seen"]:
        if record["what"] == "end" and record["how"] == "done":
            throughput[int(record["t"] - began)] += 1
    lags, calm, by_second = [], [], defaultdict(list)
    for tag, starts in facts.starts.items():
        seen: set[str] = set()
        # After the clock was put back, what is asked for counts from when it was asked for.
        asked = min((request.answered_at for request in facts.one_offs.get(tag, ())), default=float("-inf"))
        for start in starts:
            if start.run in seen:
                continue
            seen.add(start.run)
            opened = facts.timeline.reached(start.due, min(asked, start.t))
            lag = max(0.0, start.t - opened)
            lags.append(lag)
            by_second[int(start.t - began)].append(lag)
            if not facts.timeline.disturbed(opened, start.t):
                calm.append(lag)
    quantiles = {f"p{share}": quantile(lags, share / 100) for share in (50, 95, 99)}
    quantiles |= {f"quiet p{share}": quantile(calm, share / 100) for share in (50, 95, 99)}
    return Figures(
        dict(Counter(_kind(record) for record in logs["faults"])),
        dict(throughput),
        {second: quantile(found, 0.95) for second, found in sorted(by_second.items())},
        quantiles,
        [(record["t"] - began, record["until"] - began, _kind(record)) for record in logs["faults"]],
        _over_after(facts, logs),
    )


def quantile(values: Sequence[float], share: float) -> float:
    if not values:
        return 0.0
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 4)


def _kind(record: Record) -> str:
    return str(record.get("of", record["kind"]))


def _over_after(facts: Facts, logs: Mapping[str, Sequence[Record]]) -> float | None:
    if not logs["faults"]:
        return None
    quiet: float = max(record["until"] for record in logs["faults"])
    asked = {tag for tag, requests in facts.one_offs.items() if requests[0].t < quiet}
    took = [
        start.ended - max(quiet, facts.timeline.reached(start.due))
        for tag in asked
        for start in facts.starts.get(tag, ())
        if start.ended is not None and start.how == "done"
    ]
    return round(max([0.0, *took]), 2)
