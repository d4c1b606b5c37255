"""A hash of everything that a caller asks for: decides whether two requests with one key are the same."""

from hashlib import blake2b

import msgspec

from duetime.model.dependency import DependsOn
from duetime.model.job import Said
from duetime.model.lane import Tier
from duetime.model.schedule import Every, Once, Schedule, encode_schedule


def request_hash(
    *,
    queue: str,
    tier: Tier,
    task: str,
    schedule: Schedule,
    args: bytes,
    options: bytes | None,
    timeout_ms: int | None,
    said: Said | None,
    depends_on: DependsOn | None,
) -> bytes:
    parts = (queue, str(int(tier)), task, str(timeout_ms))
    digest = blake2b(digest_size=16)
    waits = b"" if depends_on is None else msgspec.json.encode(depends_on)
    for part in (*(text.encode() for text in parts), _asked(schedule, said), args, options or b"", waits):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()


def _asked(schedule: Schedule, said: Said | None) -> bytes:
    """A schedule in words is the same request on every day, although it means a different moment."""
    if isinstance(schedule, Once):
        return encode_schedule(schedule) if said is None else str(said).encode()
    if isinstance(schedule, Every) and schedule.said is not None:
        schedule = msgspec.structs.replace(schedule, anchor=None)
    return encode_schedule(schedule)
