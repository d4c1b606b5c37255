"""The PostgreSQL store, composed of its roles. Each role is a file; what they share is in `role.py`."""

from collections.abc import Callable

from duetime.model.lane import LANES_PER_TENANT
from duetime.store.postgres.allowances import AllowanceRole
from duetime.store.postgres.archives import ArchiveRole
from duetime.store.postgres.caller_transaction import CallerTransactionRole
from duetime.store.postgres.completing import CompletingRole
from duetime.store.postgres.dealer_claims import DealerClaimsRole
from duetime.store.postgres.erasures import ErasureRole
from duetime.store.postgres.firing import FiringRole
from duetime.store.postgres.held_runs import HeldRunsRole
from duetime.store.postgres.intake import IntakeRole
from duetime.store.postgres.leasing import LeasingRole
from duetime.store.postgres.limiting import Limits
from duetime.store.postgres.pruning import PruningRole
from duetime.store.postgres.reaping import ReapingRole
from duetime.store.postgres.recent import PostgresDemandRole, PostgresTrendRole, RecentRole
from duetime.store.postgres.role import Context
from duetime.store.postgres.schema import SchemaRole
from duetime.store.postgres.streams import StreamsRole
from duetime.store.postgres.suspects import SuspectsRole
from duetime.store.postgres.sweep import SweepRole
from duetime.store.postgres.usage import UsageRole
from duetime.store.postgres.usage_counts import UsageCountRole
from duetime.store.protocol.store import Hint, Store
from duetime.store.shared.clocks import ClockRole
from duetime.store.shared.figures import FigureRole
from duetime.store.shared.hand_over import HandOverRole
from duetime.store.shared.roles import shared_roles
from duetime.store.shared.survey import SurveyRole
from duetime.store.shared.tenancy import TenancyRole
from duetime.store.shared.workers import WorkerRole


class Lifecycle(SchemaRole):
    embedded = False

    async def open(self) -> None:
        await self.database.open()

    async def close(self) -> None:
        await self.parking.close()
        await self.hints.close()
        await self.database.close()

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        return self.hints.listen(callback)


class Leases(LeasingRole, HeldRunsRole, WorkerRole):
    """One role in several files, as the next ones."""


class Completions(CompletingRole, HandOverRole):
    pass


class Tenants(TenancyRole, UsageRole):
    pass


class Figures(FigureRole, RecentRole):
    pass


class PostgresStore(Store):
    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 8,
        prepared: bool = True,
        direct: str | None = None,
        target: str = "read-write",
        lanes_per_tenant: int = LANES_PER_TENANT,
    ) -> None:
        """`target`: see `Connector`."""
        self.context = context = Context(
            url,
            pool_size=pool_size,
            prepared=prepared,
            direct=direct,
            target=target,
            lanes_per_tenant=lanes_per_tenant,
        )
        self.database = context.database
        limits = Limits(context)
        suspects = SuspectsRole(context)
        clocks = ClockRole(context)
        claims = DealerClaimsRole(context, limits)
        completions = Completions(context, limits)
        super().__init__(
            **shared_roles(context, claims, clocks),
            lifecycle=Lifecycle(context),
            intake=IntakeRole(context),
            firing=FiringRole(context, suspects),
            claims=claims,
            leases=Leases(context),
            completions=completions,
            reaping=ReapingRole(context, clocks, suspects, SweepRole(context), completions.apply_judged),
            pruning=PruningRole(context),
            archives=ArchiveRole(context),
            erasures=ErasureRole(context, claims),
            usage_counts=UsageCountRole(context),
            caller_transactions=CallerTransactionRole(context),
            tenants=Tenants(context, claims),
            allowances=AllowanceRole(context),
            figures=Figures(context),
            demand=PostgresDemandRole(context),
            trends=PostgresTrendRole(context),
            streams=StreamsRole(context),
            survey=SurveyRole(context, lambda: (context.database.used, context.database.size)),
        )

    def companion(self) -> "PostgresStore":
        database, lanes_per_tenant = self.database, self.context.lanes_per_tenant
        return PostgresStore(database.url, pool_size=1, prepared=database.prepared, lanes_per_tenant=lanes_per_tenant)
