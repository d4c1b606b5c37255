"""Worker sessions: what a remote worker shows besides its key, on every request after its registration.

A registration opens a session and returns its token, a random number of 256 bits; the store keeps the hash. A session
belongs to the key that opened it, so it ends with that key, and it has the queues that the key allowed. Keys of the
same tenant, even keys for the same queues, cannot act in it: knowing a worker's id is of no use.
"""

import secrets
from typing import Any

from duetime.api.call import Call
from duetime.api.problems import UNAUTHENTICATED, Problem
from duetime.model.key_text import hash_of
from duetime.model.worker import Worker
from duetime.wire.workers import TOKEN_HEADER

_PREFIX = "dt_session_"
_NAME = TOKEN_HEADER.lower().encode()


def new_token() -> tuple[str, bytes]:
    """The token of a new session, and its hash."""
    token = _PREFIX + secrets.token_urlsafe(32)
    return token, hash_of(token)


async def by_session(call: Call) -> None:
    """Admit a request of a worker's session, before its body is read. To wrong tokens and foreign keys the worker is a
    missing one."""
    token = call.header(_NAME)
    if not token:
        raise Problem(
            UNAUTHENTICATED,
            "the request carries no token of a worker's session",
            field=TOKEN_HEADER,
            remedy="send the token that the registration answered; register anew when it was lost",
            headers={"www-authenticate": 'Bearer realm="duetime"'},
        )
    worker_id = call.identity("wrk", "worker_id")
    call.admitted = await call.service.gateway.session(call.tenant_id, worker_id, call.who.key_id, hash_of(token))


def session_of(call: Call) -> Worker:
    """The worker whose session was admitted."""
    worker: Worker = call.admitted
    return worker


SESSION: dict[str, Any] = {
    "admit": by_session,
    "headers": {TOKEN_HEADER: "The token of the worker's session, from its registration."},
    "required_headers": (TOKEN_HEADER,),
}
"""What every endpoint of a session has in the table."""
