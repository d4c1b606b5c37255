"""The state that handlers share: the store and the components in front of it."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from duetime.api.archive_runs import ArchiveRuns
from duetime.api.audit_trail import AuditTrail
from duetime.api.authentication import Gate
from duetime.api.browser_sessions import Sessions
from duetime.api.event_feed import EventHub
from duetime.api.failed_logins import FailedLogins
from duetime.api.job_maker import JobMaker
from duetime.api.lookup_cache import Memory
from duetime.api.metrics import Metrics
from duetime.api.page_cursors import Cursors
from duetime.api.peer import Front
from duetime.api.ping_limits import PingLimits
from duetime.api.readiness import Readiness
from duetime.api.replica import Replica
from duetime.api.secret_access import KnownSecrets
from duetime.api.sso.login_flow import LoginFlow
from duetime.api.task_registry import Tasks
from duetime.api.usage_limits import Limits
from duetime.archive.archive import archive_of
from duetime.archive.archived_store import with_archive
from duetime.clock import monotonic
from duetime.engine.alarm import SERVED
from duetime.engine.breaker_timer import breaker_policy
from duetime.engine.quota import Quota
from duetime.engine.quota_store import with_quotas
from duetime.engine.stream_store import with_streams
from duetime.engine.streaming import Streaming
from duetime.engine.submit_batcher import SubmitBatcher
from duetime.engine.worker_gateway import WorkerGateway
from duetime.errors import StoreError
from duetime.model.demand import Activity, Coming
from duetime.model.scope import Scope
from duetime.model.tenant import Tenant
from duetime.process.compute_thread import ComputeThread
from duetime.settings import Settings
from duetime.store.address import replica_for, sealer_of
from duetime.store.protocol.store import Store
from duetime.targets.completion_link import CompletionLinks
from duetime.targets.validation import TargetRules
from duetime.targets.vault import Vault
from duetime.telemetry.meters import Meters
from duetime.telemetry.traces import Tracer
from duetime.wire.demand import DemandView
from duetime.wire.figures import Fires, Stats

_INTERVAL = 1.0
_SERVED_EVERY = 5.0
"""Seconds between records that a server is up."""


class Service:
    def __init__(
        self, store: Store, settings: Settings, *, meters: Meters | None = None, tracer: Tracer | None = None
    ) -> None:
        self.streaming = Streaming()
        self.store = with_streams(with_quotas(store, Quota()), self.streaming)
        replica = replica_for(settings, store)
        self.replica = None
        if replica is not None:
            read = with_streams(with_archive(replica, settings), self.streaming)
            self.replica = Replica(read, settings.replica_max_lag.total_seconds())
        self.settings = settings
        self.front = Front(settings)
        self.sessions = Sessions(store, settings)
        self.gateway = WorkerGateway(
            store, poll=settings.poll, strict=settings.priorities == "strict", breakers=breaker_policy(settings)
        )
        self.metrics = Metrics(Meters() if meters is None else meters)
        self.tracer = tracer
        self.limits = Limits(store.allowances, settings, self.metrics.limited)
        self.failed_logins = FailedLogins(settings.failed_logins, self.metrics.limited)
        self.ping_limits = PingLimits(self.metrics.limited)
        self.cursors = Cursors(store)
        self.trail = AuditTrail(store)
        self.tasks = Tasks(store, settings)
        self.intake = SubmitBatcher(self.store, self.streaming.carrying)
        self.sealer = sealer_of(store, settings)
        self.vault = Vault(store, self.sealer)
        self.archive = archive_of(store, settings)
        self.archive_runs = None if self.archive is None else ArchiveRuns(store, self.archive)
        self.targets = TargetRules(settings)
        self.gate = Gate(store, settings, self.targets.guard)
        self.login_flow = LoginFlow(store, settings, self.gate.identities)
        self.secrets = KnownSecrets(store, self.targets)
        self.links = CompletionLinks(store.tenants)
        self.events = EventHub(store)
        self.when_bulk_is_put: Callable[[], None] = lambda: None
        """Wakes the runner of bulk actions, where this process has one."""
        self.readiness = Readiness(self.store)
        self.seen_stats: Memory[tuple[Any, ...], Stats] = Memory(1.0)
        self.held_slots: Memory[None, dict[UUID, int]] = Memory(5.0)
        self.seen_fires: Memory[tuple[Any, ...], Fires] = Memory(10.0)
        self.seen_demand: Memory[tuple[Any, ...], DemandView] = Memory(5.0)
        self.seen_activity: Memory[bool, Activity] = Memory(5.0)
        self.seen_coming: Memory[int, Coming] = Memory(10.0)
        self.seen_durations: Memory[tuple[int, str], float | None] = Memory(3600.0)
        """Seconds that runs of a queue take on average; None: not known."""
        self.computing = ComputeThread()
        self._served_at = -_SERVED_EVERY
        self.stopping = asyncio.Event()
        """Set when the server is asked to stop: event streams end."""

    async def job_maker(
        self, tenant: Tenant, tasks: Iterable[str | None], *, scope: Scope | None = None, now: datetime | None = None
    ) -> JobMaker:
        """What makes the jobs of a request of this tenant, which names these tasks."""
        known = await self.tasks.known(tenant.id)
        return JobMaker(
            tenant_id=tenant.id,
            max_payload=self.settings.max_payload,
            targets=self.targets,
            usual=tenant.defaults,
            known=known,
            checks=await self.tasks.argument_checks(known, tasks),
            now=now,
            scope=scope,
        )

    async def close(self) -> None:
        """Write what is pending, and close everything but the store."""
        if self.archive_runs is not None:
            await self.archive_runs.close()
        await self.events.close()
        await self.gate.tokens.close()
        await self.gate.identities.close()
        if self.replica is not None:
            await self.replica.close()
        await self.streaming.close()
        self.computing.close()
        with contextlib.suppress(StoreError):  # already logged by the loops that need the store
            await self.tick()
        await self.limits.tokens.close()

    async def tick(self) -> float:
        """Write what is collected for a second: submissions in the audit trail, the last use of keys and sessions.
        Return unused tokens of rate limits. Record that pings can arrive. Read the kinds of queues, so that no
        submission waits for it."""
        await self.streaming.kinds.renew(self.store.streams)
        if monotonic() >= self._served_at + _SERVED_EVERY:
            await self.store.clocks.keep_served(SERVED)
            self._served_at = monotonic()
        await self.trail.flush()
        await self.limits.tokens.give_back()
        used = self.gate.used()
        if used:
            await self.store.access.touch_keys(used)
        used = self.gate.used_sessions()
        if used:
            await self.sessions.touch(used)
        return _INTERVAL
