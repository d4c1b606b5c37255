"""The job defaults of a task: its jobs get them unless a submission overrides them, on every path.

A worker sends them when it registers, and the store keeps them while no worker is up. Only explicit values are stored:
a field at its default is omitted.
"""

from functools import lru_cache

import msgspec

from duetime.model.job import DEFAULT_OPTIONS, DEFAULT_QUEUE, Options
from duetime.model.lane import Tier


class Defaults(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of a task's jobs unless a submission overrides them."""

    queue: str = DEFAULT_QUEUE
    tier: Tier = Tier.MEDIUM
    timeout_ms: int | None = None
    options: Options = DEFAULT_OPTIONS


NOTHING_SAID = Defaults()
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Defaults)


def encode_defaults(defaults: Defaults) -> bytes | None:
    return None if defaults == NOTHING_SAID else _encoder.encode(defaults)


@lru_cache(maxsize=4096)
def decode_defaults(body: bytes) -> Defaults:
    """Never raises: one row that newer code wrote must not stop submissions."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, ValueError):
        return NOTHING_SAID
