"""The logs, sorted by what they are about. A tag is the workload's own name for one thing that it asked for."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from chaos.checker.timeline import Timeline
from chaos.history import Record

ENDS = frozenset({"SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"})
"""The states of runs that are over."""


class Violation(NamedTuple):
    promise: str
    text: str


class Start(NamedTuple):
    """An attempt that began, and what became of it where it ran (None: it never came to an end)."""

    t: float
    tag: str
    job: str
    run: str
    due: float
    attempt: int
    lost: int
    nonce: str
    node: str
    ended: float | None
    how: str | None


class Asked(NamedTuple):
    """A request and its answer; an answer that never came is `unknown`, at the end of time."""

    asked: Record
    outcome: str
    answered_at: float
    answer: Record

    @property
    def t(self) -> float:
        return float(self.asked["t"])


@dataclass
class Facts:
    setup: Record
    timeline: Timeline
    faults: Sequence[Record]
    one_offs: dict[str, list[Asked]] = field(default_factory=lambda: defaultdict(list))
    recurring: dict[str, list[Asked]] = field(default_factory=lambda: defaultdict(list))
    """By tag: everything that was asked about a recurring job, in order."""
    followers: dict[str, list[Asked]] = field(default_factory=lambda: defaultdict(list))
    """By tag: everything that was asked about a job that runs after another, in order."""
    cancels: dict[str, list[Asked]] = field(default_factory=lambda: defaultdict(list))
    starts: dict[str, list[Start]] = field(default_factory=lambda: defaultdict(list))
    """By tag, in order of time."""
    runs: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    """By tag: every run that the product tells of."""
    jobs: list[Record] = field(default_factory=list)
    twice_told: list[str] = field(default_factory=list)
    """Runs that the product told of more than once."""

    @property
    def known(self) -> set[str]:
        """The tags of all that was ever asked for."""
        return {*self.one_offs, *self.recurring, *self.followers}

    @cached_property
    def asked_about(self) -> set[str]:
        """The tags of all that the product was asked about when it was over."""
        return {record["tag"] for record in self.jobs}

    def attended(self, start: float, end: float) -> float:
        """Seconds between two moments, without those in which there was no server, or no worker."""
        absences: list[tuple[float, float]] = self.setup.get("absences", [])
        return end - start - sum(max(0.0, min(end, until) - max(start, since)) for since, until in absences)

    def completed_by(self, tag: str, run: Record) -> Start | None:
        """The attempt whose result the product has taken."""
        return next((start for start in self.starts.get(tag, ()) if start.nonce == run["by"]), None)


def sort(logs: Mapping[str, Sequence[Record]]) -> Facts:
    (setup,) = logs["setup"]
    facts = Facts(setup, Timeline(setup, logs["faults"]), logs["faults"])
    answers = {record["n"]: record for record in logs["answered"]}
    for asked in logs["asked"]:
        _sort_request(facts, asked, answers.get(asked["n"]))
    ends = {record["nonce"]: record for record in logs["seen"] if record["what"] == "end"}
    for record in logs["seen"]:
        if record["what"] == "start":
            facts.starts[record["tag"]].append(_start(record, ends.get(record["nonce"])))
    for starts in facts.starts.values():
        starts.sort()
    told: set[str] = set()
    for record in logs["ended"]:
        if record["what"] == "job":
            facts.jobs.append(record)
            continue
        if record["run"] in told:
            facts.twice_told.append(record["run"])
        told.add(record["run"])
        facts.runs[record["tag"]].append(record)
    return facts


def _sort_request(facts: Facts, asked: Record, answer: Record | None) -> None:
    if asked["op"] == "batch":
        for place, tag in enumerate(asked["tags"]):
            one = None
            if answer is not None:
                is_ok = answer["outcome"] == "ok"
                ways = answer.get("vias")
                one = {
                    **answer,
                    "job": answer["jobs"][place] if is_ok else None,
                    "via": ways[place] if is_ok and ways else None,
                }
            facts.one_offs[tag].append(_remembered(facts, _asked({**asked, "tag": tag}, one)))
        return
    request = _remembered(facts, _asked(asked, answer))
    if asked["op"] == "submit":
        facts.one_offs[asked["tag"]].append(request)
    elif asked["op"] == "cancel" and not asked.get("recurring"):
        facts.cancels[asked["tag"]].append(request)
    elif asked["op"] in ("follow", "unfollow"):
        facts.followers[asked["tag"]].append(request)
    else:
        facts.recurring[asked["tag"]].append(request)


def _asked(asked: Record, answer: Record | None) -> Asked:
    if answer is None:
        return Asked(asked, "unknown", float("inf"), {})
    return Asked(asked, answer["outcome"], answer["t"], answer)


def _remembered(facts: Facts, request: Asked) -> Asked:
    """What was answered just before the database was put back to an older state may have been forgotten since."""
    forgotten = request.outcome == "ok" and facts.timeline.forgotten(request.answered_at)
    return request._replace(outcome="unknown") if forgotten else request


def _start(record: Record, end: Record | None) -> Start:
    return Start(
        record["t"],
        record["tag"],
        record["job"],
        record["run"],
        record["due"],
        record["attempt"],
        record["lost"],
        record["nonce"],
        record["node"],
        None if end is None else end["t"],
        None if end is None else end["how"],
    )
