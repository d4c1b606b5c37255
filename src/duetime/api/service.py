"""What the handlers of a server share: the store, and everything that stands between it and the callers."""

import asyncio
import contextlib
from typing import Any

from duetime.api.cursors import Cursors
from duetime.api.events import EventHub
from duetime.api.failed_logins import FailedLogins
from duetime.api.gate import Gate
from duetime.api.limits import Limits
from duetime.api.memory import Memory
from duetime.api.metrics import Metrics
from duetime.api.peer import Front
from duetime.api.secrets import KnownSecrets
from duetime.api.sessions import Sessions
from duetime.api.tasks import Tasks
from duetime.api.trail import Trail
from duetime.computing import Computing
from duetime.engine.bounded import BoundedStore
from duetime.engine.breakers import breaker_policy
from duetime.engine.desk import Desk
from duetime.engine.gathering import Gatherer
from duetime.engine.quota import Quota
from duetime.errors import StoreError
from duetime.settings import Settings
from duetime.store.opening import sealer_of
from duetime.store.protocol import Store
from duetime.targets.checking import TargetRules
from duetime.targets.completion_link import CompletionLinks
from duetime.targets.vault import Vault
from duetime.telemetry.meters import Meters
from duetime.telemetry.traces import Tracer
from duetime.wire.figures import Fires, Stats

_INTERVAL = 1.0


class Service:
    def __init__(
        self, store: Store, settings: Settings, *, meters: Meters | None = None, tracer: Tracer | None = None
    ) -> None:
        self.store = BoundedStore(store, Quota()).as_store
        self.settings = settings
        self.front = Front(settings)
        self.sessions = Sessions(store, settings)
        self.gate = Gate(store)
        self.desk = Desk(
            store, poll=settings.poll, strict=settings.priorities == "strict", breakers=breaker_policy(settings)
        )
        self.metrics = Metrics(Meters() if meters is None else meters)
        self.tracer = tracer
        self.limits = Limits(store, settings, self.metrics.limited)
        self.failed_logins = FailedLogins(settings.failed_logins, self.metrics.limited)
        self.cursors = Cursors(store)
        self.trail = Trail(store)
        self.tasks = Tasks(store, settings)
        self.intake = Gatherer(self.store)
        self.sealer = sealer_of(store, settings)
        self.vault = Vault(store, self.sealer)
        self.targets = TargetRules(settings)
        self.secrets = KnownSecrets(store, self.targets.guard)
        self.links = CompletionLinks(store)
        self.events = EventHub(store)
        self.seen_writable: Memory[bool, bool] = Memory(10.0)
        self.seen_stats: Memory[tuple[Any, ...], Stats] = Memory(1.0)
        self.seen_fires: Memory[tuple[Any, ...], Fires] = Memory(10.0)
        self.computing = Computing()
        self.stopping = asyncio.Event()
        """Set when the server is asked to stop: answers without an end come to one."""

    async def close(self) -> None:
        """Write down what is left, and let go of everything but the store."""
        await self.events.close()
        self.computing.close()
        with contextlib.suppress(StoreError):  # it is told to the log by whoever needed the store before us
            await self.tick()

    async def tick(self) -> float:
        """Write down what may be written together: submissions for the audit trail, which keys and sessions were used;
        give back what is left of allowances."""
        await self.trail.flush()
        await self.limits.give_back()
        used = self.gate.used()
        if used:
            await self.store.touch_keys(used)
        used = self.gate.used_sessions()
        if used:
            await self.sessions.touch(used)
        return _INTERVAL
