"""The roles that both stores share, composed once."""

from typing import TypedDict

from duetime.store.protocol.store import Claims
from duetime.store.shared.access import AccessRole
from duetime.store.shared.alert_subjects import SubjectRole
from duetime.store.shared.answers import AnswerRole
from duetime.store.shared.breakers import BreakerRole
from duetime.store.shared.bulk import BulkRole
from duetime.store.shared.calendars import CalendarRole
from duetime.store.shared.checkins import CheckInRole
from duetime.store.shared.clocks import ClockRole
from duetime.store.shared.control import ControlRole
from duetime.store.shared.edits import EditingRole
from duetime.store.shared.events import EventRole
from duetime.store.shared.exports import ExportRole
from duetime.store.shared.graphs import GraphRole
from duetime.store.shared.issuers import IssuerRole
from duetime.store.shared.lists import ListingRole
from duetime.store.shared.notifications import NotifyingRole
from duetime.store.shared.payloads import PayloadRole
from duetime.store.shared.queues import QueueRole
from duetime.store.shared.reads import ReadingRole
from duetime.store.shared.recompute import RecomputingRole
from duetime.store.shared.reencryption import ResealingRole
from duetime.store.shared.replay import ReplayRole
from duetime.store.shared.search import SearchRole
from duetime.store.shared.secrets import SecretRole
from duetime.store.shared.sessions import SessionRole
from duetime.store.shared.sources import SourceRole
from duetime.store.shared.transaction import SharedContext
from duetime.store.shared.waiting import WaitingRole


class Control(ControlRole, EditingRole):
    """The role `control`, whose code is in two files."""


class SharedRoles(TypedDict):
    control: Control
    calendars: CalendarRole
    recompute: RecomputingRole
    reads: ReadingRole
    access: AccessRole
    sessions: SessionRole
    audit: AccessRole
    lists: ListingRole
    waiting: WaitingRole
    replay: ReplayRole
    answers: AnswerRole
    queues: QueueRole
    breakers: BreakerRole
    clocks: ClockRole
    payloads: PayloadRole
    events: EventRole
    graphs: GraphRole
    exports: ExportRole
    notifications: NotifyingRole
    alert_subjects: SubjectRole
    checkins: CheckInRole
    sources: SourceRole
    issuers: IssuerRole
    bulk: BulkRole
    search: SearchRole
    secrets: SecretRole
    reencryption: ResealingRole


def shared_roles(context: SharedContext, claims: Claims, clocks: ClockRole) -> SharedRoles:
    recompute = RecomputingRole(context)
    access = AccessRole(context)
    return {
        "control": Control(context),
        "calendars": CalendarRole(context, recompute),
        "recompute": recompute,
        "reads": ReadingRole(context),
        "access": access,
        "sessions": SessionRole(context),
        "audit": access,
        "lists": ListingRole(context),
        "waiting": WaitingRole(context),
        "replay": ReplayRole(context),
        "answers": AnswerRole(context),
        "queues": QueueRole(context, claims),
        "breakers": BreakerRole(context),
        "clocks": clocks,
        "payloads": PayloadRole(context),
        "events": EventRole(context),
        "graphs": GraphRole(context),
        "exports": ExportRole(context),
        "notifications": NotifyingRole(context),
        "alert_subjects": SubjectRole(context),
        "checkins": CheckInRole(context),
        "sources": SourceRole(context),
        "issuers": IssuerRole(context),
        "bulk": BulkRole(context),
        "search": SearchRole(context),
        "secrets": SecretRole(context),
        "reencryption": ResealingRole(context),
    }
