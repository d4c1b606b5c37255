"""The audit trail: which key did what to which object.

Actions of operators and users are recorded before the response. Submissions are frequent, so they are recorded once a
second for each key, with the first and the last job. A crash can lose the last second of them.
"""

from uuid import UUID

from duetime import ids
from duetime.api.caller import Caller
from duetime.model.audit import AuditEntry
from duetime.model.identity import Identity
from duetime.store.protocol.store import Store


class _Submissions:
    __slots__ = ("count", "first", "last")

    def __init__(self, first: UUID) -> None:
        self.count = 0
        self.first = self.last = first


class AuditTrail:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._submissions: dict[Caller, _Submissions] = {}
        self._unrecorded: list[AuditEntry] = []

    async def record(
        self, who: Caller, action: str, about: str, detail: str | None = None, *, in_tenant: bool | int = True
    ) -> None:
        tenant_id = who.tenant_id if in_tenant is True else in_tenant or None
        entry = AuditEntry(ids.new_id(), tenant_id, who.key_id, who.name, action, about, detail)
        await self._store.audit.record([entry])

    async def login(self, identity: Identity, tenant_id: int | None, address: str) -> None:
        """Record that a person has logged in: in the first tenant that they have a role in."""
        entry = AuditEntry(ids.new_id(), tenant_id, None, identity.label, "sessions.begin", identity.provider, address)
        await self._store.audit.record([entry])

    def submitted(self, who: Caller, first: UUID, last: UUID, count: int) -> None:
        found = self._submissions.get(who)
        if found is None:
            found = self._submissions[who] = _Submissions(first)
        found.count += count
        found.last = last

    async def flush(self) -> None:
        """Record the submissions since the last flush, and entries that failed to be recorded then."""
        noted, self._submissions = self._submissions, {}
        self._unrecorded += [_entry(who, what) for who, what in noted.items()]
        if self._unrecorded:
            await self._store.audit.record(self._unrecorded)
            self._unrecorded = []


def _entry(who: Caller, what: _Submissions) -> AuditEntry:
    first, last = ids.show("job", what.first), ids.show("job", what.last)
    detail = None if what.count == 1 else f"{what.count} jobs, up to {last}"
    return AuditEntry(ids.new_id(), who.tenant_id, who.key_id, who.name, "jobs.create", first, detail)
