"""Tokens that a node has leased in advance from the buckets that all nodes share.

A request that finds tokens here waits for nothing. Under load the node asks for as many as it used recently, a few
times a second and before they run out. A caller waits only for the first ones, and one statement serves all waiting
callers. Tokens that are not used in time (`HELD`) are given back. An empty bucket is not asked again before it can have
filled, so a refusal costs no statement.
"""

import asyncio
import math
from collections import deque
from typing import NamedTuple
from uuid import UUID

from duetime.clock import monotonic
from duetime.model.token_bucket import HELD, TokenAsk
from duetime.process.loop import retrieve_error
from duetime.store.protocol.service import Allowances

_AHEAD = 0.2
"""Seconds of use to lease at a time, plus half as much again so that the tokens do not run out."""
_ASK_AGAIN = 0.1
"""Seconds until a bucket that could not give everything is asked again."""
_MOST = 10_000
"""The maximum number of leases."""


class Bucket(NamedTuple):
    tenant_id: int
    key_id: UUID | None
    """None: the bucket of the whole tenant."""
    rate: float
    size: float


class Taken(NamedTuple):
    left: int
    """The remaining tokens, as far as this node knows."""
    wait: float = 0.0
    """Seconds until enough tokens can be available; 0 when they were given."""


class _Lease:
    """This node's tokens of one bucket."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self.parts: deque[tuple[int, float]] = deque()
        """Tokens and their expiry, oldest first."""
        self.late = 0
        """Expired tokens."""
        self.level = bucket.size
        """The bucket's level when it was asked last."""
        self.asked_at = -math.inf
        self.short = math.inf
        """The need that the bucket could not meet when it was asked last."""
        self.spent = 0
        """Tokens used since."""
        self.wanted = 0
        """Tokens that callers wait for."""
        self.ahead = 0.0
        """Tokens to keep in stock, by recent use."""
        self.asking: asyncio.Task[None] | None = None

    def live(self, now: float) -> int:
        """Tokens that may be used."""
        while self.parts and self.parts[0][1] <= now:
            self.late += self.parts.popleft()[0]
        return sum(count for count, _ in self.parts)

    def use(self, count: int) -> None:
        self.spent += count
        while count:
            there, until = self.parts.popleft()
            if there > count:
                self.parts.appendleft((there - count, until))
            count -= min(there, count)

    def left(self, now: float) -> int:
        return self.live(now) + max(0, int(self.level))

    def wait(self, need: int, now: float) -> float:
        """Seconds until the bucket can hold so many again: only time fills it."""
        bucket = self.bucket
        missing = min(need, bucket.size) - (self.level + self.live(now) + self.late)
        filled_at = self.asked_at + missing / bucket.rate
        if need >= self.short:
            filled_at = max(filled_at, self.asked_at + _ASK_AGAIN)
        return max(0.0, filled_at - now)

    def update_forecast(self, now: float) -> None:
        """Update the forecast from what was used since the bucket was asked last."""
        self.ahead = min(self.bucket.size, 1.5 * self.spent * _AHEAD / max(now - self.asked_at, _AHEAD))
        self.spent = 0


class TokenLeases:
    held = HELD

    def __init__(self, store: Allowances) -> None:
        self._store = store
        self._leases: dict[tuple[int, UUID | None], _Lease] = {}

    async def take(self, bucket: Bucket, need: int) -> Taken:
        """Take so many tokens, or none."""
        lease = self._lease(bucket)
        now = monotonic()
        if lease.live(now) < need:
            lease.wanted += need
            try:
                wait = await self._fetch(lease, need)
            finally:
                lease.wanted -= need
            now = monotonic()
            if wait:
                return Taken(lease.left(now), wait)
        lease.use(need)
        if lease.asking is None and now - lease.asked_at >= _ASK_AGAIN and lease.live(now) < lease.ahead / 2:
            self._ask(lease, 0, now)
        return Taken(lease.left(now))

    def put_back(self, bucket: Bucket, count: int) -> None:
        """Return unused tokens to the bucket. A negative number takes tokens, also those that it does not have."""
        lease = self._lease(bucket)
        lease.spent = max(0, lease.spent - count)
        if count < 0:
            at_hand = min(-count, lease.live(monotonic()))
            lease.use(at_hand)
            count += at_hand
        lease.late += count

    async def give_back(self) -> None:
        """Give back expired tokens. Call it about once a second."""
        now = monotonic()
        idle = [lease for lease in self._leases.values() if lease.asking is None and now - lease.asked_at > HELD]
        for lease in idle:
            lease.live(now)
        late = [lease for lease in idle if lease.late]
        asks = [TokenAsk(*lease.bucket, need=0, want=0, back=lease.late) for lease in late]
        for lease in late:
            lease.late = 0
        if asks:
            await self._store.take_tokens(asks)

    async def close(self) -> None:
        """Leased tokens expire by themselves."""

    def _lease(self, bucket: Bucket) -> _Lease:
        key = bucket.tenant_id, bucket.key_id
        lease = self._leases.get(key)
        if lease is None:
            while len(self._leases) >= _MOST:
                del self._leases[next(iter(self._leases))]
            lease = self._leases[key] = _Lease(bucket)
        elif lease.bucket != bucket:
            lease.bucket, lease.asked_at = bucket, -math.inf  # the bucket's limit changed: the known level is invalid
        return lease

    async def _fetch(self, lease: _Lease, need: int) -> float:
        """Wait until this many tokens are available; returns the seconds to wait when they are not."""
        while True:
            now = monotonic()
            if lease.live(now) >= need:
                return 0.0
            if lease.asking is None:
                if wait := lease.wait(need, now):
                    return wait
                self._ask(lease, need, now)
            assert lease.asking is not None
            await asyncio.shield(lease.asking)

    def _ask(self, lease: _Lease, need: int, now: float) -> None:
        lease.asking = asyncio.create_task(self._asked(lease, need, now))
        lease.asking.add_done_callback(retrieve_error)

    async def _asked(self, lease: _Lease, need: int, now: float) -> None:
        lease.update_forecast(now)
        want = max(need, lease.wanted) + math.ceil(lease.ahead)
        held = lease.live(now)
        back, lease.late = lease.late, 0
        if need:  # more than one node may hold: taken as one, since only a full bucket may go into debt
            back += held
            lease.parts.clear()
        try:
            (grant,) = await self._store.take_tokens([TokenAsk(*lease.bucket, need, want, back)])
        finally:
            lease.asking = None
        lease.level, lease.asked_at = grant.level, now
        lease.short = math.inf if grant.given >= want else need if not grant.given else 1
        if grant.given:
            lease.parts.append((grant.given, now + HELD))
