"""Breakers in answers."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from duetime.spec.fields import Request, Text


class BreakerView(Struct, frozen=True):
    target: str
    state: Literal["closed", "open", "probing", "recovering"]
    since: datetime
    until: datetime | None
    """When it probes, or closes for good."""
    trips: int
    """How often it has opened since it was last closed."""
    tried: int
    failed: int
    retried: int
    """Attempts at the target within 30 seconds: all, failed, and retries."""


class BreakerList(Struct, frozen=True):
    items: tuple[BreakerView, ...]


class BreakerReset(Request, frozen=True):
    target: Text
