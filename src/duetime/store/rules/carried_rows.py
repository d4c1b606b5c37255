"""Carried runs as the rows of a statement: each id once, in the order of ids, and what they are found by.

All transactions spend ids in this order. Otherwise two with the same ids would deadlock.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from duetime.ids import stamp_of
from duetime.model.carried import CarriedEnd, CarriedRun, Landed, UnderClaim
from duetime.model.job import NewJob
from duetime.model.lane import LaneKey, Trial
from duetime.model.worker import Seat
from duetime.store.rules.labels import labels_in, payload_in


def as_carried(jobs: Iterable[NewJob]) -> list[CarriedRun]:
    """The only runs of one-off jobs that are due when they are submitted. A job with the same id makes the same run."""
    return [
        CarriedRun(job.first_run_id(), job.id, job.lane, stamp_of(job.id), job.args, job.options, job.timeout_ms)
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
    """When runs began, if not now."""
    lanes: Mapping[LaneKey, LaneKey]
    """The lane that a run lands in, by the lane that its message names."""
    seats: Sequence[Seat] = ()
    """The workers that run them from now on, and their claims; none: they wait."""
    seat_of: Mapping[UUID, int] = {}
    """The place of each run's worker among them, from 1."""
    is_suspect: bool = False
    is_shared: bool = False
    """Whether the runs are of several workers. If one of these is gone, its runs wait; otherwise the landing is
    refused."""


class Stored(NamedTuple):
    """What a landing has done."""

    at: int
    """In microseconds."""
    runs: frozenset[UUID]
    """The stored runs; of a shared landing, those that started."""
    lanes: Mapping[LaneKey, int]


def landing(runs: Sequence[CarriedRun], how: Landed | UnderClaim) -> Landing:
    started = how.started if isinstance(how, UnderClaim) else None
    starts = dict(zip([run.run_id for run in runs], started or [run.due for run in runs], strict=True))
    suspect = how is Landed.SUSPECT
    lanes = {run.lane: run.lane.on_trial(Trial.SUSPECT) if suspect else run.lane for run in runs}
    if not isinstance(how, UnderClaim):
        return Landing(_in_order(runs), starts, lanes, is_suspect=suspect)
    seat = Seat(how.worker_id, how.claim_no, len(runs))
    return Landing(_in_order(runs), starts, lanes, (seat,), dict.fromkeys(starts, 1))


def assignment(seats: Sequence[Seat], runs: Sequence[tuple[CarriedRun, int]]) -> Landing:
    """`runs`: each with the place of its worker, from 0."""
    seat_of = {run.run_id: place + 1 for run, place in runs}
    lanes = {run.lane: run.lane for run, _ in runs}
    return Landing(_in_order([run for run, _ in runs]), {}, lanes, seats, seat_of, is_shared=True)


def _in_order(runs: Iterable[CarriedRun]) -> list[CarriedRun]:
    first: dict[UUID, CarriedRun] = {}
    for run in runs:
        first.setdefault(run.run_id, run)
    return [first[run_id] for run_id in sorted(first)]


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
