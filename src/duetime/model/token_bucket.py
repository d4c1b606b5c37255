"""Token buckets: how much of something may be used per time, however many processes share the allowance.

A bucket fills at its rate up to its size. Processes take tokens in advance, use them within `HELD` seconds, and give
back the rest. So in any t seconds, all together use at most rate * (t + HELD) + size tokens.

A need that exceeds the size is met by a full bucket, which then goes into debt: nothing is given until it has filled.
"""

from typing import NamedTuple
from uuid import UUID

HELD = 0.5
"""Seconds for which tokens may be used after they were requested."""
_ROUNDING = 1e-6


class TokenAsk(NamedTuple):
    """What a process requests from one bucket."""

    tenant_id: int
    key_id: UUID | None
    """None: the bucket of the whole tenant."""
    rate: float
    """Tokens per second."""
    size: float
    need: int
    """If fewer than this are available, none are given."""
    want: int
    """The maximum to give."""
    back: int = 0
    """Unused tokens that are given back."""


class TokenGrant(NamedTuple):
    given: int
    level: float
    """What is left; negative for a debt."""


def take(ask: TokenAsk, level: float, elapsed: float) -> TokenGrant:
    """What a bucket gives that had `level` tokens `elapsed` seconds ago."""
    level = min(ask.size, level + max(0.0, elapsed) * ask.rate + ask.back)
    given = 0
    if level + _ROUNDING >= min(ask.need, ask.size):
        given = max(ask.need, min(ask.want, int(level + _ROUNDING)))
    return TokenGrant(given, level - given)
