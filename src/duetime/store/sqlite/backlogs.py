"""Backlogs: due cursors that cannot fire yet, because their tenant is suspended or has used up its rate.

A scan puts a cursor there, and it leaves when it fires: no scan walks over it in between. While a tenant has a backlog,
its other due cursors go to the end of it, so that it fires in order.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from uuid import UUID

import msgspec

from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.values import listed, packed

_SECOND = 1_000_000


class Due(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A cursor that may fire."""

    job_id: UUID
    tenant_id: int
    queue: str
    tier: int
    task: str
    schedule: str
    next_fire_at: int
    options: str | None
    made: int
    exact: int
    owed: str | None


_due = msgspec.json.Decoder(list[Due])


class Turns:
    """One scan's decision: which cursors fire, which go to a backlog, and what the rates are charged."""

    def __init__(self, connection: Connection, now: int, limit: int, without: Collection[UUID]) -> None:
        self._connection = connection
        self._now = now
        self._rates: dict[int, tuple[float, int]] = {}
        self.taken = self._from_backlogs(max(1, limit // 2), without)
        self.has_more = len(self.taken) >= max(1, limit // 2)
        """Whether backlogs may have more cursors that can fire now."""
        room = limit - len(self.taken)
        fresh = [
            due for due in self._read("due_cursors", now=now, limit=room + len(without)) if due.job_id not in without
        ][:room]
        self.full = len(fresh) >= room
        self.held = self._admit(fresh)

    def charge(self, fired: Counter[int]) -> None:
        """Charge the rates of tenants for their fires. Tenants without a rate are ignored."""
        used = [
            (tenant_id, since + round(fired[tenant_id] * _SECOND / rate))
            for tenant_id, (rate, since) in self._rates.items()
        ]
        if used:
            self._connection.execute("charge_fires", {"rates": listed(used)})

    def _from_backlogs(self, most: int, without: Collection[UUID]) -> list[Due]:
        tenants = self._connection.rows("backlogs", {"most": most, "now": self._now})
        taken: list[Due] = []
        for tenant_id, rate, used_until in tenants:
            share = max(1, most // len(tenants))
            if rate is not None:
                share = min(share, self._room(tenant_id, rate, used_until))
            if share:
                found = self._read("due_in_backlog", tenant_id=tenant_id, limit=share + len(without))
                taken += [due for due in found if due.job_id not in without][:share]
        return taken

    def _admit(self, fresh: Sequence[Due]) -> int:
        """Take the cursors that may fire, and put the others into backlogs; returns how many went there."""
        wanted = Counter(due.tenant_id for due in fresh)
        granted: dict[int, int] = {}
        for tenant_id, waits, rate, used_until in self._connection.rows("admit_fires", {"tenants": listed([*wanted])}):
            granted[tenant_id] = 0 if waits else self._room(tenant_id, rate, used_until)
        held = []
        for due in fresh:
            left = granted.get(due.tenant_id)
            if left == 0:
                held.append(due)
                continue
            if left is not None:
                granted[due.tenant_id] = left - 1
            self.taken.append(due)
        if held:
            ids, tenants = packed(due.job_id for due in held), listed([due.tenant_id for due in held])
            self._connection.execute("put_in_backlogs", {"ids": ids, "tenants": tenants})
        return len(held)

    def _room(self, tenant_id: int, rate: float, used_until: int | None) -> int:
        """How many fires a rate allows now. A tenant saves up for one second, or for one fire if that takes longer. A
        future `used_until` was written before the clock was set back."""
        saved = round(max(1.0, 1.0 / rate) * _SECOND)
        since = max(min(used_until or 0, self._now), self._now - saved)
        self._rates[tenant_id] = rate, since
        return int((self._now - since) * rate / _SECOND + 1e-6)

    def _read(self, statement: str, **wanted: int) -> list[Due]:
        return _due.decode(self._connection.value(statement, wanted))
