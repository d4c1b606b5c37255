"""Limits: of the jobs that share a key, one at a time. When it is due, one that has to wait may begin late.

A worker that is cut off or frozen cannot know that its claim is lost, so around a fault two may be at work. But never
two whose results were both taken: each of them held the key from its beginning to its end.
"""

from collections import defaultdict
from collections.abc import Iterator

from chaos.checker.facts import Facts, Start, Violation

WITHIN = "no more at once than a limit allows"


def check(facts: Facts) -> Iterator[Violation]:
    by_key: dict[str, list[Start]] = defaultdict(list)
    for tag, requests in facts.one_offs.items():
        key = requests[0].asked.get("alone")
        if key is not None:
            by_key[key] += facts.starts.get(tag, ())
    for key, starts in by_key.items():
        yield from _one_at_a_time(facts, key, sorted(starts))


def _one_at_a_time(facts: Facts, key: str, starts: list[Start]) -> Iterator[Violation]:
    at_work: list[Start] = []
    for later in starts:
        at_work = [start for start in at_work if start.ended is None or start.ended > later.t]
        for earlier in at_work:
            if earlier.run == later.run:
                continue  # two at work on one run are another promise
            calm = not facts.timeline.disturbed(earlier.t, later.t)
            if calm or (_counts(facts, earlier) and _counts(facts, later)):
                text = f"{later.tag} began at {later.t:.1f} while {earlier.tag} was at work under the same key, {key}"
                yield Violation(WITHIN, text)
        at_work.append(later)


def _counts(facts: Facts, start: Start) -> bool:
    """Whether the product has taken its result, and has not forgotten its claim since."""
    taken = any(run["by"] == start.nonce for run in facts.runs.get(start.tag, ()))
    return taken and not facts.timeline.forgotten(start.t)
