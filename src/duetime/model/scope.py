"""A scope: the part of a tenant's jobs that a key or a token may see and control.

A job is in a scope if its owner, one of its tags and its queue are those that the scope names. A run belongs to the
scope of its job. What is outside a scope does not exist for its caller: no row, no count, no difference between a job
of another owner and a job that never existed.

`Scope.admits` is the rule. Lists apply it as a filter (`within`), and everything that names a job or a run goes through
`store/wrappers/scoped.py`.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec


class Facts(NamedTuple):
    """What of a job decides whether it is in a scope."""

    owner: str | None
    tags: tuple[str, ...]
    queue: str | None


class Scope(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that is given must hold."""

    owner: str | None = None
    tag: str | None = None
    queue: str | None = None

    def admits(self, facts: Facts) -> bool:
        return (
            (self.owner is None or facts.owner == self.owner)
            and (self.tag is None or self.tag in facts.tags)
            and (self.queue is None or facts.queue == self.queue)
        )

    def named(self) -> dict[str, str]:
        """What it names: owner, tag, queue."""
        given: dict[str, str | None] = msgspec.structs.asdict(self)
        return {name: value for name, value in given.items() if value is not None}

    def private_key(self, key: str) -> str:
        """An idempotency key of a caller in this scope, as the tenant's keys hold it: callers in different scopes, and
        callers without one, never meet each other's keys."""
        parts = msgspec.json.encode([self.owner, self.tag, self.queue, key])
        return f"scoped {blake2b(parts, digest_size=32, person=b'duetime scope').hexdigest()}"

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.named().items())


def scope_of(**given: str | None) -> Scope | None:
    """The scope that names these; None if nothing is given: everything of the tenant."""
    named: Mapping[str, Any] = {name: value for name, value in given.items() if value is not None}
    return Scope(**named) if named else None
