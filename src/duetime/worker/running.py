"""An attempt under way in this worker."""

import asyncio
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
        "attempt_log",
        "bucket",
        "claim_no",
        "claimed",
        "context",
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
        attempt_log: AttemptLog,
    ) -> None:
        self.claimed = claimed
        self.definition = definition
        self.lane = lane
        self.session = session
        self.claim_no = claim_no
        self.attempt_log = attempt_log
        self.stop: Stop | None = None
        self.reported = False
        """Whether its end has been told; a thread may go on after that, and keeps its slot."""
        self.bucket: int | None = None
        self.context: BaseContext | None = None
        self.task: asyncio.Task[None] | None = None
        self.handle: Any = None
        """What its place needs to stop it."""
