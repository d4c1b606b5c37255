"""Rate limits: how much of the service a tenant and a key may use.

`limit_of` says which limit an endpoint counts against. Submissions are limited exactly across all servers: tokens are
leased from the store (`engine/token_leases.py`), or taken from Redis (`engine/redis_buckets.py`). Each server counts
everything else for itself, because those limits protect the server. A request that makes runs of stored jobs
(trigger, backfill, retry, replay) is a change, and counts as a submission of so many jobs, too. What is created is
what counts (`Call.submitting`): a repeated request creates nothing. A key may use a part of its tenant's limit. A
root key belongs to no tenant and has its own limits, so that a tenant at its limit does not lock its operator out.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple
from uuid import UUID

from duetime.api.caller import Caller
from duetime.api.endpoint import Endpoint
from duetime.api.problems import RATE_LIMITED, Problem
from duetime.api.ratelimit_fields import Standings
from duetime.clock import monotonic
from duetime.engine.redis_buckets import RedisBuckets, Tokens
from duetime.engine.token_leases import Bucket, TokenLeases
from duetime.model.access import Action, Role
from duetime.model.tenant import Tenant
from duetime.settings import Settings
from duetime.store.protocol.service import Allowances

LimitName = Literal["reads", "changes", "work", "submissions", "streams", "polls", "logins"]

_PEOPLE = UUID(int=1)
"""Stands for the key of all people of identity providers together, where submissions are counted."""
BURST = 2.0
"""Seconds of the rate that may be used at once."""
_MOST = 10_000
"""Tenants and keys that are counted. The oldest are forgotten first, and start again."""
_NOW_AND_THEN = 1.0
"""Seconds to wait for one of the open requests to end."""


class Limit(NamedTuple):
    words: str
    """What it counts, for error messages."""
    setting: str | None = None
    """The setting with the limit of a tenant on one server; None: it is not a setting."""
    at_once: bool = False
    """It limits open requests, not a rate."""


LIMITS: dict[LimitName, Limit] = {
    "reads": Limit("requests that read", "reads_per_second"),
    "changes": Limit("requests that change something", "changes_per_second"),
    "work": Limit("requests of workers", "worker_requests_per_second"),
    "streams": Limit("event streams", "event_streams", at_once=True),
    "polls": Limit("waiting claims", "long_polls", at_once=True),
    "submissions": Limit("jobs"),  # by the tenant's own `submissions_per_second`
    "logins": Limit("failed authentications"),  # by address: see `failed_logins.py`
}
_BY_NAME: dict[str, LimitName] = {
    "create_job": "submissions",
    "create_jobs": "submissions",
    "create_graph": "submissions",
    "watch_events": "streams",
    "claim_runs": "polls",
    "login": "logins",
    "login_with_key": "logins",
    "begin_sso_login": "logins",
    "finish_sso_login": "logins",
}
_BY_ACTION: dict[Action, LimitName] = {Action.READ: "reads", Action.READ_AUDIT: "reads", Action.WORK: "work"}


def limit_of(endpoint: Endpoint) -> LimitName | None:
    """The limit that a request counts against; None for endpoints that need no key."""
    if endpoint.name in _BY_NAME:
        return _BY_NAME[endpoint.name]
    if endpoint.may is None:
        return None
    return "reads" if endpoint.method == "GET" else _BY_ACTION.get(endpoint.may, "changes")


class _Allowance(NamedTuple):
    """The limit of a tenant or a key."""

    holder: Literal["tenant", "key"]
    id: int | UUID
    most: float


class _Bucket:
    __slots__ = ("filled_at", "level")

    def __init__(self, level: float, filled_at: float) -> None:
        self.level = level
        self.filled_at = filled_at


class Limits:
    def __init__(self, store: Allowances, settings: Settings, on_refusal: Callable[[str], None]) -> None:
        self._settings = settings
        self._on_refusal = on_refusal
        self._buckets: dict[tuple[str, int | UUID], _Bucket] = {}
        self._open: dict[tuple[str, int | UUID], int] = {}
        self.tokens: Tokens = TokenLeases(store) if settings.limits_url is None else RedisBuckets(settings.limits_url)

    def spend(self, name: LimitName, who: Caller) -> dict[str, str]:
        """Count a request. Returns the headers with the state of the limit; raises a problem if it is reached."""
        now = monotonic()
        standings = Standings()
        spent: list[_Bucket] = []
        for holder, holder_id, rate in self._allowances(name, who):
            size = rate * BURST
            bucket = self._bucket(name, holder_id, size, now)
            bucket.level = min(size, bucket.level + (now - bucket.filled_at) * rate)
            bucket.filled_at = now
            if _is_reported(holder, who):
                standings.add_rate(f"{holder}-{name}", rate, size, bucket.level - 1.0)
            if bucket.level < 1.0:
                message = f"the {holder} may send {rate:g} {LIMITS[name].words} a second to this server"
                raise self._refusal(name, message, standings, (1.0 - bucket.level) / rate)
            spent.append(bucket)
        for bucket in spent:
            bucket.level -= 1.0
        return standings.fields()

    @contextmanager
    def opened(self, name: LimitName, who: Caller) -> Iterator[dict[str, str]]:
        """Like `spend`, for a request that counts as long as the block lasts."""
        standings = Standings()
        held: list[tuple[str, int | UUID]] = []
        for holder, holder_id, most in self._allowances(name, who):
            place: tuple[str, int | UUID] = (name, holder_id)
            left = int(most) - self._open.get(place, 0)
            if _is_reported(holder, who):
                standings.add_at_once(f"{holder}-{name}", int(most), left - 1)
            if left < 1:
                message = f"the {holder} may have {most:g} {LIMITS[name].words} open at once on this server"
                raise self._refusal(name, message, standings, _NOW_AND_THEN)
            held.append(place)
        for place in held:
            self._open[place] = self._open.get(place, 0) + 1
        try:
            yield standings.fields()
        finally:
            for place in held:
                self._open[place] -= 1
                if not self._open[place]:
                    del self._open[place]

    async def submit(self, tenant: Tenant, who: Caller, count: int) -> dict[str, str]:
        """Like `spend`, for a number of jobs, counted exactly across all servers."""
        most = tenant.limits.submissions_per_second
        if most is None:
            return {}
        standings = Standings()
        taken: list[Bucket] = []
        for bucket in self._submission_buckets(tenant, who, most):
            rate = bucket.rate
            holder = "tenant" if bucket.key_id is None else "key"
            left, wait = await self.tokens.take(bucket, count)
            if _is_reported(holder, who) and who.issuer_id is None:
                standings.add_rate(f"{holder}-submissions", rate, bucket.size, left)
            if wait:
                for other in taken:
                    self.tokens.put_back(other, count)
                message = f"the {holder} may submit {rate:g} jobs a second"
                raise self._refusal("submissions", message, standings, wait)
            taken.append(bucket)
        return standings.fields()

    def settle(self, tenant: Tenant, who: Caller, difference: int) -> None:
        """Return jobs that were counted and not created. A negative number counts more, as a debt: they exist."""
        most = tenant.limits.submissions_per_second
        if most is not None and difference:
            for bucket in self._submission_buckets(tenant, who, most):
                self.tokens.put_back(bucket, difference)

    def _submission_buckets(self, tenant: Tenant, who: Caller, most: float) -> list[Bucket]:
        share = self._settings.key_submission_share
        holder_id = who.key_id or who.issuer_id or _PEOPLE  # users of an issuer together: each bucket is a row
        parts = [(None, 1.0)] if share == 100 or who.role is Role.ROOT else [(holder_id, share / 100), (None, 1.0)]
        # Tokens that nodes hold come on top.
        return [
            Bucket(tenant.id, key_id, most * part, max(1.0, most * part * (BURST - self.tokens.held)))
            for key_id, part in parts
        ]

    def _allowances(self, name: LimitName, who: Caller) -> list[_Allowance]:
        setting = LIMITS[name].setting
        assert setting is not None
        most: int = getattr(self._settings, setting)
        counted = who.counts_as
        if not most or counted is None:
            return []
        if who.role is Role.ROOT:
            return [_Allowance("key", counted, most)]
        found = [_Allowance("tenant", who.tenant_id, most)]
        if self._settings.key_share < 100:
            found.insert(0, _Allowance("key", counted, max(1.0, most * self._settings.key_share / 100)))
        return found

    def _bucket(self, name: LimitName, holder_id: int | UUID, size: float, now: float) -> _Bucket:
        bucket = self._buckets.get((name, holder_id))
        if bucket is None:
            if len(self._buckets) >= _MOST:
                del self._buckets[next(iter(self._buckets))]
            bucket = self._buckets[name, holder_id] = _Bucket(size, now)
        return bucket

    def _refusal(self, name: LimitName, message: str, standings: Standings, wait: float) -> Problem:
        self._on_refusal(name)
        headers = standings.fields(wait)
        remedy = f"retry in {headers['retry-after']} s"
        if name == "submissions":
            remedy += ", or ask the operator for a higher limit"
        return Problem(RATE_LIMITED, message, remedy=remedy, headers=headers)


def _is_reported(holder: str, who: Caller) -> bool:
    """Whether the headers say how much is left: to a caller with a scope, not what it shares with other owners."""
    return holder == "key" or who.scope is None
