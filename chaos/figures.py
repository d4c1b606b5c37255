"""Figures of a run, second by second: how much came to its end, how late things began, what was struck."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chaos.checker.facts import Facts, Start, sort
from chaos.history import Record


@dataclass
class Figures:
    struck: dict[str, int]
    throughput: dict[int, int]
    """Attempts that came to a good end, by second of the run."""
    lag: dict[int, float]
    """The 95th percentile of what began in a second."""
    quantiles: dict[str, float]
    """Of lag, over the whole run, without the time in which there was no server or no worker, and of what was due in
    quiet times."""
    in_quiet: int
    """How many runs were due in quiet times."""
    faults: list[tuple[float, float, str]]
    over_after: float | None
    """Seconds from the last fault until the last run that could begin before it had been tried to its end."""


def figures(logs: Mapping[str, Sequence[Record]]) -> Figures:
    facts = sort(logs)
    began = min((record["t"] for record in logs["asked"]), default=0.0)
    throughput: Counter[int] = Counter()
    for record in logs["seen"]:
        if record["what"] == "end" and record["how"] == "done":
            throughput[int(record["t"] - began)] += 1
    lags, attended, calm, by_second = [], [], [], defaultdict(list)
    for tag, starts in facts.starts.items():
        if _waits_for_others(facts, tag):
            continue
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
            attended.append(facts.attended(start.t - lag, start.t))
            by_second[int(start.t - began)].append(lag)
            if not facts.timeline.disturbed(opened, start.t):
                calm.append(lag)
    quantiles = {f"p{share}": quantile(lags, share / 100) for share in (50, 95, 99)}
    quantiles["attended p95"] = quantile(attended, 0.95)
    quantiles |= {f"quiet p{share}": quantile(calm, share / 100) for share in (50, 95, 99)}
    return Figures(
        struck(logs["faults"]),
        dict(throughput),
        {second: quantile(found, 0.95) for second, found in sorted(by_second.items())},
        quantiles,
        len(calm),
        [(record["t"] - began, record["until"] - began, kind_of(record)) for record in logs["faults"]],
        _over_after(facts, logs),
    )


def _waits_for_others(facts: Facts, tag: str) -> bool:
    """Whether it may have to wait for longer than until it is due."""
    first = facts.one_offs[tag][0].asked if tag in facts.one_offs else {}
    return first.get("parent") is not None or first.get("alone") is not None


def struck(faults: Iterable[Record]) -> dict[str, int]:
    """How often each kind of fault struck: what hit several processes at once, or step by step, is one strike."""
    strikes = {(kind_of(fault), fault.get("strike", place)) for place, fault in enumerate(faults)}
    return dict(Counter(kind for kind, _ in strikes))


def quantile(values: Sequence[float], share: float) -> float:
    if not values:
        return 0.0
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 4)


def kind_of(record: Record) -> str:
    """What was struck, whatever the checker takes it for."""
    return str(record.get("of", record["kind"]))


def _over_after(facts: Facts, logs: Mapping[str, Sequence[Record]]) -> float | None:
    if not logs["faults"]:
        return None
    # A process that was killed takes a moment to be back; it is not waited for here.
    quiet: float = max(float(record.get("over") or record["until"]) for record in logs["faults"])
    took = []
    for tag, starts in facts.starts.items():
        asked = facts.one_offs[tag][0].asked if tag in facts.one_offs else {}
        parent = facts.starts.get(asked.get("parent") or "", ())
        free = max((start.ended or 0.0 for start in parent), default=0.0)
        by_run: dict[str, list[Start]] = defaultdict(list)
        for start in starts:
            by_run[start.run].append(start)
        for own in by_run.values():
            opened = max(facts.timeline.reached(own[0].due), asked.get("t", 0.0), free)
            ended = _tried_by(own)
            if opened < quiet and ended is not None:
                took.append(ended - quiet)
    return round(max([0.0, *took]), 2)


def _tried_by(starts: Sequence[Start]) -> float | None:
    """When a run had been tried to its end, after the last time that it was lost, if it was. What it waits for after a
    failure is as asked."""
    lost = max((place for place, start in enumerate(starts) if start.how is None), default=-1)
    first = next((start for start in starts[lost + 1 :] if start.how in ("done", "failed")), None)
    return None if first is None else first.ended
