"""Worker sessions: the token that a remote worker sends besides its key, on every request after its registration.

A registration opens a session and returns its token, a random number of 256 bits. The store keeps the hash. A session
belongs to the key that opened it: it ends with that key, and has the queues that the key allows. Other keys of the same
tenant, even for the same queues, cannot use it. Knowing the id of a worker is not enough.
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
    """The token of a new session and its hash."""
    token = _PREFIX + secrets.token_urlsafe(32)
    return token, hash_of(token)


async def by_session(call: Call) -> None:
    """Authenticate a request of a worker's session, before its body is read. A wrong token or another key gets the same
    answer as a worker that does not exist."""
    token = call.header(_NAME)
    if not token:
        raise Problem(
            UNAUTHENTICATED,
            "the request has no token of a worker session",
            field=TOKEN_HEADER,
            remedy="send the token from the registration; register again if it was lost",
            headers={"www-authenticate": 'Bearer realm="duetime"'},
        )
    worker_id = call.identity("wrk", "worker_id")
    call.admitted = await call.service.gateway.session(call.tenant_id, worker_id, call.who.key_id, hash_of(token))


def session_of(call: Call) -> Worker:
    """The worker of the authenticated session."""
    worker: Worker = call.admitted
    return worker


SESSION: dict[str, Any] = {
    "admit": by_session,
    "headers": {TOKEN_HEADER: "The token of the worker's session, from its registration."},
    "required_headers": (TOKEN_HEADER,),
}
"""What every endpoint of a session has in common."""
