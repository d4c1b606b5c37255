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


class Received(NamedTuple):
    """A message that was read."""

    message_id: str
    """Whenever and by whichever consumer it is read, the same; no other message has it."""
    key: str | None
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes
    part: str | None
    """The part of the place that it is in, if its messages have an order."""
    mark: str
    """Its position there."""
    ref: Any
    """The adapter's own handle."""


class Receiver(Protocol):
    """Reads a place from given marks on, by part. The store keeps the marks: what the broker knows of the position is
    for its own tools."""

    marks: Mapping[str, str]
    """Where it began to read, by part, once it has fetched."""

    async def fetch(self, most: int, wait: float) -> list[Received]:
        """Up to so many messages, in the order of each part. Without any, waits up to `wait` seconds for the first.
        Raises `MessageRefused` and `StreamUnavailable`."""

    async def hold(self, messages: Sequence[Received]) -> None:
        """These messages are not done yet: they are not delivered elsewhere for another while. Raises
        `StreamUnavailable`."""

    async def done(self, messages: Sequence[Received]) -> None:
        """What these messages say is stored. Raises `StreamUnavailable`."""

    async def close(self) -> None: ...


class Server(NamedTuple):
    """Where a connection goes."""

    host: str
    """For TLS, which checks the certificate for it."""
    port: int
    addresses: Sequence[str]
    """The addresses to connect to, tried in this order."""
