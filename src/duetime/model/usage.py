"""What a tenant has used: by the UTC day on which its attempts finished, and by queue."""

from datetime import date

import msgspec


class Usage(msgspec.Struct, frozen=True):
    tenant_id: int
    day: date
    queue: str | None
    """None: all queues together."""
    runs: int
    """Runs that ended, except for skipped ones."""
    failed: int
    """Those among them that failed."""
    attempts: int
    """Attempts that started."""
    seconds: float
    """How long all attempts ran together."""
    bytes: int
    """Arguments, results, logs and errors, as they are stored."""
    final: bool
    """Whether the day is over and was counted since."""
