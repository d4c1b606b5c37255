"""Pauses: a paused job starts nothing until it is resumed; then everything that it missed is made up.

`pause` and `resume` steer the job. `hold` and `free` steer its queue, which makes a backlog for the pause to find.
"""

from collections.abc import Iterator

from chaos.checker.facts import Asked, Facts, Violation

STILL = "nothing starts while its job is paused"
STEERING = frozenset({"pause", "resume", "hold", "free"})
_ON_ITS_WAY = 1.0
"""Seconds in which a run that was claimed before the pause may still start."""


def check(facts: Facts) -> Iterator[Violation]:
    for tag, requests in facts.recurring.items():
        for start, end in _pauses(requests):
            for attempt in facts.starts.get(tag, ()):
                # A run that lost its worker had begun before: only first attempts are judged.
                if start + _ON_ITS_WAY < attempt.t < end and (attempt.attempt, attempt.lost) == (1, 0):
                    yield Violation(
                        STILL, f"{tag} began a run at {attempt.t:.1f}, paused from {start:.1f} to {end:.1f}"
                    )


def backlog(facts: Facts) -> int:
    """How many runs were due before a pause, and began after it."""
    found = 0
    for tag, requests in facts.recurring.items():
        for start, end in _pauses(requests):
            shown = facts.timeline.database(start)
            found += sum(attempt.due < shown and attempt.t >= end for attempt in facts.starts.get(tag, ()))
    return found


def paused(requests: list[Asked]) -> Iterator[tuple[float, float]]:
    """From when to when a job could not start, with its queue or by itself."""
    since: float | None = None
    for request in requests:
        if request.asked["op"] in ("hold", "pause") and since is None:
            since = request.t
        elif request.asked["op"] == "resume" and request.outcome == "ok" and since is not None:
            yield since, request.answered_at
            since = None
    if since is not None:
        yield since, float("inf")


def _pauses(requests: list[Asked]) -> Iterator[tuple[float, float]]:
    """From when to when a job was surely paused: from the answer to a pause to the first request to resume."""
    since: float | None = None
    for request in requests:
        if request.asked["op"] == "pause" and request.outcome == "ok" and since is None:
            since = request.answered_at
        elif request.asked["op"] == "resume" and since is not None:
            yield since, request.t
            since = None
