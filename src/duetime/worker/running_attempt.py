"""An attempt in progress in this worker. One is created for every run, so it holds little and creates the rest on
demand."""

import asyncio
from collections.abc import Callable
from enum import Enum
from threading import Lock
from typing import Any

import msgspec

from duetime.clock import monotonic
from duetime.model.attempt import Claimed
from duetime.model.job import decode_options
from duetime.model.lane import LaneKey
from duetime.model.tracing import stored_traceparent
from duetime.telemetry.traces import AttemptSpan
from duetime.worker.attempt_log import AttemptLog
from duetime.worker.context import BaseContext
from duetime.worker.session import Session
from duetime.worker.task import TaskDefinition

START_ALLOWANCE = 20.0
"""Seconds that a run may wait for its start before its timeout counts anyway: the reaper counts from the claim, and
frees runs that are 30 s past their timeout."""


_making = Lock()


class Stop(Enum):
    """Why an attempt is asked to stop early."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    SHUTDOWN = "shutdown"
    LEASE_LOST = "lease lost"


class Running(msgspec.Struct, eq=False):
    claimed: Claimed
    definition: TaskDefinition
    lane: LaneKey
    session: Session
    claim_no: int
    max_log_lines: int
    stop: Stop | None = None
    reported: bool = False
    """Whether its end has been reported. A thread may go on after that, and keeps its slot."""
    bucket: int | None = None
    """The bucket of its deadline."""
    task: asyncio.Task[None] | None = None
    handle: Any = None
    """What its executor needs to stop it."""
    span: AttemptSpan | None = None
    """Set when it is traced."""
    began: float = 0.0
    """When its timeout began to count, on the monotonic clock: at its claim, or in a child process at its start."""
    begun: bool = False
    """Whether its function was called, or may have been."""
    false_starts: int = 0
    """How many child processes died before they called the function."""
    make_context: Callable[["Running"], BaseContext] | None = None
    log: AttemptLog | None = None
    log_lines_sent: int = 0
    """How many of its log lines have been sent while it runs."""
    context_if_made: BaseContext | None = None
    error: BaseException | None = None
    """What its function raised in this process, until that is reported."""

    def begin_in_time(self) -> None:
        """The function is called now. Time spent waiting until now does not count."""
        self.began = self.counts_from()
        self.begun = True

    def counts_from(self) -> float:
        """When its timeout began to count. Before its function is called: when it would begin if that were now."""
        return self.began if self.begun else min(monotonic(), self.began + START_ALLOWANCE)

    @property
    def may_start_again(self) -> bool:
        """Whether a worker that stops may hand it back."""
        return not self.begun or not decode_options(self.claimed.options).at_most_once

    @property
    def must_not_expire(self) -> bool:
        """Whether a worker that stops must say that it has started. Handed back as if it had not been claimed, it could
        expire."""
        return self.begun and decode_options(self.claimed.options).expires_in is not None

    @property
    def attempt_log(self) -> AttemptLog:
        if self.log is None:
            self.log = AttemptLog(self.lane.task, self.max_log_lines)
        return self.log

    @property
    def traceparent(self) -> str | None:
        return stored_traceparent(self.claimed) if self.span is None else self.span.traceparent

    def logs(self) -> bytes | None:
        """The log so far."""
        return None if self.log is None else self.log.encoded()

    def context(self) -> BaseContext:
        if self.context_if_made is None:
            with _making:  # a thread may ask for it while its run is being stopped
                if self.context_if_made is None:
                    self.context_if_made = self._new_context()
        return self.context_if_made

    def _new_context(self) -> BaseContext:
        assert self.make_context is not None
        context = self.make_context(self)
        context.tenant_id = self.lane.tenant_id
        context.traceparent = self.traceparent
        return context
