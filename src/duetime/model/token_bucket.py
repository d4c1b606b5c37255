"""Token buckets: how much of something may be used in a time, however many processes share the allowance.

A bucket fills at its rate up to its size. Processes take tokens ahead of need, use them within `HELD` seconds, and give
back what is left. So in any stretch of t seconds, all together use at most rate * (t + HELD) + size tokens.

A need that exceeds the size is met by a full bucket, which then owes the rest: nothing is given until it has filled.
"""

from typing import NamedTuple
from uuid import UUID

HELD = 0.5
"""Seconds for which tokens may be used after they were asked for."""
_ROUNDING = 1e-6


class TokenAsk(NamedTuple):
    """What a process asks of one bucket."""

    tenant_id: int
    key_id: UUID | None
    """None: the bucket of the tenant as a whole."""
    rate: float
    """Tokens a second."""
    size: float
    need: int
    """Without as many as this, none are given."""
    want: int
    """As many as this are given where there are as many."""
    back: int = 0
    """Tokens that were given before, and are not used."""


class TokenGrant(NamedTuple):
    given: int
    level: float
    """What is left; below zero, what the bucket owes."""


def take(ask: TokenAsk, level: float, elapsed: float) -> TokenGrant:
    """What a bucket gives that had `level` tokens `elapsed` seconds ago."""
    level = min(ask.size, level + max(0.0, elapsed) * ask.rate + ask.back)
    given = 0
    if level + _ROUNDING >= min(ask.need, ask.size):
        given = max(ask.need, min(ask.want, int(level + _ROUNDING)))
    return TokenGrant(given, level - given)
