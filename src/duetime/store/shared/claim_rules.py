"""Reading what claims must know. Where there are no stream queues, no loop has to read them."""

from duetime.clock import elapsed
from duetime.store.protocol.streams import KnownQueues
from duetime.store.rules.limit_scopes import Rules
from duetime.store.shared.transaction import SharedRole

_COLUMNS = ("kind", "tenant_id", "name", "weight", "age")


async def read_rules(role: SharedRole) -> Rules:
    began = elapsed()
    rules = Rules.of([row[name] for name in _COLUMNS] for row in await role.transactions.rows("rules"))
    if not rules.has_streams:
        role.stream_readings.note(KnownQueues([], began))
    return rules
