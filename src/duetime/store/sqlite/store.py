"""All roles of the SQLite store together. Each role is a file; what they share is in `role.py`."""

import copy
from collections.abc import Callable

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
from duetime.store.sqlite.allowances import AllowanceRole
from duetime.store.sqlite.caller_transaction import CallerTransactionRole
from duetime.store.sqlite.completing import CompletingRole
from duetime.store.sqlite.dealer_claims import DealerClaimsRole
from duetime.store.sqlite.firing import FiringRole
from duetime.store.sqlite.graphs import GraphRole
from duetime.store.sqlite.hand_over import HandOverRole
from duetime.store.sqlite.held_runs import HeldRunsRole
from duetime.store.sqlite.intake import IntakeRole
from duetime.store.sqlite.leasing import LeasingRole
from duetime.store.sqlite.pruning import PruningRole
from duetime.store.sqlite.reaping import ReapingRole
from duetime.store.sqlite.recent import RecentRole
from duetime.store.sqlite.recompute import RecomputingRole
from duetime.store.sqlite.replay import ReplayRole
from duetime.store.sqlite.schema import SchemaRole
from duetime.store.sqlite.usage import UsageRole


class SqliteStore(
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
    embedded = True
    _is_companion = False

    async def open(self) -> None:
        if not self._is_companion:
            await self.database.open()

    async def close(self) -> None:
        if not self._is_companion:
            self.hints.close()
            await self.database.close()

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        return self.hints.listen(callback)

    def connections(self) -> tuple[int, int]:
        return self.database.used, 1

    def companion(self) -> "SqliteStore":
        """The same thread and connection, which any event loop may ask."""
        companion = copy.copy(self)
        companion._is_companion = True
        return companion
