"""An attempt under way in this worker. One is made for every run, so it holds little and makes the rest when asked."""

import asyncio
from collections.abc import Callable
from enum import Enum
from typing import Any

from duetime.model.attempt import Claimed
from duetime.model.lane import LaneKey
from duetime.worker.attempt_log import AttemptLog
from duetime.worker.context import BaseContext
from duetime.worker.session import Session
from duetime.worker.task import TaskDefinition


class Stop(Enum):
    """Why an attempt is asked to end before its time."""

    TIMEOUT = "timeout"
    CANCEL = "cancel"
    SHUTDOWN = "shutdown"
    LEASE_LOST = "lease lost"


class Running:
    __slots__ = (
        "_log",
        "_make_context",
        "_max_log_lines",
        "_ready_context",
        "bucket",
        "claim_no",
        "claimed",
        "definition",
        "handle",
        "lane",
        "reported",
        "session",
        "stop",
        "task",
    )

    def __init__(
        self,
        claimed: Claimed,
        definition: TaskDefinition,
        lane: LaneKey,
        session: Session,
        claim_no: int,
        max_log_lines: int,
        make_context: Callable[["Running"], BaseContext] | None = None,
    ) -> None:
        self.claimed = claimed
        self.definition = definition
        self.lane = lane
        self.session = session
        self.claim_no = claim_no
        self.stop: Stop | None = None
        self.reported = False
        """Whether its end has been told; a thread may go on after that, and keeps its slot."""
        self.bucket: int | None = None
        self.task: asyncio.Task[None] | None = None
        self.handle: Any = None
        """What its place needs to stop it."""
        self._max_log_lines = max_log_lines
        self._log: AttemptLog | None = None
        self._make_context = make_context
        self._ready_context: BaseContext | None = None

    @property
    def attempt_log(self) -> AttemptLog:
        if self._log is None:
            self._log = AttemptLog(self.lane.task, self._max_log_lines)
        return self._log

    def logs(self) -> bytes | None:
        """What was logged so far."""
        return None if self._log is None else self._log.encoded()

    def prepare(self, make_context: Callable[["Running"], BaseContext]) -> None:
        self._make_context = make_context

    def context(self) -> BaseContext:
        if self._ready_context is None:
            assert self._make_context is not None
            self._ready_context = self._make_context(self)
        return self._ready_context

    @property
    def context_if_made(self) -> BaseContext | None:
        return self._ready_context
