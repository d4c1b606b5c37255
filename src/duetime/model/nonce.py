"""Nonces: how a repeated submission is recognized without a stored key.

A client sends a fresh UUIDv7 with each submission, and the same one when it repeats the request. The job's id is
computed from it (`ids.id_from_nonce`). In a stream, a repeated submission is therefore the same run. In the store, the
nonce is an idempotency key. A nonce is valid for ten minutes around its time, which bounds for how long a change of a
queue's kind must consider earlier requests.
"""

from uuid import UUID

from duetime.clock import SystemClock
from duetime.errors import InvalidInput

HEADER = "Duetime-Nonce"
WINDOW = 600.0
"""Seconds that the clocks of client and server may differ, including the time that the request takes."""


def read_nonce(text: str) -> UUID:
    """A nonce that is valid now. Raises `InvalidInput`."""
    try:
        nonce = UUID(text)
    except ValueError:
        nonce = None
    if nonce is None or nonce.version != 7:
        raise InvalidInput(f"{text[:60]!r} is not a UUID of version 7", field=HEADER, remedy="send a new UUIDv7")
    off = abs((nonce.int >> 80) / 1000 - SystemClock().now().timestamp())
    if off > WINDOW:
        raise InvalidInput(
            f"is {off:.0f} s off the server's clock",
            field=HEADER,
            remedy=f"send a new one, and set the clock of the client: at most {WINDOW:.0f} s",
        )
    return nonce


def moved(nonce: UUID, seconds: float) -> UUID:
    """This nonce, so much later."""
    return UUID(int=nonce.int + (round(seconds * 1000) << 80))
