"""Completion: one end for each run, from the worker that claimed it last, and no other worker on it meanwhile."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from chaos.checker.facts import Facts, Start, Violation

ONE_END = "completed once, by the last claim"
ALONE = "never two at work on one run"
FREED = "what a dead worker held begins again in time"


def check(facts: Facts) -> Iterator[Violation]:
    for twice in facts.twice_told:
        yield Violation(ONE_END, f"{twice} is told of twice")
    for tag, runs in facts.runs.items():
        by_run: dict[str, list[Start]] = defaultdict(list)
        for start in facts.starts.get(tag, ()):
            by_run[start.run].append(start)
        for run in runs:
            yield from _one_end(tag, run, by_run[run["run"]])
    for tag, starts in facts.starts.items():
        yield from _alone(facts, tag, starts)
        yield from _freed(facts, tag, starts)


def _one_end(tag: str, run: dict[str, object], starts: list[Start]) -> Iterator[Violation]:
    attempts: list[list[object]] = run["attempts"]  # type: ignore[assignment]
    fences = [attempt[1] for attempt in attempts]
    if any(earlier >= later for earlier, later in pairwise(fences)):  # type: ignore[operator]
        yield Violation(ONE_END, f"{tag} ({run['run']}): an attempt was accepted out of its turn: fences {fences}")
    finals = [attempt for attempt in attempts if attempt[0] == "SUCCEEDED"]
    if len(finals) > 1:
        yield Violation(ONE_END, f"{tag} ({run['run']}) was completed {len(finals)} times")
    if run["state"] != "SUCCEEDED" or not starts:
        return
    by = next((start for start in starts if start.nonce == run["by"]), None)
    if by is None:
        yield Violation(ONE_END, f"{tag} ({run['run']}) has a result that none of its attempts gave")
        return
    if by.how != "done":
        yield Violation(ONE_END, f"{tag} ({run['run']}) was completed by an attempt that did not end well")
    # A claim is numbered by what was spent and lost before it: the product's last one must be this one.
    if (by.attempt, by.lost) != (run["attempt"], run["lost"]):
        yield Violation(ONE_END, f"{tag} ({run['run']}) was completed by an attempt that had lost its claim to it")


def _alone(facts: Facts, tag: str, starts: list[Start]) -> Iterator[Violation]:
    """A worker that is cut off or frozen cannot know; while none is, no two may be at work, whatever the clock does."""
    by_run: dict[str, list[Start]] = defaultdict(list)
    for start in starts:
        by_run[start.run].append(start)
    for run, own in by_run.items():
        for earlier, later in pairwise(own):
            if earlier.ended is not None and earlier.ended <= later.t:
                continue
            if not facts.timeline.cut_off(earlier.node, earlier.t, later.t):
                yield Violation(ALONE, f"{tag} ({run}) began at {later.t:.1f} while an attempt was at work on it")


def _freed(facts: Facts, tag: str, starts: list[Start]) -> Iterator[Violation]:
    if any(request.asked.get("alone") is not None for request in facts.one_offs.get(tag, ())):
        return  # it may have had to wait for others of its key
    for earlier, later in pairwise(starts):
        if earlier.run != later.run or earlier.ended is not None:
            continue
        node = earlier.node.partition(".")[0]
        died = [
            fault["t"]
            for fault in facts.faults
            if fault["kind"] == "crash" and fault.get("only") == node and earlier.t <= fault["t"] <= later.t
        ]
        if died and later.t > (latest := facts.timeline.deadline_to_free(died[0])):
            yield Violation(FREED, f"{tag} ({earlier.run}) began again {later.t - latest:.1f} s late, t={later.t:.1f}")
