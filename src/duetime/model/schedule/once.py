"""One run: now, at a moment, or after a delay."""

from datetime import datetime, timedelta

import msgspec


class Once(msgspec.Struct, frozen=True, tag="once", omit_defaults=True):
    """One run: at a moment, or after a delay counted on the database's clock; now when neither is given."""

    at: datetime | None = None
    delay: timedelta | None = None


NOW = Once()
