"""The checker: from the logs of a run to a verdict on each promise. It shares no code with the product."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.checker import completion, followers, limits, one_offs, pauses, quiet, recurring
from chaos.checker.facts import Facts, Violation, sort
from chaos.history import Record

PROMISES = (
    one_offs.LOST,
    one_offs.INVENTED,
    one_offs.EARLY,
    one_offs.LATE,
    one_offs.ONLY_ONCE,
    recurring.MET,
    recurring.BLIND,
    recurring.ONCE,
    followers.AFTER,
    followers.FOLLOWED,
    completion.ONE_END,
    completion.ALONE,
    completion.FREED,
    limits.WITHIN,
    pauses.STILL,
    quiet.OVER,
    quiet.STUCK,
    quiet.WHOLE,
    quiet.ALIVE,
    quiet.SOUND,
    quiet.TWICE,
)


@dataclass
class Verdict:
    violations: list[Violation]
    counts: dict[str, int]

    @property
    def holds(self) -> bool:
        return not self.violations

    def broken(self, promise: str) -> list[str]:
        return [violation.text for violation in self.violations if violation.promise == promise]


def check(logs: Mapping[str, Sequence[Record]]) -> Verdict:
    facts = sort(logs)
    wanted = recurring.targets_of(facts)
    violations = [
        *one_offs.check(facts),
        *recurring.check(facts, wanted),
        *followers.check(facts),
        *completion.check(facts),
        *limits.check(facts),
        *pauses.check(facts),
        *quiet.check(facts),
    ]
    must = sum(target.must for targets in wanted.values() for target in targets)
    return Verdict(violations, _counts(facts, must))


def _counts(facts: Facts, must: int) -> dict[str, int]:
    outcomes = Counter(request.outcome for asked in facts.one_offs.values() for request in asked)
    states = Counter(run["state"] for runs in facts.runs.values() for run in runs)
    return {
        "asked": sum(outcomes.values()),
        "acknowledged": outcomes["ok"],
        "unknown": outcomes["unknown"],
        "recurring jobs": len(facts.recurring),
        "occurrences that must have run": must,
        "children": sum(asked[0].asked.get("parent") is not None for asked in facts.one_offs.values()),
        "runs that followed": sum(len(facts.runs.get(tag, ())) for tag in facts.followers),
        "attempts begun": sum(len(starts) for starts in facts.starts.values()),
        "runs": len({start.run for starts in facts.starts.values() for start in starts}),
        "begun again": quiet.repeats(facts),
        "faults": len(facts.faults),
        **{state.lower(): count for state, count in sorted(states.items())},
    }
