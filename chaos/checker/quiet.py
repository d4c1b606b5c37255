"""After the faults: everything is over, every slot is there again, and what began twice did so for a reason."""

from collections.abc import Iterator

from chaos.checker.facts import ENDS, Facts, Violation

OVER = "all is over when it is quiet"
STUCK = "no run is stuck without a worker"
WHOLE = "no slot is lost"
ALIVE = "no process ends by itself"
SOUND = "the database is sound"
TWICE = "nothing begins twice without a fault"


def check(facts: Facts) -> Iterator[Violation]:
    for tag, runs in facts.runs.items():
        for run in runs:
            if run["state"] not in ENDS:
                yield Violation(OVER, f"{tag} ({run['run']}) is still {run['state']}: {run['attempts']}")
    for job in facts.jobs:
        if not job["found"] and _is_known(facts, job["tag"]):
            yield Violation(OVER, f"{job['tag']}: the product knows no job {job['job']}")
    for crash in facts.setup.get("crashes", ()):
        yield Violation(ALIVE, crash)
    for left in facts.setup.get("left", ()):
        yield Violation(OVER, f"it is left in the database: {left}")
    for damage in facts.setup.get("damages", ()):
        yield Violation(SOUND, damage)
    for seen in facts.setup.get("unattended", ()):
        calm = facts.timeline.calm(seen["since"], seen["until"])
        if calm > facts.setup["stuck after"]:
            yield Violation(STUCK, f"{seen['run']} was RUNNING for {calm:.0f} s, and no living worker had it")
    yield from _whole(facts)
    if facts.timeline.faultless and (again := repeats(facts)):
        yield Violation(TWICE, f"{again} attempts began again, and there was no fault")


def _is_known(facts: Facts, tag: str) -> bool:
    """Whether the product must know of it."""
    asked = (*facts.one_offs.get(tag, ()), *facts.recurring.get(tag, ()), *facts.followers.get(tag, ()))
    return any(request.outcome == "ok" for request in asked)


def repeats(facts: Facts) -> int:
    """How many attempts began again after one that never came to an end where it ran, or was told to stop."""
    count = 0
    for starts in facts.starts.values():
        seen: set[str] = set()
        for start in starts:
            count += start.run in seen
            seen.add(start.run)
            if start.how == "failed":
                seen.discard(start.run)  # a retry that was earned
    return count


def _whole(facts: Facts) -> Iterator[Violation]:
    """The probes hold every slot that there is at one moment, if there are as many as there should be."""
    slots = facts.setup.get("slots")
    probes = [start for tag, starts in facts.starts.items() if tag.startswith("probe-") for start in starts]
    if slots is None or not any(tag.startswith("probe-") for tag in facts.one_offs):
        return
    moments = sorted([(start.t, 1) for start in probes] + [(start.ended or start.t, -1) for start in probes])
    most = busy = 0
    for _, change in moments:
        busy += change
        most = max(most, busy)
    if most != slots:
        yield Violation(WHOLE, f"{most} runs held slots at once, and there are {slots}")
