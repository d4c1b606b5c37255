"""One attempt of a run with a target, as the executors of targets need it."""

from collections.abc import Callable
from uuid import UUID

import msgspec

from duetime.clock import Clock, SystemClock
from duetime.ids import show
from duetime.model.attempt import Claimed
from duetime.targets.redaction import Redactor


class TargetAttempt(msgspec.Struct, frozen=True):
    tenant_id: int
    claimed: Claimed
    message_id: str
    """The run's id: the same for every attempt, so that a receiver can detect a repetition."""
    limit: float
    """Seconds for everything: from name resolution to the last byte of the answer."""
    log: Callable[[str], None] = lambda text: None
    """Adds a line to the log of the run."""
    goes_on: Callable[[], bool] = lambda: False
    """For a cancelled attempt: whether another worker goes on with what it has started."""
    clock: Clock = SystemClock()
    redactor: Redactor = msgspec.field(default_factory=Redactor)
    """Knows the sent secrets, which must not be shown."""

    @property
    def run_id(self) -> UUID:
        return self.claimed.run_id

    @property
    def timestamp(self) -> int:
        return int(self.clock.now().timestamp())

    def headers(self) -> dict[str, str]:
        """The headers about the run that every receiver gets."""
        claimed = self.claimed
        return {
            "idempotency-key": self.message_id,
            "duetime-job": show("job", claimed.job_id),
            "duetime-attempt": str(claimed.attempt),
            "duetime-due-at": claimed.due_at.isoformat(),
            "traceparent": f"00-{claimed.run_id.hex}-{claimed.fence & 0xFFFF_FFFF_FFFF_FFFF or 1:016x}-01",
        }
