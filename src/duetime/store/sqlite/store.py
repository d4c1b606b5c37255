"""All roles of the SQLite store together. Each role is a file; what they share is in `role.py`."""

import copy
from collections.abc import Callable

from duetime.store.protocol import Hint
from duetime.store.sqlite.access import AccessRole
from duetime.store.sqlite.allowances import AllowanceRole
from duetime.store.sqlite.answers import AnswerRole
from duetime.store.sqlite.breakers import BreakerRole
from duetime.store.sqlite.calendars import CalendarRole
from duetime.store.sqlite.coalescing import CoalescingRole
from duetime.store.sqlite.completing import CompletingRole
from duetime.store.sqlite.events import EventRole
from duetime.store.sqlite.figures import FigureRole
from duetime.store.sqlite.firing import FiringRole
from duetime.store.sqlite.graphs import GraphRole
from duetime.store.sqlite.guests import GuestRole
from duetime.store.sqlite.handing_over import HandingOverRole
from duetime.store.sqlite.holding import HoldingRole
from duetime.store.sqlite.intake import IntakeRole
from duetime.store.sqlite.leasing import LeasingRole
from duetime.store.sqlite.listing import ListingRole
from duetime.store.sqlite.mending import MendingRole
from duetime.store.sqlite.notifying import NotifyingRole
from duetime.store.sqlite.payloads import PayloadRole
from duetime.store.sqlite.pruning import PruningRole
from duetime.store.sqlite.queues import QueueRole
from duetime.store.sqlite.reaping import ReapingRole
from duetime.store.sqlite.resealing import ResealingRole
from duetime.store.sqlite.schema import SchemaRole
from duetime.store.sqlite.secrets import SecretRole
from duetime.store.sqlite.sessions import SessionRole
from duetime.store.sqlite.surveying import SurveyRole
from duetime.store.sqlite.tenancy import TenancyRole


class SqliteStore(
    SchemaRole,
    IntakeRole,
    FiringRole,
    CoalescingRole,
    LeasingRole,
    HoldingRole,
    CompletingRole,
    ReapingRole,
    MendingRole,
    AnswerRole,
    CalendarRole,
    PruningRole,
    GuestRole,
    TenancyRole,
    AllowanceRole,
    AccessRole,
    SessionRole,
    ListingRole,
    FigureRole,
    EventRole,
    QueueRole,
    BreakerRole,
    PayloadRole,
    GraphRole,
    NotifyingRole,
    HandingOverRole,
    SecretRole,
    ResealingRole,
    SurveyRole,
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

    def companion(self) -> "SqliteStore":
        """The same thread and connection, which any event loop may ask."""
        companion = copy.copy(self)
        companion._is_companion = True
        return companion
