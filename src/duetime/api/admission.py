"""Authentication of long requests: event streams and waiting claims."""

from duetime.api.authentication import REMEMBERED
from duetime.api.call import Call
from duetime.api.problems import UNAUTHENTICATED, Problem
from duetime.clock import monotonic


class Admission:
    """The admission of a request that lasts. It is renewed before each message to the caller, so the request ends with
    its key."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._gate = gate = call.service.gate
        self._changes = gate.changes
        self._until = monotonic() + REMEMBERED

    async def renew(self) -> None:
        """Authenticate again if the last time was some seconds ago, or if a key or session was changed on this server.
        Raises what the gate raises."""
        changes = self._gate.changes
        if changes == self._changes and monotonic() < self._until:
            return
        who = await self._gate.admit(self._call.endpoint, self._call.headers, self._call.peer)
        if (who.tenant_id, who.scope) != (self._call.tenant_id, self._call.who.scope):
            raise Problem(UNAUTHENTICATED, "the issuer of the token has changed", remedy="send the request again")
        self._changes, self._until = changes, monotonic() + REMEMBERED
