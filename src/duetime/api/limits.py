"""How many jobs a tenant may submit: a bucket for each, filled at its rate, on this server.

A request is let in while the bucket holds at least one, and takes what it submits, below zero if need be: a large batch
is paid for by the wait after it. With several servers each keeps buckets of its own.
"""

import math

from duetime.api.problems import RATE_LIMITED, Problem
from duetime.clock import monotonic
from duetime.model.tenant import Tenant

BURST = 2.0
"""Seconds' worth that a bucket holds."""
_MOST = 10_000


class _Bucket:
    __slots__ = ("filled_at", "level")

    def __init__(self, level: float, filled_at: float) -> None:
        self.level = level
        self.filled_at = filled_at


class Limits:
    def __init__(self) -> None:
        self._buckets: dict[int, _Bucket] = {}

    def spend(self, tenant: Tenant, count: int) -> dict[str, str]:
        """Take `count` submissions; returns what the caller is told of the limit. Raises a problem when there are none
        left."""
        rate = tenant.limits.submissions_per_second
        if rate is None:
            return {}
        now = monotonic()
        size = max(1.0, rate * BURST)
        bucket = self._bucket(tenant.id, size, now)
        bucket.level = min(size, bucket.level + (now - bucket.filled_at) * rate)
        bucket.filled_at = now
        if bucket.level < 1.0:
            wait = math.ceil((1.0 - bucket.level) / rate) if rate > 0 else 3600
            told = _told(rate, 0, wait) | {"retry-after": str(wait)}
            raise Problem(
                RATE_LIMITED,
                f"the tenant may submit {rate:g} jobs a second",
                remedy=f"ask again in {wait} s, or submit in batches",
                headers=told,
            )
        bucket.level -= count
        return _told(rate, max(0, math.floor(bucket.level)), math.ceil((size - bucket.level) / rate))

    def _bucket(self, tenant_id: int, size: float, now: float) -> _Bucket:
        bucket = self._buckets.get(tenant_id)
        if bucket is None:
            if len(self._buckets) >= _MOST:
                self._buckets.clear()
            bucket = self._buckets[tenant_id] = _Bucket(size, now)
        return bucket


def _told(rate: float, left: int, reset: int) -> dict[str, str]:
    return {"ratelimit-limit": f"{rate:g}", "ratelimit-remaining": str(left), "ratelimit-reset": str(reset)}
