"""All roles of the PostgreSQL store together. Each role is a file; what they share is in `role.py`."""

from collections.abc import Callable

from duetime.store.postgres.allowances import AllowanceRole
from duetime.store.postgres.caller_transaction import CallerTransactionRole
from duetime.store.postgres.completing import CompletingRole
from duetime.store.postgres.dealer_claims import DealerClaimsRole
from duetime.store.postgres.firing import FiringRole
from duetime.store.postgres.graphs import GraphRole
from duetime.store.postgres.hand_over import HandOverRole
from duetime.store.postgres.held_runs import HeldRunsRole
from duetime.store.postgres.intake import IntakeRole
from duetime.store.postgres.leasing import LeasingRole
from duetime.store.postgres.pruning import PruningRole
from duetime.store.postgres.reaping import ReapingRole
from duetime.store.postgres.recent import RecentRole
from duetime.store.postgres.recompute import RecomputingRole
from duetime.store.postgres.replay import ReplayRole
from duetime.store.postgres.schema import SchemaRole
from duetime.store.postgres.usage import UsageRole
from duetime.store.protocol.store import Hint
from duetime.store.shared.access import AccessRole
from duetime.store.shared.answers import AnswerRole
from duetime.store.shared.breakers import BreakerRole
from duetime.store.shared.calendars import CalendarRole
from duetime.store.shared.events import EventRole
from duetime.store.shared.figures import FigureRole
from duetime.store.shared.lists import ListingRole
from duetime.store.shared.notifications import NotifyingRole
from duetime.store.shared.payloads import PayloadRole
from duetime.store.shared.queues import QueueRole
from duetime.store.shared.reencryption import ResealingRole
from duetime.store.shared.secrets import SecretRole
from duetime.store.shared.sessions import SessionRole
from duetime.store.shared.survey import SurveyRole
from duetime.store.shared.tenancy import TenancyRole


class PostgresStore(
    SchemaRole,
    UsageRole,
    IntakeRole,
    FiringRole,
    DealerClaimsRole,
    LeasingRole,
    HeldRunsRole,
    CompletingRole,
    ReapingRole,
    ReplayRole,
    RecentRole,
    RecomputingRole,
    PruningRole,
    CallerTransactionRole,
    AllowanceRole,
    GraphRole,
    HandOverRole,
    AccessRole,
    SessionRole,
    CalendarRole,
    FigureRole,
    ListingRole,
    ResealingRole,
    AnswerRole,
    BreakerRole,
    SurveyRole,
    NotifyingRole,
    EventRole,
    TenancyRole,
    QueueRole,
    PayloadRole,
    SecretRole,
):
    embedded = False

    async def open(self) -> None:
        await self.database.open()

    async def close(self) -> None:
        await self.parking.close()
        await self.hints.close()
        await self.database.close()

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        return self.hints.listen(callback)

    def connections(self) -> tuple[int, int]:
        return self.database.used, self.database.size

    def companion(self) -> "PostgresStore":
        return PostgresStore(
            self.database.url,
            pool_size=1,
            prepared=self.database.prepared,
            lanes_per_tenant=self.lanes_per_tenant,
        )
