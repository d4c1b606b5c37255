"""The requests of a remote worker's sessions. Each carries the token from the answer to its registration.

The tokens of a few earlier sessions are kept too: their last reports may still be on the way. Tokens live only in
memory: a process that restarts registers again.
"""

from typing import TypeVar
from uuid import UUID

import msgspec

from duetime.errors import LeaseLost
from duetime.ids import show
from duetime.wire.workers import TOKEN_HEADER, Left
from duetime.worker.http_client import Wire

T = TypeVar("T")
_KEPT = 8


class SessionWire:
    def __init__(self, server: Wire, tokens: dict[UUID, str] | None = None) -> None:
        self._server = server
        self._tokens: dict[UUID, str] = {} if tokens is None else tokens
        """Shared with the companions: the heartbeat renews sessions that others have registered."""

    def companion(self, server: Wire) -> "SessionWire":
        """The same sessions, for another event loop."""
        return SessionWire(server, self._tokens)

    def began(self, worker_id: UUID, token: str) -> None:
        while len(self._tokens) >= _KEPT:
            del self._tokens[next(iter(self._tokens))]
        self._tokens[worker_id] = token

    async def post(
        self, worker_id: UUID, what: str, body: msgspec.Struct, answer: type[T], *, timeout: float = 30.0
    ) -> T:
        path = f"/v1/workers/{show('wrk', worker_id)}/{what}"
        return await self._server.call("POST", path, body, answer, headers=self._headers(worker_id), timeout=timeout)

    async def leave(self, worker_id: UUID) -> None:
        path = f"/v1/workers/{show('wrk', worker_id)}"
        await self._server.call("DELETE", path, None, Left, headers=self._headers(worker_id))

    def _headers(self, worker_id: UUID) -> dict[str, str]:
        token = self._tokens.get(worker_id)
        if token is None:
            raise LeaseLost("the session of this worker has ended")
        return {TOKEN_HEADER: token}
