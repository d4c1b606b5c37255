"""One-offs: what was acknowledged has run, what has run was asked for, and neither early nor late."""

from collections.abc import Iterator

from chaos.checker.facts import Asked, Facts, Start, Violation

LOST = "nothing accepted is lost"
INVENTED = "nothing is invented"
EARLY = "nothing runs early"
LATE = "lag is within its bound"
ONLY_ONCE = "at most once means once"
_CLAIM_TO_START = 120.0
"""Seconds from a first claim to the first start, unless the setup says it: the answer to a claim may be lost, and the
run handed back."""
_ROUNDING = 0.001


def check(facts: Facts) -> Iterator[Violation]:
    for tag, requests in facts.one_offs.items():
        yield from _lost(facts, tag, requests)
        yield from _invented(facts, tag, requests)
        yield from _on_time(facts, tag, requests)
        if requests[0].asked.get("once"):
            starts = [start for start in facts.starts.get(tag, ()) if not facts.timeline.forgotten(start.t)]
            if len(starts) > 1:
                yield Violation(ONLY_ONCE, f"{tag} began {len(starts)} times")
    for tag in facts.starts.keys() - facts.known:
        yield Violation(INVENTED, f"{tag} ran, and no client requested it")
    for tag in facts.runs.keys() - facts.known:
        yield Violation(INVENTED, f"the product reports {tag}, and no client requested it")


def _lost(facts: Facts, tag: str, requests: list[Asked]) -> Iterator[Violation]:
    if not any(request.outcome == "ok" for request in requests):
        return
    if facts.setup.get("sampled") and tag not in facts.asked_about:
        # Too many to be asked about one by one: what its tasks saw has to do. All that the product says did not end
        # well is asked about.
        if not any(start.how == "done" for start in facts.starts.get(tag, ())):
            yield Violation(LOST, f"{tag} was acknowledged and never came to its end")
        return
    runs = facts.runs.get(tag, [])
    if not runs:
        yield Violation(LOST, f"{tag} was acknowledged, and the product knows no run of it")
    for run in runs:
        yield from _end_of(facts, tag, requests[0].asked, run)


def _end_of(facts: Facts, tag: str, asked: dict[str, object], run: dict[str, object]) -> Iterator[Violation]:
    state = run["state"]
    doomed = int(asked.get("fail", 0)) > int(asked.get("retries", 0))  # type: ignore[call-overload]
    starts = [start for start in facts.starts.get(tag, ()) if start.run == run["run"]]
    if state == "SUCCEEDED":
        if not any(start.how == "done" for start in starts):
            yield Violation(LOST, f"{tag} is SUCCEEDED, and its task never came to its end")
    elif state == "CANCELLED":
        if tag not in facts.cancels and not _in_vain(facts, asked):
            yield Violation(LOST, f"{tag} is CANCELLED, and no client requested that")
    elif state == "FAILED":
        if asked.get("once") and (run["attempts"][-1][0] == "LOST" or _stopped(facts, starts)):  # type: ignore[index]
            return  # that is what was asked for: rather not at all than twice
        if run["attempts"] and run["attempts"][-1][0] == "LOST":  # type: ignore[index]
            yield Violation(LOST, f"{tag} FAILED only because its workers were lost")
        elif not doomed:
            yield Violation(LOST, f"{tag} FAILED, though it was to succeed: {run['attempts']}")
    else:
        yield Violation(LOST, f"{tag} is {state} when all should be over")


def _in_vain(facts: Facts, asked: dict[str, object]) -> bool:
    """Whether it waited for a parent to succeed that did not."""
    parents = facts.runs.get(str(asked.get("parent")), [])
    return asked.get("on") == "success" and any(run["state"] != "SUCCEEDED" for run in parents)


def _stopped(facts: Facts, starts: list[Start]) -> bool:
    """Its worker was told to end, and could not wait for it."""
    return bool(starts) and all(
        start.how == "stopped" and facts.timeline.disturbed(start.t, start.ended or start.t) for start in starts
    )


def _invented(facts: Facts, tag: str, requests: list[Asked]) -> Iterator[Violation]:
    """One request makes at most one job and one run, however often it is repeated under its idempotency key."""
    if all(request.outcome == "refused" for request in requests) and tag in facts.starts:
        yield Violation(INVENTED, f"{tag} was refused, and ran")
    jobs = {request.answer["job"] for request in requests if request.outcome == "ok"}
    jobs |= {start.job for start in facts.starts.get(tag, ())} | {run["job"] for run in facts.runs.get(tag, ())}
    runs = {start.run for start in facts.starts.get(tag, ())} | {run["run"] for run in facts.runs.get(tag, ())}
    repeated = len(requests) > 1 and requests[0].asked.get("idempotent") is None
    if (len(jobs) > 1 or len(runs) > 1) and not repeated:
        yield Violation(INVENTED, f"{tag} was asked for once and became jobs {sorted(jobs)} with runs {sorted(runs)}")


def _on_time(facts: Facts, tag: str, requests: list[Asked]) -> Iterator[Violation]:
    starts = facts.starts.get(tag, ())
    for start in starts:
        yield from early(facts, start)
    first = requests[0].asked
    answered = max(request.answered_at for request in requests)
    earliest = facts.timeline.earliest_shown(first["t"], answered) + (first.get("in") or 0.0)
    for start in starts[:1]:
        wanted = first.get("at")
        if wanted is not None and start.due < wanted - _ROUNDING:
            yield Violation(EARLY, f"{tag} was asked for at {wanted:.3f} and counted as due at {start.due:.3f}")
        if wanted is None and start.due < earliest - _ROUNDING:
            yield Violation(EARLY, f"{tag} was due {earliest - start.due:.3f} s before what was asked for")
    if tag in facts.cancels or not any(request.outcome == "ok" for request in requests):
        return
    due = max((run["due"] for run in facts.runs.get(tag, ())), default=starts[0].due if starts else None)
    if due is None:
        return
    since = min(request.answered_at for request in requests if request.outcome == "ok")
    if not starts:
        return  # lost, if it should have run
    if first.get("parent") is not None:
        ended = _end_of_parent(facts, first["parent"])
        if ended is None:
            return  # no log says when that was
        since = max(since, ended)
    if first.get("alone") is not None:
        return  # it may have had to wait for others of its key
    latest = facts.timeline.deadline(facts.timeline.reached(due, since))
    if starts[0].t > latest:
        yield Violation(LATE, f"{tag} began {starts[0].t - latest:.1f} s after its latest moment, t={starts[0].t:.1f}")


def _end_of_parent(facts: Facts, tag: str) -> float | None:
    """When its task had done what was accepted, if it succeeded."""
    done = (facts.completed_by(tag, run) for run in facts.runs.get(tag, ()) if run["state"] == "SUCCEEDED")
    return next((start.ended for start in done if start is not None), None)


def early(facts: Facts, start: Start) -> Iterator[Violation]:
    """By the database's clock. What was due once may be tried again after the clock was put back."""
    tried = start.attempt > 1 or start.lost > 0
    within = float("inf") if tried else facts.setup.get("claim to start", _CLAIM_TO_START)
    shown = facts.timeline.latest_shown(start.t, within)
    if shown < start.due - _ROUNDING:
        yield Violation(EARLY, f"{start.tag} ({start.run}) began {start.due - shown:.3f} s before it was due")
