"""True time, the database's clock, and the times at which the product was being disturbed.

A fault counts from its beginning until it has ended and the product has had `recovery` seconds. Bounds on lag hold for
undisturbed time only: a run that is due during a fault has its whole bound once the fault is over.

A clock that steps makes runs early or late, and disturbs no worker: it cuts none off, and takes nothing from one.
"""

from bisect import bisect_right
from collections.abc import Iterable

from chaos.history import Record


class Timeline:
    def __init__(self, setup: Record, faults: Iterable[Record]) -> None:
        self._base: float = setup["base"]
        self._bound: float = setup["bound"]
        self._slack: float = setup.get("clock slack", 0.0)
        """How long the database may go on with the old time after its clock was changed."""
        struck = list(faults)
        clocks = sorted((fault["t"], fault["offset"]) for fault in struck if fault["kind"] == "clock")
        self._changes: list[float] = [float("-inf"), *(t for t, _ in clocks)]
        self._offsets: list[float] = [0.0, *(offset for _, offset in clocks)]
        self._windows = _merged((fault["t"], fault["until"] + setup["recovery"]) for fault in struck)
        self._cuts = [
            (fault["t"], fault["until"] + setup["recovery"], fault.get("only"))
            for fault in struck
            if fault["kind"] != "clock"
        ]
        """From when to when, and the node that was struck; None: any may have been."""
        self._cut_windows = _merged((start, end) for start, end, _ in self._cuts)
        self._losses = [(fault["lost_from"], fault["lost_to"]) for fault in struck if "lost_from" in fault]
        self.faultless = not struck

    def database(self, t: float) -> float:
        """What the database's clock showed at a moment."""
        return self._base + t + self._offsets[bisect_right(self._changes, t) - 1]

    def latest_shown(self, t: float, within: float) -> float:
        """The latest that the database's clock showed in the last moments: what was claimed before the clock was put
        back may begin after it."""
        shown = self.database(t)
        for place, change in enumerate(self._changes[1:]):
            if t - within <= change <= t:
                shown = max(shown, self._base + min(t, change + self._slack) + self._offsets[place])
        return shown

    def span_shown(self, t: float) -> tuple[float, float]:
        """The earliest and the latest that the database's clock may have shown at a moment."""
        shown = [self.database(t)]
        for place, change in enumerate(self._changes[1:]):
            if t - self._slack <= change <= t:
                shown.append(self._base + t + self._offsets[place])
        return min(shown), max(shown)

    def earliest_shown(self, start: float, end: float) -> float:
        """The earliest that the database's clock may have shown at some moment of this stretch of time."""
        shown = [self.span_shown(start)[0]]
        for place, change in enumerate(self._changes):
            if start < change <= end:
                shown.append(self._base + change + self._offsets[place])
        return min(shown)

    def reached(self, due: float, since: float = float("-inf")) -> float:
        """When the database's clock first may have shown this time, or a later one, to a reader that looks from `since`
        on."""
        moments = []
        for place, offset in enumerate(self._offsets):
            at = max(due - self._base - offset, self._changes[place], since)
            if place + 1 == len(self._changes) or at < self._changes[place + 1] + self._slack:
                moments.append(at)
        return min(moments)

    def deadline(self, t: float) -> float:
        """Until when something must have begun that could have begun at `t`."""
        return self._deadline(t, self._windows)

    def deadline_to_free(self, t: float) -> float:
        """Until when something must have begun anew whose process died at `t`: the clock is no excuse."""
        return self._deadline(t, self._cut_windows)

    def _deadline(self, t: float, windows: list[tuple[float, float]]) -> float:
        for start, end in windows:
            if end <= t:
                continue
            if start > t + self._bound:
                break
            t = end
        return t + self._bound

    def forgotten(self, t: float) -> bool:
        """Whether the database may have forgotten what it was told then: it was put back to an older state."""
        return any(first <= t <= last for first, last in self._losses)

    def calm(self, start: float, end: float) -> float:
        """For how many seconds of this stretch of time nothing disturbed the product."""
        overlaps = (min(end, last) - max(start, first) for first, last in self._windows)
        return end - start - sum(overlap for overlap in overlaps if overlap > 0)

    def disturbed(self, start: float, end: float) -> bool:
        """Whether a fault, or the recovery from one, falls into this stretch of time."""
        return any(first <= end and last >= start for first, last in self._windows)

    def cut_off(self, node: str, start: float, end: float) -> bool:
        """Whether a process of a node may have been stopped, or cut off from the database, in this stretch of time."""
        name = node.partition(".")[0]
        return any(first <= end and last >= start for first, last, struck in self._cuts if struck in (None, name))


def _merged(windows: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
