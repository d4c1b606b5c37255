"""Recurring jobs: the oracle says which occurrences there are; each has one run, or a word why it has none.

Every acknowledged request about a job is a new version of it, in force from some moment between asking and answer.
What lies in the doubt between two versions may have happened; what lies clearly inside one must have.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from heapq import heappop, heappush
from typing import Any, NamedTuple

from chaos import oracle
from chaos.checker.facts import Asked, Facts, Start, Violation
from chaos.checker.one_offs import EARLY, INVENTED, LATE, LOST, early
from chaos.checker.pauses import STEERING, paused
from chaos.history import Record

MET = "every occurrence runs"
ONCE = "one occurrence, one run"
BLIND = "every occurrence runs (blind to ids)"
_DOUBT = 0.01
_DIGITS = 6
"""Of seconds: a run that was triggered within the same millisecond is not the occurrence."""
_MADE_UP = 5.0
"""Seconds for what has to be made up after a pause."""
_NO_VERSION = frozenset({"trigger", *STEERING})
_LIKE = re.compile(r"like every one from (\S+) to (\S+)")


class Target(NamedTuple):
    deadline: float
    opens: float
    due: float
    must: bool
    misfire: str


def targets_of(facts: Facts) -> dict[str, list[Target]]:
    """The occurrences of every recurring job, by its tag."""
    return {tag: list(_targets(facts, requests)) for tag, requests in facts.recurring.items()}


def check(facts: Facts, wanted: dict[str, list[Target]]) -> Iterator[Violation]:
    for tag, targets in wanted.items():
        requests = facts.recurring[tag]
        starts = facts.starts.get(tag, [])
        for start in starts:
            yield from early(facts, start)
        yield from _by_key(facts, tag, requests, targets, starts)
        if all(target.misfire == "all" for target in targets):
            yield from _blind(tag, targets, starts, _triggered(requests))


def _targets(facts: Facts, requests: list[Asked]) -> Iterator[Target]:
    """The occurrences of each version, from the request for it to the answer to the next."""
    versions = _versions(requests)
    end = facts.setup["end"]
    found: dict[float, Target] = {}
    for place, version in enumerate(versions):
        if version.asked["op"] != "schedule":
            continue
        following = versions[place + 1] if place + 1 < len(versions) else None
        over_from = end if following is None else following.t
        # One that may not have happened leaves this one in force, until one that has.
        settled = next((later for later in versions[place + 1 :] if later.outcome == "ok"), None)
        over_by = end if settled is None else min(settled.answered_at, end)
        certain = version.outcome == "ok"
        # The clock may have been put back meanwhile: what is after the answer by the later of all readings is sure.
        asked, answered = (facts.timeline.span_shown(t) for t in (version.t, min(version.answered_at, end)))
        sure_from = max(asked[1], answered[1]) + _DOUBT
        first = min(asked[0], answered[0])
        last = max(facts.timeline.latest_shown(over_by, over_by - version.t), facts.timeline.database(over_by))
        for due in oracle.fires(version.asked["schedule"], first - _DOUBT, last + _DOUBT):
            opens = facts.timeline.reached(due, version.t)
            deadline = facts.timeline.deadline(opens)
            # What the clock had shown before it was put back may have run under an earlier version.
            new = facts.timeline.reached(due) >= version.t
            must = certain and due > sure_from and deadline < over_from and new
            before = found.get(due)
            if before is None or (must and not before.must):
                found[due] = Target(deadline, opens, due, must, version.asked["misfire"])
    targets = sorted(found.values(), key=lambda target: target.due)
    most = max((version.asked.get("most", 0) for version in versions), default=0)
    for place, target in enumerate(map(partial(_unless_paused, facts, requests), targets)):
        # Catching up is bounded: one may be left out when so many later ones are open at the same time.
        later = targets[place + most] if most and place + most < len(targets) else None
        yield target._replace(must=target.must and (later is None or later.opens > target.deadline))


def _unless_paused(facts: Facts, requests: list[Asked], target: Target) -> Target:
    """What is due while its job or queue is paused has its whole bound once that is over."""
    for start, end in paused(requests):
        if target.opens < end and target.deadline > start:
            return target._replace(deadline=max(target.deadline, facts.timeline.deadline(end) + _MADE_UP))
    return target


def _versions(requests: list[Asked]) -> list[Asked]:
    """What was repeated until it was answered is one version, from the first asking to the first answer."""
    versions: list[Asked] = []
    for request in requests:
        if request.outcome == "refused" or request.asked["op"] in _NO_VERSION:
            continue
        before = versions[-1] if versions else None
        if before is not None and before.outcome == "unknown" and _same(before.asked, request.asked):
            versions[-1] = request._replace(asked={**request.asked, "t": before.t})
        else:
            versions.append(request)
    return versions


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one["op"] == other["op"] and one.get("schedule") == other.get("schedule")


def _by_key(
    facts: Facts, tag: str, requests: list[Asked], targets: list[Target], starts: list[Start]
) -> Iterator[Violation]:
    by_due: dict[float, list[Start]] = defaultdict(list)
    extra = _triggered(requests)
    wanted = {round(target.due, _DIGITS) for target in targets}
    manual: set[str] = set()
    for start in starts:
        due = round(start.due, _DIGITS)
        if due in wanted:
            by_due[due].append(start)
        else:
            manual.add(start.run)
    sure = _surely_triggered(facts, requests)
    if len(manual) < sure:
        yield Violation(LOST, f"{tag} was triggered {sure} times, and ran {len(manual)} times for it")
    if len(manual) > extra:
        yield Violation(INVENTED, f"{tag} ran {len(manual) - extra} times at moments that its schedule does not name")
    told: dict[float, list[Record]] = defaultdict(list)
    for run in facts.runs.get(tag, ()):
        told[round(run["due"], _DIGITS)].append(run)
        for due in _summed_up(run, wanted):
            told[due].append(run)
        if run["state"] == "FAILED":
            yield Violation(LOST, f"{tag} at {run['due']:.3f} FAILED, though it was to succeed: {run['attempts']}")
    for target in targets:
        due = round(target.due, _DIGITS)
        found = by_due.get(due, [])
        runs = {start.run for start in found} | {run["run"] for run in told[due]}
        if len(runs) > 1:
            yield Violation(ONCE, f"{tag} at {due:.3f} has {len(runs)} runs: {sorted(runs)}")
        if not target.must:
            continue
        only = told[due][0] if told[due] else None
        if not found:
            yield from _not_run(facts, tag, target, only)
            continue
        if found[0].t > target.deadline:
            late = found[0].t - target.deadline
            yield Violation(LATE, f"{tag} at {due:.3f} began {late:.1f} s after its latest moment")
        if only is not None and only["state"] == "CANCELLED":
            yield Violation(LOST, f"{tag} at {due:.3f} is CANCELLED, and no client requested that")


def _summed_up(run: Record, wanted: set[float]) -> list[float]:
    """The occurrences that one which was skipped stands for beside itself: of very many, the oldest are told as one."""
    said = _LIKE.search(run.get("why") or "") if run["state"] == "SKIPPED" else None
    if said is None:
        return []
    first, last = (datetime.fromisoformat(moment).timestamp() for moment in said.groups())
    return [due for due in wanted if first < due < last]


def _not_run(facts: Facts, tag: str, target: Target, run: Record | None) -> Iterator[Violation]:
    """An occurrence without a run has to be kept as skipped, and there must have been a reason for it."""
    if run is not None and run["state"] == "SKIPPED":
        if target.misfire == "all":
            yield Violation(MET, f"{tag} at {target.due:.3f} was skipped, though every occurrence was to be caught up")
        elif not facts.timeline.disturbed(target.opens - 1.0, target.deadline):
            yield Violation(MET, f"{tag} at {target.due:.3f} was skipped, and nothing was wrong then")
        return
    state = "no trace of it" if run is None else f"it is {run['state']}"
    yield Violation(MET, f"{tag} at {target.due:.3f} never ran: {state}")


def _triggered(requests: list[Asked]) -> int:
    """How many runs outside of the rhythm may have been made."""
    return sum(1 for request in requests if request.asked["op"] == "trigger" and request.outcome != "refused")


def _surely_triggered(facts: Facts, requests: list[Asked]) -> int:
    """How many runs outside of the rhythm must have been made, and begun before the job was cancelled."""
    over = min((request.t for request in requests if request.asked["op"] == "cancel"), default=facts.setup["end"])
    told = [request for request in requests if request.asked["op"] == "trigger" and request.outcome == "ok"]
    return sum(facts.timeline.deadline(request.answered_at) < over for request in told)


def _blind(tag: str, targets: list[Target], starts: list[Start], extra: int) -> Iterator[Violation]:
    """Sweep the attempts that began, in order, onto the open occurrence with the earliest deadline. What only may have
    happened comes last."""
    waiting = sorted(targets, key=lambda target: target.opens)
    musts: list[Target] = []
    place, mays, surplus = 0, 0, 0
    for start in starts:
        while place < len(waiting) and waiting[place].opens <= start.t + _DOUBT:
            if waiting[place].must:
                heappush(musts, waiting[place])
            else:
                mays += 1
            place += 1
        if not musts:
            surplus += 1
        elif (late := start.t - heappop(musts).deadline) > 0:
            yield Violation(BLIND, f"{tag}: an occurrence was met {late:.1f} s too late")
    unmet = musts + [target for target in waiting[place:] if target.must]
    if unmet:
        yield Violation(BLIND, f"{tag}: {len(unmet)} occurrences were not met, the first at {unmet[0].due:.3f}")
    unasked = surplus - mays - extra - (len(starts) - len({start.run for start in starts}))
    if unasked > 0:
        yield Violation(EARLY, f"{tag}: {unasked} attempts began when no occurrence was open")
