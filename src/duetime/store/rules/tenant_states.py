"""Whether a tenant may submit jobs, request runs and edit jobs. Every store asks where it stores rows, so that the rule
holds on every path."""

from collections.abc import Iterable

from duetime.errors import TenantDeleting, TenantSuspended
from duetime.model.lane import LaneKey
from duetime.model.notification import QUEUE as NOTIFICATIONS
from duetime.model.tenant import TenantState

_ASK = "ask the operator of this service"


def submitters(lanes: Iterable[LaneKey]) -> set[int]:
    """The tenants whose state decides whether new work may go to these lanes. What a node makes for itself is no
    tenant's, and a suspended tenant is still notified."""
    return {lane.tenant_id for lane in lanes if lane.tenant_id > 0 and lane.queue != NOTIFICATIONS}


def may_not_submit(state: TenantState) -> TenantSuspended:
    """The refusal of new work of a tenant that is not active."""
    refused = "nothing can be submitted, run again or edited"
    if state is TenantState.DELETING:
        return TenantDeleting(f"the tenant is being deleted, and {refused}", remedy=_ASK)
    return TenantSuspended(f"the tenant is suspended, and {refused}", remedy=_ASK)
