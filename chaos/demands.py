"""What a scenario has to show beyond the promises, which hold everywhere."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from chaos.checker.facts import Facts, sort
from chaos.figures import Figures
from chaos.history import Record

_ENDS = ("SUCCEEDED", "FAILED")


class Demands(NamedTuple):
    strikes: int = 0
    """How often something must have been struck, at least: a scenario that strikes nothing shows nothing."""
    resumes_within: float | None = None
    """Seconds from the end of each fault to the next attempt that begins."""
    lag_p95: float | None = None
    """Over everything, also what was due during the faults."""
    succeeds: float | None = None
    """The share of runs that end well, of those that nobody cancelled."""
    refuses_late: bool = False
    """Some attempt came to a good end, and was refused, because its run had moved."""
    rejoins: bool = False
    """Whoever was cut off has begun attempts again afterwards."""
    came_of_it: bool = False
    """The faults led to errors: deadlocks, refusals to serialize."""

    def broken(self, logs: Mapping[str, Sequence[Record]], figures: Figures) -> list[str]:
        """What was not shown."""
        facts = sort(logs)
        return [*self._of_figures(facts, figures), *self._of_faults(facts), *self._of_runs(facts)]

    def _of_figures(self, facts: Facts, figures: Figures) -> Iterator[str]:
        if len(facts.faults) < self.strikes:
            yield f"struck {len(facts.faults)} times, and not {self.strikes} times"
        if self.lag_p95 is not None and figures.quantiles["p95"] > self.lag_p95:
            yield f"the 95th percentile of lag is {figures.quantiles['p95']} s, over {self.lag_p95} s"

    def _of_faults(self, facts: Facts) -> Iterator[str]:
        begun = sorted(start.t for starts in facts.starts.values() for start in starts)
        for fault in facts.faults:
            if self.resumes_within is not None:
                following = min((t for t in begun if t >= fault["until"]), default=float("inf"))
                took = following - fault["until"]
                struck_again = any(fault["until"] <= other["t"] < following for other in facts.faults)
                if took > self.resumes_within and not struck_again:
                    yield f"nothing began for {took:.1f} s after {fault['kind']} was over"
            if self.rejoins and not _seen_after(facts, fault):
                yield f"{fault['node']} began nothing after it was reachable again"
        if self.came_of_it:
            came = came_of_it(facts.faults)
            yield from (f"nothing came of {kind}" for kind in {f["kind"] for f in facts.faults} if not came.get(kind))

    def _of_runs(self, facts: Facts) -> Iterator[str]:
        ends = [run["state"] for runs in facts.runs.values() for run in runs if run["state"] in _ENDS]
        if self.succeeds is not None and ends.count("SUCCEEDED") < self.succeeds * len(ends):
            yield f"of {len(ends)} runs {ends.count('SUCCEEDED')} succeeded"
        if self.refuses_late and not late_and_refused(facts):
            yield "no attempt was too late: nothing shows that it would have been refused"


def came_of_it(faults: Iterable[Record]) -> dict[str, int]:
    """How many errors the faults of each kind have led to, where that was counted."""
    came: Counter[str] = Counter()
    for fault in faults:
        if "came_of_it" in fault:
            came[fault["kind"]] += fault["came_of_it"]
    return dict(came)


def late_and_refused(facts: Facts) -> int:
    """Attempts that came to a good end where they ran, and that the product did not take as the end of their run."""
    ended = {run["run"]: run["by"] for runs in facts.runs.values() for run in runs if run["state"] == "SUCCEEDED"}
    done = [start for starts in facts.starts.values() for start in starts if start.how == "done"]
    return sum(1 for start in done if start.run in ended and ended[start.run] != start.nonce)


def _seen_after(facts: Facts, fault: Record) -> bool:
    name = f"pid-{fault.get('pid', 0)}"
    return any(start.node == name and start.t > fault["until"] for starts in facts.starts.values() for start in starts)
