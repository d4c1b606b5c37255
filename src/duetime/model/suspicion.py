"""Suspicion: which runs are tried with care, because they, their job or their task may be what kills workers.

A run, a recurring job and a task are each as suspicious as the number of workers that they have lost in a row. A run
carries its own count. A job carries one for its future runs: a schedule whose every run kills its worker creates a new
run each time, which has lost nothing yet. A task carries one for jobs that are new each time; it is a step behind, so
that one bad job does not delay the others of its task. For a task, workers are in a row if a run of it began after the
loss before was noticed: those that went down together, with whatever they ran, count as one. An attempt that ends
clears its job and its task, and what waits of the job is tried as its own losses say. A worker counts as lost when it
was last heard of, not when that was noticed a lease later: what ran well in between is not suspected, however many
workers something else has killed meanwhile.

    NONE ──lost──► SUSPECT ──lost──► PROBED ──lost──► ALONE ──lost──► ALONE, after a pause that doubles

A run that died beside a killer of another task comes as far as PROBED, and is cleared after one success of its own. A
run that reaches ALONE runs in a worker that does nothing else, so it takes no other run along. It also waits between
two tries, so that a fleet of one worker has time for everything else.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from duetime.clock import monotonic
from duetime.model.lane import Lane, LaneKey, Sight, Trial, trial_after

FORGET_JOBS = timedelta(hours=1)
FORGET_TASKS = timedelta(minutes=10)
"""How long a loss is remembered, if nothing clears it."""
IDLE_WORKER_TIMEOUT = 15.0
"""Seconds after which a run no longer waits for an idle worker, but is given to one that then takes nothing else."""
_FIRST_PAUSE = 5.0
_LONGEST_PAUSE = 60.0
_ALWAYS = 1e9

TaskOf = tuple[int, str]
"""A task of a tenant."""


class TrialRoom:
    """How many untrusted runs may start beside others.

    For probed runs, a task must prove itself first: one run of it, with no other probed run. This way its killer is
    found without taking along runs of other tasks.
    """

    __slots__ = ("alone", "proven", "suspects", "unproven")

    def __init__(
        self, suspects: int = 0, unproven: int = 0, proven: Mapping[TaskOf, int] | None = None, alone: int = 0
    ) -> None:
        self.suspects = suspects
        self.unproven = unproven
        """Whether one run of an unproven task may start."""
        self.proven = dict(proven or {})
        """How many runs of each task with surviving runs may start."""
        self.alone = alone

    def copy(self) -> "TrialRoom":
        return TrialRoom(self.suspects, self.unproven, self.proven, self.alone)

    def take(self, trial: int, task: TaskOf, wanted: int) -> int:
        """How many of `wanted` runs may start; reduces the room."""
        if trial == Trial.SUSPECT:
            taken = min(wanted, self.suspects)
            self.suspects -= taken
        elif trial == Trial.ALONE:
            taken = min(wanted, self.alone)
            self.alone -= taken
        elif task in self.proven:
            taken = min(wanted, self.proven[task])
            self.proven[task] -= taken
            self.unproven = 0 if taken else self.unproven
        else:
            taken = min(wanted, self.unproven)
            if taken:
                self.unproven, self.proven = 0, {}
        return taken


class LostRun(NamedTuple):
    """A run that was lost with its worker."""

    run_id: UUID
    worker_id: UUID
    job_id: UUID
    lane: LaneKey
    lost: int
    """How often it has been lost by now."""
    started_at: datetime
    died_at: datetime
    """When its worker was last heard of: by a heartbeat, or because it claimed the run."""


class LostCount(NamedTuple):
    """How often a task, or a job of it, has lost workers in a row, and how many seconds ago the last time was."""

    task: TaskOf
    losses: int
    age: float
    of_job: bool


def pause_after(losses: int) -> float:
    """Seconds until a task or job that has lost so many workers in a row may be tried alone again."""
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(losses - Trial.ALONE, 10)) if losses >= Trial.ALONE else 0.0


class Suspicion(msgspec.Struct, frozen=True):
    """What is known about tasks; at most half a second old."""

    tasks: Mapping[TaskOf, int] = {}
    """How new runs of untrusted tasks are tried."""
    opens: Mapping[TaskOf, float] = {}
    """When runs of a task may be tried alone again, on the monotonic clock."""

    @classmethod
    def of(cls, found: Iterable[LostCount]) -> "Suspicion":
        now = monotonic()
        tasks: dict[TaskOf, int] = {}
        opens: dict[TaskOf, float] = {}
        for task, losses, age, of_job in found:
            if not of_job and losses > 1:
                tasks[task] = trial_after(losses - 1)
            if pause := pause_after(losses):
                opens[task] = max(opens.get(task, -_ALWAYS), now - age + pause)
        return cls(tasks, opens)

    def trial(self, key: LaneKey) -> int:
        """How runs of this lane are tried."""
        return max(key.trial, self.tasks.get((key.tenant_id, key.task), Trial.NONE)) if self.tasks else key.trial

    def tried(self, key: LaneKey) -> LaneKey:
        """The key of the trial lane that corresponds to how this lane's runs are tried."""
        trial = self.trial(key)
        return key if trial == key.trial else key.on_trial(Trial(trial))

    def alone(self, sights: Iterable[Sight], lanes: Mapping[int, Lane], now: datetime) -> list[tuple[Sight, float]]:
        """The lanes whose first run is ready to be tried alone, and for how many seconds it has been, the longest
        first."""
        found = []
        for sight in sights:
            key = lanes[sight.lane_id].key
            if self.trial(key) == Trial.ALONE and sight.ready_at[0] <= now:
                open_for = monotonic() - self.opens.get((key.tenant_id, key.task), -_ALWAYS)
                if open_for >= 0:
                    found.append((sight, min(open_for, (now - sight.ready_at[0]).total_seconds())))
        return sorted(found, key=lambda pair: -pair[1])
