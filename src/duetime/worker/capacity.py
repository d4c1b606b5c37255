"""The capacity of a worker."""

from datetime import timedelta

import msgspec

from duetime.model.breaker import BreakerPolicy


class WorkerLimits(msgspec.Struct, frozen=True):
    """How many runs a worker accepts, and its time limits."""

    slots: int = 200
    threads: int = 16
    processes: int = 2
    queues: tuple[str, ...] = ()
    lease: timedelta = timedelta(seconds=15)
    heartbeat: timedelta = timedelta(seconds=5)
    grace: timedelta = timedelta(seconds=30)
    poll: timedelta = timedelta(milliseconds=500)
    max_result: int = 64 * 1024
    max_log_lines: int = 200
    strict: bool = False
    """Whether a higher tier always goes first, instead of by shares."""
    breakers: BreakerPolicy = BreakerPolicy()
    calls: int = 500
    """How many targets a worker with targets calls at once, and how many commands it runs."""
    commands: int = 4
    cluster_jobs: int = 200
    """How many Jobs of Kubernetes it tracks at once."""
    heartbeat_thread: bool = True
    """False in a simulation, which has a single event loop."""
