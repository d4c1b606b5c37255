"""What duetime needs of a broker that other programs use too. One adapter per file.

duetime creates nothing there except its consumer group, and removes nothing that others may want to read. Every adapter
connects only to the addresses that it was given.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

OWN_FIELDS = ("key", "body")
"""Fields of an entry of Redis that are not headers."""


class Message(NamedTuple):
    """A message to publish."""

    message_id: str
    """The same however often it is published."""
    headers: Mapping[str, str]
    body: bytes | None


class Publisher(Protocol):
    """A connection for one event loop. It is used by many tasks at once."""

    async def publish(self, target: Any, message: Message) -> dict[str, Any]:
        """Publish a message as a target says; returns what the broker answered when it had it. Raises `MessageRefused`,
        and `StreamUnavailable`: then the message may have been published."""

    async def close(self) -> None: ...


class Server(NamedTuple):
    """Where a connection goes."""

    host: str
    """For TLS, which checks the certificate for it."""
    port: int
    addresses: Sequence[str]
    """The addresses to connect to, tried in this order."""
