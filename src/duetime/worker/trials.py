"""Trials: how many untrusted runs may run in this worker at once (`model/suspicion.py`).

A run that kills its worker must end without taking others along, and the innocent runs of a crashed worker must be back
soon. So runs that were in one crash start a few at a time, and runs that were in two start one at a time. For every run
that survives (it finishes, or outlives a moment) one more may run, so their number doubles from moment to moment; of
runs that were in two crashes, one more of the same task. A run that was in more crashes runs alone: in an idle worker
that takes nothing else until the run has survived.
"""

from uuid import UUID

from duetime.clock import monotonic
from duetime.model.lane import LaneKey, Trial
from duetime.model.suspicion import TaskOf, TrialRoom

FIRST_WINDOW = 4
_SURVIVED = {Trial.SUSPECT: 0.25, Trial.PROBED: 5.0, Trial.ALONE: 5.0}


class Trials:
    def __init__(self) -> None:
        self._window = FIRST_WINDOW
        self._proven: dict[TaskOf, int] = {}
        """How many runs of a task may be probed at once, after one has survived."""
        self._started: dict[UUID, tuple[Trial, TaskOf, float]] = {}

    def room(self) -> TrialRoom:
        """How many more may start now, beside others."""
        self._forget_survivors()
        probed = [task for trial, task, _ in self._started.values() if trial is Trial.PROBED]
        suspects = sum(1 for trial, *_ in self._started.values() if trial is Trial.SUSPECT)
        room = TrialRoom(max(0, self._window - suspects), unproven=int(not probed))
        if all(task in self._proven for task in probed):
            room.proven = {task: max(0, window - probed.count(task)) for task, window in self._proven.items()}
        return room

    def started(self, run_id: UUID, lane: LaneKey) -> None:
        self._started[run_id] = (Trial(lane.trial), (lane.tenant_id, lane.task), monotonic())

    def ended(self, run_id: UUID) -> None:
        found = self._started.pop(run_id, None)
        if found is not None:
            self._survived(*found[:2])

    @property
    def under_way(self) -> bool:
        return bool(self._started)

    @property
    def alone(self) -> bool:
        """Whether a run is tried alone: nothing else may start."""
        if not self._started:
            return False
        self._forget_survivors()
        return any(trial is Trial.ALONE for trial, *_ in self._started.values())

    def _forget_survivors(self) -> None:
        now = monotonic()
        for run_id, (trial, task, since) in list(self._started.items()):
            if now - since >= _SURVIVED[trial]:
                del self._started[run_id]
                self._survived(trial, task)

    def _survived(self, trial: Trial, task: TaskOf) -> None:
        if trial is Trial.SUSPECT:
            self._window += 1
        elif trial is Trial.PROBED:
            self._proven[task] = self._proven.get(task, 1) + 1
