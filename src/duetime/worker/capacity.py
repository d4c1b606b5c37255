"""How much a worker takes on."""

from datetime import timedelta

import msgspec

from duetime.model.breaker import BreakerPolicy


class WorkerLimits(msgspec.Struct, frozen=True):
    """How much a worker takes on, and how long things may take."""

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
    """How many targets are called at once, and how many commands run, by a worker that has targets."""
    commands: int = 4
    heartbeat_thread: bool = True
    """Off in a simulation, where one event loop is all that runs."""
