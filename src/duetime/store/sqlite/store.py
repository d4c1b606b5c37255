"""The SQLite store, composed of its roles. Each role is a file; what they share is in `role.py`."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from duetime.clock import Clock, SystemClock
from duetime.model.lane import LANES_PER_TENANT
from duetime.store.protocol.store import Hint, Store
from duetime.store.shared.clocks import ClockRole
from duetime.store.shared.figures import FigureRole
from duetime.store.shared.hand_over import HandOverRole
from duetime.store.shared.roles import shared_roles
from duetime.store.shared.survey import SurveyRole
from duetime.store.shared.tenancy import TenancyRole
from duetime.store.shared.workers import WorkerRole
from duetime.store.sqlite.allowances import AllowanceRole
from duetime.store.sqlite.archives import ArchiveRole
from duetime.store.sqlite.caller_transaction import CallerTransactionRole
from duetime.store.sqlite.completing import CompletingRole
from duetime.store.sqlite.database import Database
from duetime.store.sqlite.dealer_claims import DealerClaimsRole
from duetime.store.sqlite.erasures import ErasureRole
from duetime.store.sqlite.firing import FiringRole
from duetime.store.sqlite.held_runs import HeldRunsRole
from duetime.store.sqlite.intake import IntakeRole
from duetime.store.sqlite.leasing import LeasingRole
from duetime.store.sqlite.pruning import PruningRole
from duetime.store.sqlite.reaping import ReapingRole
from duetime.store.sqlite.recent import RecentRole, SqliteDemandRole, SqliteTrendRole
from duetime.store.sqlite.role import Context
from duetime.store.sqlite.schema import SchemaRole
from duetime.store.sqlite.streams import StreamsRole
from duetime.store.sqlite.sweep import SweepRole
from duetime.store.sqlite.usage import UsageRole
from duetime.store.sqlite.usage_counts import UsageCountRole

_SYSTEM_CLOCK = SystemClock()


class Lifecycle(SchemaRole):
    embedded = True

    async def open(self) -> None:
        await self.database.open()

    async def close(self) -> None:
        self.hints.close()
        await self.database.close()

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        return self.hints.listen(callback)


class CompanionLifecycle(Lifecycle):
    """The database is the other store's to open and close."""

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass


class Leases(LeasingRole, HeldRunsRole, WorkerRole):
    """One role in several files, as the next ones."""


class Completions(CompletingRole, HandOverRole):
    pass


class Tenants(TenancyRole, UsageRole):
    pass


class Figures(FigureRole, RecentRole):
    pass


class SqliteStore(Store):
    def __init__(
        self,
        path: Path | Literal[":memory:"],
        *,
        clock: Clock = _SYSTEM_CLOCK,
        lanes_per_tenant: int = LANES_PER_TENANT,
        serves: Path | None = None,
        lock_timeout: float = 0.0,
        database: Callable[..., Database] = Database,
    ) -> None:
        """`serves` is the data folder of a server: it keeps its file for as long as it is open, and others reach it
        over HTTP. `lock_timeout` is how many seconds `open` waits for a file that another process has for a moment. The
        simulation has a `database` of its own."""
        self.context = context = Context(
            path,
            clock=clock,
            lanes_per_tenant=lanes_per_tenant,
            serves=serves,
            lock_timeout=lock_timeout,
            database=database,
        )
        self.database = context.database
        clocks = ClockRole(context)
        claims = DealerClaimsRole(context)
        completions = Completions(context)
        super().__init__(
            **shared_roles(context, claims, clocks),
            lifecycle=Lifecycle(context),
            intake=IntakeRole(context),
            firing=FiringRole(context),
            claims=claims,
            leases=Leases(context),
            completions=completions,
            reaping=ReapingRole(context, clocks, SweepRole(context), completions.apply_judged),
            pruning=PruningRole(context),
            archives=ArchiveRole(context),
            erasures=ErasureRole(context, claims),
            usage_counts=UsageCountRole(context),
            caller_transactions=CallerTransactionRole(context),
            tenants=Tenants(context, claims),
            allowances=AllowanceRole(context),
            figures=Figures(context),
            demand=SqliteDemandRole(context),
            trends=SqliteTrendRole(context),
            streams=StreamsRole(context),
            survey=SurveyRole(context, lambda: (context.database.used, 1)),
        )

    def companion(self) -> "SqliteStore":
        """The same thread and connection, which any event loop may ask."""
        companion = copy.copy(self)
        companion.lifecycle = CompanionLifecycle(self.context)
        return companion
