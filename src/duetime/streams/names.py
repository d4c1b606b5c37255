"""Names of streams. One text fits every broker: at most 80 letters, digits, `-` and `_`, which is what SQS allows.

    duetime_12_mail_high_3          tenant 12, queue `mail`, tier HIGH, generation 3
    duetime_all_mail_high_3         the same, in a stream that all tenants share

`-` escapes other characters of a queue's name; a long name ends in a hash. A name is therefore not parsed: a process
knows the streams of its queues, and looks them up by their text.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from duetime.model.carried import StreamQueue
from duetime.model.lane import Tier
from duetime.streams.address import prefix_of

LONGEST = 80
_REFUSED = "_refused"
_HASH = 16


@dataclass(frozen=True, order=True)
class StreamName:
    tenant_id: int | None
    """None: all tenants share the stream."""
    queue: str
    tier: Tier
    generation: int
    prefix: str

    @cached_property
    def text(self) -> str:
        before = f"{self.prefix}_{'all' if self.tenant_id is None else self.tenant_id}_"
        after = f"_{self.tier.name.lower()}_{self.generation}"
        return before + _escaped(self.queue, LONGEST - len(_REFUSED) - len(before) - len(after)) + after

    @property
    def refused(self) -> str:
        """The side stream for messages that are not duetime's."""
        return self.text + _REFUSED


def streams_of(queue: StreamQueue, *, shared: bool) -> dict[Tier, StreamName]:
    """The streams of a queue, at a broker that is `shared` or not."""
    tenant, prefix = None if shared else queue.tenant_id, prefix_of(queue.settings.address)
    return {tier: StreamName(tenant, queue.queue, tier, queue.generation, prefix) for tier in Tier}


def _escaped(queue: str, longest: int) -> str:
    text = "".join(letter if letter in _PLAIN else _ESCAPES.get(letter) or f"-{ord(letter):02x}" for letter in queue)
    if len(text) <= longest:
        return text
    # No escape begins with "-h", so a shortened name equals no other.
    digest = blake2b(queue.encode(), digest_size=_HASH // 2).hexdigest()
    return f"{text[: longest - _HASH - 2]}-h{digest}"


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_ESCAPES = {"-": "--"}
