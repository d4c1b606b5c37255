"""Fitting: from what one process was measured to cost, to the costs that the simulation takes.

CPU comes from the counters of the worker's process and of the database's sessions and background processes; how it is
shared between claiming and completing from the time that statements took. One thing cannot be counted and is fitted:
what a durable commit waits for. It is chosen so that one simulated process is as fast as the measured one was. Nothing
is fitted on more.
"""

import msgspec

from bench.model.simulation import PASS_BY, SKIP, Costs, Layout, simulate

CLAIM_SHARE = 0.45
"""The part of the sessions' work that is claiming, where there is no measurement of it."""


class Measured(msgspec.Struct, frozen=True):
    """One process draining, in microseconds a run."""

    worker: float
    database: float
    sessions: float | None
    """The part of the database's that is spent in sessions; the rest is background work."""
    rate: float
    cores: int
    claim_share: float = CLAIM_SHARE
    """The part of the sessions' work that is claiming; the rest is completing, which writes history."""
    skip: float = SKIP
    pass_by: float = PASS_BY
    """What it costs to pass by a run that another session is claiming, or has claimed."""
    crowding: float = 0.0
    """How much dearer a run gets for each process that wants a core and has to wait."""


def fit(measured: Measured) -> Costs:
    sessions = measured.database
    if measured.sessions is not None:
        sessions = min(measured.database, measured.sessions)
    costs = Costs(
        worker=measured.worker,
        claim=sessions * measured.claim_share,
        complete=sessions * (1 - measured.claim_share),
        background=measured.database - sessions,
        skip=measured.skip,
        pass_by=measured.pass_by,
        crowding=measured.crowding,
        statement=0.0,  # it is in what was measured, spread over the runs of a batch
    )
    return _with_flush(costs, measured)


def _with_flush(costs: Costs, measured: Measured) -> Costs:
    """The wait for a flush with which one process is as fast as it was; the rate falls as it grows."""
    low, high = 0.0, 50_000.0
    layout = Layout(1, measured.cores)
    for _ in range(18):
        middle = (low + high) / 2
        if simulate(msgspec.structs.replace(costs, flush=middle), layout, seconds=1.0).rate > measured.rate:
            low = middle
        else:
            high = middle
    return msgspec.structs.replace(costs, flush=(low + high) / 2)
