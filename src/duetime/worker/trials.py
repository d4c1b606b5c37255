"""Trials: how many runs that were there when a worker died may run in this worker at once.

A run that kills its worker must end without taking others along; and the innocent runs of a crashed worker must be back
soon. So suspects start a few at a time. For every one that survives (it finishes, or outlives a moment) one more may
run, so that their number doubles from moment to moment. A run that was there twice runs with no other of its kind, and
has to outlive a longer while before the next one may start.
"""

from uuid import UUID

from duetime.clock import monotonic
from duetime.model.lane import Trial

FIRST_WINDOW = 4
_SURVIVED = {Trial.SUSPECT: 0.25, Trial.ALONE: 5.0}


class Trials:
    def __init__(self) -> None:
        self._window = FIRST_WINDOW
        self._started: dict[UUID, tuple[Trial, float]] = {}

    def room(self) -> dict[int, int]:
        """How many more of each kind of trial may start now."""
        self._forget_survivors()
        suspects = sum(1 for trial, _ in self._started.values() if trial is Trial.SUSPECT)
        alone = len(self._started) - suspects
        return {Trial.SUSPECT: max(0, self._window - suspects), Trial.ALONE: 0 if alone else 1}

    def started(self, run_id: UUID, trial: int) -> None:
        self._started[run_id] = (Trial(trial), monotonic())

    def ended(self, run_id: UUID) -> None:
        found = self._started.pop(run_id, None)
        if found is not None:
            self._survived(found[0])

    @property
    def under_way(self) -> bool:
        return bool(self._started)

    def _forget_survivors(self) -> None:
        now = monotonic()
        for run_id, (trial, since) in list(self._started.items()):
            if now - since >= _SURVIVED[trial]:
                del self._started[run_id]
                self._survived(trial)

    def _survived(self, trial: Trial) -> None:
        if trial is Trial.SUSPECT:
            self._window += 1
