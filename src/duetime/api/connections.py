"""How many connections a server holds, how many of one address, and how long a connection may be silent.

A connection that has not sent a whole request header is *waiting*: it uses a file descriptor for nothing. Waiting
connections have a deadline. When the table is full, a new connection replaces the one that has waited longest, so
silent connections cannot lock other clients out. File descriptors are reserved for the database.

Refusals are counted by reason, and logged at most every ten seconds.
"""

import logging
import resource
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Protocol

from duetime.clock import monotonic

log = logging.getLogger("duetime.api")

_RESERVE = 64
"""File descriptors for files, time zones, logs and child processes, beside the database's connections."""
_FEWEST = 16
_MOST = 10_000
_LOG_EVERY = 10.0


class Waiter(Protocol):
    """A connection as the table sees it."""

    address: str

    def drop(self) -> None:
        """Close it without a response."""


def room_for_connections(wanted: int, database_connections: int) -> int:
    """How many connections fit below the limit of open files; `wanted` 0 takes as many as fit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    fit = _MOST if soft == resource.RLIM_INFINITY else soft - database_connections - _RESERVE
    return max(_FEWEST, min(fit, wanted or _MOST))


class Connections:
    def __init__(self, most: int, most_of_address: int, *, header_timeout: float, idle_timeout: float) -> None:
        """`most_of_address` 0: half of all."""
        self.most = most
        self._most_of_address = most_of_address or max(1, most // 2)
        self.header_timeout = header_timeout
        self._idle_timeout = idle_timeout
        self._open = 0
        self._of_address: Counter[str] = Counter()
        self._waiting: OrderedDict[Waiter, float] = OrderedDict()
        self._refused: Counter[str] = Counter()
        self._log_at = 0.0
        self.on_refusal: Callable[[str], None] = lambda reason: None
        """Called with the reason of each refusal."""

    def __len__(self) -> int:
        return self._open

    def admit(self, connection: Waiter) -> bool:
        """Admit a new connection. False if its address has too many, or if the table is full and none is waiting."""
        if self._of_address[connection.address] >= self._most_of_address and not self._evict(connection.address):
            self.refuse("connections of one address")
            return False
        if self._open >= self.most and not self._evict():
            self.refuse("connections")
            return False
        self._open += 1
        self._of_address[connection.address] += 1
        self.waits(connection)
        return True

    def leave(self, connection: Waiter) -> None:
        """An admitted connection has ended."""
        self._waiting.pop(connection, None)
        self._open -= 1
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]

    def waits(self, connection: Waiter) -> None:
        """It may send a request: the whole header must arrive before the deadline."""
        self._waiting[connection] = monotonic() + self.header_timeout

    def idles(self, connection: Waiter) -> None:
        """Its request was answered. It may send another."""
        self._waiting[connection] = monotonic() + self._idle_timeout
        self._waiting.move_to_end(connection)

    def works(self, connection: Waiter) -> None:
        """The whole header has arrived."""
        self._waiting.pop(connection, None)

    def refuse(self, reason: str) -> None:
        self._refused[reason] += 1
        self.on_refusal(reason)
        now = monotonic()
        if now >= self._log_at:
            counts = ", ".join(f"{reason}: {count}" for reason, count in sorted(self._refused.items()))
            log.warning("connections refused since the last such line: %s (%d open)", counts, self._open)
            self._refused.clear()
            self._log_at = now + _LOG_EVERY

    def sweep(self) -> None:
        """Drop connections that have waited for too long. Called every second."""
        now = monotonic()
        late = [connection for connection, until in self._waiting.items() if until <= now]
        for connection in late:
            if self._waiting[connection] <= now:
                self._drop(connection, "no whole header in time")

    def close(self) -> None:
        """Drop all waiting connections: the server has ended."""
        for connection in list(self._waiting):
            connection.drop()

    def _evict(self, address: str | None = None) -> bool:
        """Drop the connection (of this address, if given) that has waited longest. False if there is none."""
        for connection in self._waiting:
            if address is None or connection.address == address:
                self._drop(connection, "made room for a new connection")
                return True
        return False

    def _drop(self, connection: Waiter, reason: str) -> None:
        self.refuse(reason)
        connection.drop()
