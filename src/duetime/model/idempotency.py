"""Requests with an idempotency key that submit nothing: running a job now, backfilling, retrying, replaying.

The store keeps the key with the answer, in the transaction of the effect. A repeated request gets the first answer; a
different request under the same key is refused. Submissions keep their keys with their jobs
(`store/rules/caller_keys.py`).
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from uuid import UUID

import msgspec

from duetime.model.name import check_key


@dataclass(slots=True)
class KeyedRequest:
    key: str
    fingerprint: bytes
    """Decides whether two requests ask for the same thing."""
    replayed: bool = False
    """Set by the store: this request was answered before, and got that answer."""


def keyed_request(key: str | None, operation: str, *parts: object) -> KeyedRequest | None:
    """The request with this key, if it has one; `parts` is everything that distinguishes it from other requests."""
    if key is None:
        return None
    asked = msgspec.json.encode([operation, *(_plain(part) for part in parts)])
    return KeyedRequest(check_key(key, "idempotency_key"), blake2b(asked, digest_size=16).digest())


def _plain(part: object) -> object:
    match part:
        case datetime():
            return part.astimezone(UTC).isoformat()
        case UUID():
            return str(part)
        case _:
            return part
