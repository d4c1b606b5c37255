"""Breakers as answers have them."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from duetime.spec.fields import Request, Text


class BreakerView(Struct, frozen=True):
    target: str
    state: Literal["closed", "open", "probing", "recovering"]
    since: datetime
    until: datetime | None
    """When it probes, or is closed for good."""
    trips: int
    """How often it has opened since it was closed."""
    tried: int
    failed: int
    retried: int
    """Attempts at the target within 30 seconds, of which so many failed, and so many were retries."""


class BreakerList(Struct, frozen=True):
    items: tuple[BreakerView, ...]


class BreakerReset(Request, frozen=True):
    target: Text
