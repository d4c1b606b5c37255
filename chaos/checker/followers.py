"""What waits for other jobs: a job after its parent, and a job after each run of another.

A child runs after its parent's end if that is as it wants it, and never otherwise. Each success of a job that another
one follows makes one run of that, due when the success was noted; by this moment the two are matched.
"""

from collections import Counter
from collections.abc import Iterator

from chaos.checker.facts import ENDS, Asked, Facts, Start, Violation
from chaos.checker.one_offs import LATE, early
from chaos.history import Record

AFTER = "what waits for others runs after them"
FOLLOWED = "every success is followed once"


def check(facts: Facts) -> Iterator[Violation]:
    for tag, requests in facts.one_offs.items():
        if requests[0].asked.get("parent") is not None:
            yield from _child(facts, tag, requests[0].asked)
    for tag, requests in facts.followers.items():
        yield from _follower(facts, tag, requests)


def _child(facts: Facts, tag: str, asked: Record) -> Iterator[Violation]:
    parents = facts.runs.get(asked["parent"], [])
    if len(parents) != 1 or parents[0]["state"] not in ENDS:
        return  # it was not asked about, or that is wrong in itself
    (parent,) = parents
    succeeded = parent["state"] == "SUCCEEDED"
    # The parent may have ended otherwise just before the database was put back.
    starts = [start for start in facts.starts.get(tag, []) if not facts.timeline.forgotten(start.t)]
    if not succeeded and asked["on"] == "success":
        if starts:
            yield Violation(AFTER, f"{tag} ran, though its parent {asked['parent']} is {parent['state']}")
        for run in facts.runs.get(tag, ()):
            if run["state"] != "CANCELLED":
                yield Violation(AFTER, f"{tag} is {run['state']}, and its parent {asked['parent']} {parent['state']}")
    elif starts and succeeded:
        ended = [start.ended for start in _done(facts, asked["parent"], parent)]
        if not any(moment is not None and moment <= starts[0].t for moment in ended):
            yield Violation(AFTER, f"{tag} began at {starts[0].t:.3f}, before its parent {asked['parent']} had ended")


def _done(facts: Facts, tag: str, run: Record) -> list[Start]:
    return [start for start in facts.starts.get(tag, ()) if start.run == run["run"] and start.how == "done"]


def _follower(facts: Facts, tag: str, requests: list[Asked]) -> Iterator[Violation]:
    follow = next((request for request in requests if request.asked["op"] == "follow"), None)
    if follow is None or follow.asked["parent"] not in facts.runs:
        return
    known_by = min((request.answered_at for request in requests if request.outcome == "ok"), default=float("inf"))
    over = min((request.t for request in requests if request.asked["op"] == "unfollow"), default=facts.setup["end"])
    successes: Counter[float] = Counter()
    ended: dict[float, float] = {}
    """When the task of a success had really ended, by when that was noted."""
    must: set[float] = set()
    for run in facts.runs.get(follow.asked["parent"], ()):
        if run["state"] == "SUCCEEDED":
            successes[run["finished"]] += 1
            by = facts.completed_by(follow.asked["parent"], run)
            if by is None or by.ended is None:
                continue
            ended[run["finished"]] = by.ended
            if known_by < by.ended < facts.timeline.deadline(by.ended) < over:
                must.add(run["finished"])
    runs = facts.runs.get(tag, [])
    made = Counter(run["due"] for run in runs)
    for due in must:
        if made[due] < successes[due]:
            yield Violation(FOLLOWED, f"{follow.asked['parent']} succeeded at {due:.3f}, and {tag} did not follow")
    for due, count in made.items():
        if count > successes[due]:
            yield Violation(FOLLOWED, f"{tag} ran {count} times for {successes[due]} successes at {due:.3f}")
    for run in runs:
        # The clock may have shown that moment before, and have been put back since.
        since: float = ended[run["due"]] if run["due"] in ended else facts.setup["end"]
        yield from _end_of(facts, tag, run, facts.timeline.deadline(facts.timeline.reached(run["due"], since)), over)


def _end_of(facts: Facts, tag: str, run: Record, latest: float, over: float) -> Iterator[Violation]:
    starts = [start for start in facts.starts.get(tag, ()) if start.run == run["run"]]
    for start in starts:
        yield from early(facts, start)
    if starts and starts[0].t > latest:
        yield Violation(LATE, f"{tag} began {starts[0].t - latest:.1f} s after its latest moment, t={starts[0].t:.1f}")
    if run["state"] == "SUCCEEDED":
        if not any(start.how == "done" for start in starts):
            yield Violation(FOLLOWED, f"{tag} is SUCCEEDED, and its task never came to its end")
    elif run["state"] != "CANCELLED" or latest < over:
        # Only what was waiting, or at work, when it was cancelled may end so.
        yield Violation(FOLLOWED, f"{tag} is {run['state']}: {run['attempts']}")
