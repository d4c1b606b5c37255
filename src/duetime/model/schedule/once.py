"""One run: now, at a moment, or after a delay."""

from datetime import datetime, timedelta

import msgspec


class Once(msgspec.Struct, frozen=True, tag="once", omit_defaults=True):
    """One run: at a moment, or after a delay counted on the database's clock; now when neither is given."""

    at: datetime | None = None
    delay: timedelta | None = None
    asked: datetime | None = None
    """The requested wall time, if a clock change of `place` makes it missing or ambiguous."""
    place: str | None = None


NOW = Once()
