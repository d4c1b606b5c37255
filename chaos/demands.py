"""What a run has to show beyond the promises, which hold everywhere."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from chaos.checker import Verdict
from chaos.checker.facts import Facts, Start, sort
from chaos.checker.pauses import backlog
from chaos.figures import Figures, kind_of, quantile
from chaos.history import Record

_ENDS = ("SUCCEEDED", "FAILED")
_BY_CHANCE = frozenset({"deadlock", "serialization"})
"""What may come to nothing among other faults."""
_AWAY = frozenset({"publish unanswered", "kill broker"})
_DAY = 86400.0


class Demands(NamedTuple):
    strikes: int = 1
    """How often something must have been struck, at least: a scenario that strikes nothing shows nothing."""
    effective: bool = True
    """Whether each kind of fault must have hit something. Of many kinds in a short time, one may have had no chance."""
    acknowledged: int = 0
    """How many jobs, at least."""
    quiet_p95: float = 1.0
    """Lag of what is due when nothing is wrong, in seconds."""
    over_within: float | None = None
    """Seconds from the last fault until all that was due before has been tried to its end."""
    resumes_within: float | None = None
    """Seconds from the end of each fault until every worker has begun an attempt."""
    gap_beyond_election: float | None = None
    """Seconds from the election of a leader to the first completed run: the 95th percentile over all failovers."""
    lag_p95: float | None = None
    """Over everything, also what was due during the faults, without the time in which there was no server or no worker:
    how long a process takes to start is not what is measured."""
    succeeds: float | None = None
    """The share of runs that end well, of those that no client cancelled."""
    refuses_late: bool = False
    """Some attempt came to a good end, and was refused, because its run had moved."""
    moves: bool = False
    """What was at work where it was cut off has begun elsewhere, before that was reachable again."""
    rejoins: bool = False
    """A worker that was cut off has begun attempts again afterwards."""
    frees_within: float | None = None
    """Seconds from the death of a worker until what it lost has begun again, counted in the same way."""
    keeps: bool = False
    """No run is taken from a worker that nothing was done to."""
    backlog: int = 0
    """How many runs a pause must have found waiting, in all."""
    conflicts: bool = False
    """The faults led to deadlocks and refusals to serialize."""
    carried: int = 0
    """How many jobs must have been answered as runs in a stream, at least."""
    fallen_back: int = 0
    """How many plain jobs must have been stored while the broker did not answer, at least."""
    carries_again: bool = False
    """Runs go through the stream again after the last fault."""
    midnight: bool = False
    """Runs began on one day and ended on the next, and messages of the day before were delivered again."""
    tells: str | None = None
    """What the error of a request during a fault says."""
    writes: str | None = None
    """What a process writes into its log meanwhile."""

    def broken(self, logs: Mapping[str, Sequence[Record]], verdict: Verdict, figures: Figures) -> list[str]:
        """What was not shown."""
        facts = sort(logs)
        return [
            *self._of_counts(facts, verdict, figures),
            *self._of_figures(figures),
            *self._of_faults(facts),
            *self._of_failovers(facts),
            *self._of_cuts(facts),
            *self._of_deaths(facts),
            *(_taken_away(facts) if self.keeps else ()),
            *self._of_runs(facts),
            *self._of_streams(facts),
            *(_missed_midnight(facts) if self.midnight else ()),
            *self._of_answers(logs["answered"], facts.setup.get("written", ())),
        ]

    def _of_counts(self, facts: Facts, verdict: Verdict, figures: Figures) -> Iterator[str]:
        strikes = sum(count for kind, count in figures.struck.items() if not kind.startswith("lie: "))
        if strikes < self.strikes:
            yield f"struck {strikes} times, and not {self.strikes} times"
        if verdict.counts["acknowledged"] < self.acknowledged:
            yield f"{verdict.counts['acknowledged']} jobs were acknowledged, and not {self.acknowledged}"
        if facts.recurring and not verdict.counts["occurrences that must have run"]:
            yield "there is no occurrence of a recurring job that must have run"
        if (found := backlog(facts)) < self.backlog:
            yield f"pauses found {found} runs waiting, and not {self.backlog}"
        for kind in without_effect(facts.faults) if self.effective else ():
            if self.conflicts or kind not in _BY_CHANCE:
                yield f"nothing came of {kind}"

    def _of_figures(self, figures: Figures) -> Iterator[str]:
        if not figures.in_quiet:
            yield "nothing was due when nothing was wrong"
        if figures.quantiles["quiet p95"] > self.quiet_p95:
            yield f"the 95th percentile of lag is {figures.quantiles['quiet p95']} s when nothing is wrong"
        if self.lag_p95 is not None and figures.quantiles["attended p95"] > self.lag_p95:
            yield f"the 95th percentile of lag is {figures.quantiles['attended p95']} s, over {self.lag_p95} s"
        if self.over_within is not None and (figures.over_after or 0.0) > self.over_within:
            yield f"all was over {figures.over_after} s after the last fault, and not within {self.over_within} s"

    def _of_faults(self, facts: Facts) -> Iterator[str]:
        if self.resumes_within is None:
            return
        begun: dict[str, list[float]] = {}
        for start in _starts(facts):
            begun.setdefault(start.node, []).append(start.t)
        for fault in facts.faults:
            for pid in fault.get("workers", ()):
                following = min((t for t in begun.get(f"pid-{pid}", ()) if t >= fault["until"]), default=float("inf"))
                if following - fault["until"] > self.resumes_within:
                    took = following - fault["until"]
                    yield f"a worker began nothing for {took:.1f} s after {fault['kind']} was over"

    def _of_failovers(self, facts: Facts) -> Iterator[str]:
        own = sorted(fault["gap"] - fault["election"] for fault in facts.faults if "election" in fault)
        if self.gap_beyond_election is not None and quantile(own, 0.95) > self.gap_beyond_election:
            yield f"the first run was completed {quantile(own, 0.95)} s after a leader was elected"

    def _of_cuts(self, facts: Facts) -> Iterator[str]:
        for fault in facts.faults if self.moves or self.rejoins else ():
            name = f"pid-{fault.get('pid', 0)}"
            if self.rejoins and not any(start.node == name and start.t > fault["until"] for start in _starts(facts)):
                yield f"{fault['node']} began nothing after it was reachable again"
            if self.moves:
                yield from _stayed(facts, fault, name)

    def _of_deaths(self, facts: Facts) -> Iterator[str]:
        if self.frees_within is None:
            return
        starts = list(_starts(facts))
        for fault in facts.faults:
            if kind_of(fault) != "kill worker":
                continue
            lost = [start for start in starts if start.node == f"pid-{fault['pid']}" and start.ended is None]
            for start in lost:
                again = [other.t for other in starts if other.run == start.run and other.t > start.t]
                took = facts.attended(fault["t"], min(again)) if again else 0.0
                if took > self.frees_within:
                    yield f"{start.run} began again {took:.1f} s after its worker was killed"

    def _of_runs(self, facts: Facts) -> Iterator[str]:
        ends = [run["state"] for runs in facts.runs.values() for run in runs if run["state"] in _ENDS]
        if self.succeeds is not None and ends.count("SUCCEEDED") < self.succeeds * len(ends):
            yield f"of {len(ends)} runs {ends.count('SUCCEEDED')} succeeded"
        if self.refuses_late and not late_and_refused(facts):
            yield "no attempt was too late: nothing shows that it would have been refused"

    def _of_streams(self, facts: Facts) -> Iterator[str]:
        many = [asked[0] for tag, asked in facts.one_offs.items() if tag.startswith("many-")]
        carried = [request for request in many if request.answer.get("via") == "stream"]
        if len(carried) < self.carried:
            yield f"{len(carried)} runs went through the stream, and not {self.carried}"
        away = [(fault["t"], fault["until"]) for fault in facts.faults if kind_of(fault) in _AWAY]
        fallen = [
            request
            for request in many
            if request.answer.get("via") == "store" and any(start <= request.answered_at <= end for start, end in away)
        ]
        if len(fallen) < self.fallen_back:
            yield f"{len(fallen)} runs were stored instead of published, and not {self.fallen_back}"
        over = max((fault["until"] for fault in facts.faults), default=0.0)
        if self.carries_again and not any(request.t > over for request in carried):
            yield "nothing went through the stream after the last fault"

    def _of_answers(self, answered: Iterable[Record], written: Iterable[str]) -> Iterator[str]:
        if self.tells is not None and not any(self.tells in record.get("error", "") for record in answered):
            yield f"no request was told {self.tells!r}"
        if self.writes is not None and self.writes not in written:
            yield f"no process has logged {self.writes!r}"


def came_of_it(faults: Iterable[Record]) -> dict[str, int]:
    """How much the faults of each kind have hit, where that was counted."""
    came: Counter[str] = Counter()
    for fault in faults:
        if "came_of_it" in fault:
            came[kind_of(fault)] += fault["came_of_it"]
    return dict(came)


def failovers(faults: Iterable[Record]) -> list[dict[str, float]]:
    """Of each failover, the seconds until a leader was elected, and until a run was completed."""
    return [{"election": fault["election"], "gap": fault["gap"]} for fault in faults if "election" in fault]


def without_effect(faults: Iterable[Record]) -> list[str]:
    """The kinds of faults that have hit nothing."""
    return sorted(kind for kind, count in came_of_it(faults).items() if not count)


def late_and_refused(facts: Facts) -> int:
    """Attempts that came to a good end where they ran, and that the product did not take as the end of their run."""
    ended = _completed(facts)
    return sum(
        1 for start in _starts(facts) if start.how == "done" and ended.get(start.run, start.nonce) != start.nonce
    )


def _stayed(facts: Facts, fault: Record, name: str) -> Iterator[str]:
    """Runs that succeeded elsewhere in the end, and had begun there too late."""
    ended, starts = _completed(facts), list(_starts(facts))
    moved = {start.run for start in starts if start.node != name and fault["t"] < start.t < fault["until"]}
    held = {start.run for start in starts if start.node == name and start.t < fault["t"] and _was_lost(start, ended)}
    if not held:
        yield f"{fault['node']} had nothing at work when it was cut off"
    for run in sorted(held - moved):
        yield f"{run} was at work on {fault['node']}, and did not move while that was cut off"


def _taken_away(facts: Facts) -> Iterator[str]:
    """Runs that were lost by workers that nothing was done to."""
    struck = {f"pid-{fault['pid']}" for fault in facts.faults if "pid" in fault}
    for starts in facts.starts.values():
        last: dict[str, Start] = {}
        for start in starts:
            before = last.get(start.run)
            if before is not None and start.lost > before.lost and before.node not in struck:
                yield f"{start.run} was taken from {before.node}, which lived"
            last[start.run] = start


def _missed_midnight(facts: Facts) -> Iterator[str]:
    days = [
        (start.due // _DAY, run["finished"] // _DAY)
        for tag, runs in facts.runs.items()
        for run in runs
        if run["finished"] and (start := facts.completed_by(tag, run)) is not None
        if any(asked.answer.get("via") == "stream" for asked in facts.one_offs.get(tag, ()))
    ]
    if not any(began < ended for began, ended in days):
        yield "no run of the stream began before midnight and ended after it"
    if len({began for began, ended in days if began == ended}) < 2:
        yield "no run of the stream began and ended on each side of midnight"
    if not any(fault.get("from_yesterday") for fault in facts.faults):
        yield "no message of the day before was delivered again"


def _was_lost(start: Start, ended: Mapping[str, str]) -> bool:
    return start.how != "failed" and ended.get(start.run, start.nonce) != start.nonce


def _completed(facts: Facts) -> dict[str, str]:
    """By which attempt each run that succeeded was completed."""
    return {run["run"]: run["by"] for runs in facts.runs.values() for run in runs if run["state"] == "SUCCEEDED"}


def _starts(facts: Facts) -> Iterator[Start]:
    for starts in facts.starts.values():
        yield from starts
