"""The state of a tenant, where new work of it is stored beside its jobs: runs that are requested, and edits.

Asked before what an idempotency key leads to: while the tenant is not active, a repeated request is refused like a new
one, as on every other path.
"""

from duetime.model.tenant import TenantState
from duetime.store.rules.tenant_states import may_not_submit
from duetime.store.shared.transaction import Transaction


async def check_active(transaction: Transaction, tenant_id: int) -> None:
    """Raises `TenantSuspended`."""
    row = await transaction.row("find_firing", tenant_id=tenant_id)
    if row is not None and row["state"] != TenantState.ACTIVE:
        raise may_not_submit(TenantState(row["state"]))
