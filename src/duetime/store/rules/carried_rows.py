"""Carried runs as the rows of a statement: each id once, in the order of ids, and what they are found by.

All transactions spend ids in this order. Otherwise two with the same ids would deadlock.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from duetime.ids import time_of
from duetime.model.carried import CarriedEnd, CarriedRun, Landed
from duetime.model.job import NewJob
from duetime.model.lane import LaneKey, Trial
from duetime.model.microseconds import stamp
from duetime.store.rules.labels import labels_in, payload_in


def as_carried(jobs: Iterable[NewJob]) -> list[CarriedRun]:
    """The only runs of one-off jobs that are due when they are submitted. A job with the same id makes the same run."""
    return [
        CarriedRun(job.first_run_id(), job.id, job.lane, stamp(time_of(job.id)), job.args, job.options, job.timeout_ms)
        for job in jobs
    ]


def ends_in_order(ended: Iterable[CarriedEnd]) -> list[CarriedEnd]:
    """Of several ends of a run, the first counts."""
    # By the number: comparing two UUIDs costs more than all else here.
    ends = sorted(ended, key=attrgetter("run.run_id.int"))
    return [end for end, before in zip(ends, [None, *ends], strict=False) if not _same(end, before)]


def _same(end: CarriedEnd, other: CarriedEnd | None) -> bool:
    return other is not None and end.run.run_id.int == other.run.run_id.int


class Landing(NamedTuple):
    runs: list[CarriedRun]
    starts: Mapping[UUID, int]
    lanes: Mapping[LaneKey, LaneKey]
    """The lanes that runs land in, by their own lanes."""
    how: Landed
    worker_id: UUID | None
    """Which runs them from now on, under this claim; None: they wait."""
    claim_no: int | None

    @property
    def is_suspect(self) -> bool:
        return self.how is Landed.SUSPECT


def landing(
    runs: Sequence[CarriedRun],
    how: Landed,
    worker_id: UUID | None,
    claim_no: int | None,
    started: Sequence[int] | None,
) -> Landing:
    starts = dict(zip([run.run_id for run in runs], started or [run.due for run in runs], strict=True))
    first: dict[UUID, CarriedRun] = {}
    for run in runs:
        first.setdefault(run.run_id, run)
    suspect = how is Landed.SUSPECT
    lanes = {run.lane: run.lane.on_trial(Trial.SUSPECT) if suspect else run.lane for run in runs}
    holder = (worker_id, claim_no) if how is Landed.RUNNING else (None, None)
    return Landing([first[run_id] for run_id in sorted(first)], starts, lanes, how, *holder)


class FoundBy(NamedTuple):
    """The labels (place of the run, kind, value) and payloads (place of the run, payload) of carried runs."""

    labels: list[tuple[int, str, str]]
    payloads: list[tuple[int, UUID]]


def found_by(runs: Sequence[CarriedRun]) -> FoundBy:
    labels: list[tuple[int, str, str]] = []
    payloads: list[tuple[int, UUID]] = []
    for place, run in enumerate(runs, 1):
        if run.options is not None:
            labels += [(place, kind, value) for kind, value in labels_in(run.options)]
            if (payload_id := payload_in(run.options)) is not None:
                payloads.append((place, payload_id))
    return FoundBy(labels, payloads)
