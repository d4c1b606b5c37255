"""How many connections a server holds, how many of one client, and how long a client may keep a connection waiting.

A connection is in one of three states:

    waiting   the client has not sent a whole request header: the connection uses a file descriptor for nothing
    working   the server prepares a response, or sends it as fast as it makes it
    stalled   the client does not take what is ready for it, or what is left when the connection closes

Waiting and stalled connections have a deadline. When the table is full, a new connection replaces the one that has been
so for longest, so neither silent clients nor clients that do not read can lock others out. At most
`http_protocol.MOST_UNSENT` and one piece of a response are ready at a time, so a deadline for taking them is a minimum
rate. While the event loop is blocked, nothing can arrive or leave, so this time does not count. File descriptors are
reserved for the database and for metrics.
"""

import logging
import resource
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

from duetime.clock import monotonic
from duetime.telemetry.refusals import Refusals

log = logging.getLogger("duetime.api")

_RESERVE = 64
"""File descriptors for files, time zones, logs and child processes, beside other connections."""
_FEWEST = 16
_MOST = 10_000


class Waiter(Protocol):
    """A connection as the table sees it."""

    address: str
    """What counts as one client (`client_group`)."""

    @property
    def is_closing(self) -> bool:
        """Whether it ends as soon as the rest of its response is sent."""

    def drop(self) -> None:
        """Close it without a response."""


def room_for_connections(wanted: int, others: int) -> int:
    """How many connections fit below the limit of open files; `wanted` 0 takes as many as fit. `others`: connections to
    the database and of the metrics port."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    fit = _MOST if soft == resource.RLIM_INFINITY else soft - others - _RESERVE
    return max(_FEWEST, min(fit, wanted or _MOST))


_Wait = tuple[float, float]
"""Since when, and the deadline."""


class Connections:
    def __init__(
        self,
        most: int,
        most_of_address: int,
        *,
        header_timeout: float,
        idle_timeout: float,
        response_timeout: float,
    ) -> None:
        """`most_of_address` 0: half of all."""
        self.most = most
        self._most_of_address = most_of_address or max(1, most // 2)
        self.header_timeout = header_timeout
        self.response_timeout = response_timeout
        self._idle_timeout = idle_timeout
        self._open: set[Waiter] = set()
        self._of_address: Counter[str] = Counter()
        self._waiting: OrderedDict[Waiter, _Wait] = OrderedDict()
        self._stalled: OrderedDict[Waiter, _Wait] = OrderedDict()
        self._blocked = 0.0
        """Seconds for which the event loop was blocked since the start."""
        self._refusals = Refusals(log, "connections")
        self.on_refusal: Callable[[str], None] = lambda reason: None
        """Called with the reason of each refusal."""

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: Waiter) -> bool:
        """Admit a new connection. False if its address has too many, or if the table is full of working ones."""
        if self._of_address[connection.address] >= self._most_of_address and not self._evict(connection.address):
            self.refuse("connections of one address")
            return False
        if len(self._open) >= self.most and not self._evict():
            self.refuse("connections")
            return False
        self._open.add(connection)
        self._of_address[connection.address] += 1
        self.waits(connection)
        return True

    def leave(self, connection: Waiter) -> None:
        """An admitted connection has ended."""
        self._waiting.pop(connection, None)
        self._stalled.pop(connection, None)
        self._open.discard(connection)
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]

    def waits(self, connection: Waiter) -> None:
        """It may send a request: the whole header must arrive before the deadline."""
        self._wait(connection, self.header_timeout)

    def idles(self, connection: Waiter) -> None:
        """Its request was answered. It may send another."""
        self._wait(connection, self._idle_timeout)

    def works(self, connection: Waiter) -> None:
        """The whole header has arrived."""
        self._waiting.pop(connection, None)

    def stalls(self, connection: Waiter) -> None:
        """The client does not take what is ready for it, and must do so before the deadline."""
        self._waiting.pop(connection, None)
        now = self._now()
        self._stalled[connection] = now, now + self.response_timeout

    def flows(self, connection: Waiter) -> None:
        """The client has taken what was ready. The connection is working, unless it waits or idles now."""
        self._stalled.pop(connection, None)

    def refuse(self, reason: str) -> None:
        self._refusals.note(reason, len(self))
        self.on_refusal(reason)

    def sweep(self, blocked: float = 0.0) -> None:
        """Drop connections that are past their deadline. Called every second, with the time for which the event loop
        was blocked since the last call."""
        self._blocked += blocked
        now = self._now()
        for waits, reason in (
            (self._waiting, "no whole header in time"),
            (self._stalled, "response not taken in time"),
        ):
            for connection in [connection for connection, (_, until) in waits.items() if until <= now]:
                if connection in waits:
                    self._drop(connection, reason)
        # A connection closes when it is empty, for which nothing sets a time: however it came to close, it counts.
        for connection in self._open:
            if connection.is_closing and connection not in self._waiting and connection not in self._stalled:
                self.stalls(connection)

    def close(self) -> None:
        """Drop all waiting and stalled connections: the server has ended."""
        for connection in [*self._waiting, *self._stalled]:
            connection.drop()

    def _wait(self, connection: Waiter, seconds: float) -> None:
        if connection not in self._stalled:
            now = self._now()
            self._waiting[connection] = now, now + seconds
            self._waiting.move_to_end(connection)  # in the order of `since`, as eviction needs them

    def _now(self) -> float:
        return monotonic() - self._blocked

    def _evict(self, address: str | None = None) -> bool:
        """Drop the connection (of this address, if given) that has waited or been stalled for longest. False if there
        is none."""
        found = [
            (since, connection)
            for waits in (self._waiting, self._stalled)
            for connection, (since, _) in islice(_of(address, waits), 1)
        ]
        if found:
            self._drop(min(found, key=lambda each: each[0])[1], "made room for a new connection")
        return bool(found)

    def _drop(self, connection: Waiter, reason: str) -> None:
        self.refuse(reason)
        connection.drop()


def _of(address: str | None, waits: "OrderedDict[Waiter, _Wait]") -> Iterator[tuple[Waiter, _Wait]]:
    return (each for each in waits.items() if address is None or each[0].address == address)
