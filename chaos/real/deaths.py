"""A process that ends at an exact point of its work: no signal from outside could hit it.

A file names the point. The first process that comes there takes the file away, so that no other dies of it, writes down
what it had in its hands, and kills itself.
"""

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import NoReturn

from chaos.history import Writer
from chaos.real.environment import DEATHS
from chaos.real.points import AFTER_ANNOUNCING, BEFORE_ACKNOWLEDGING, BEFORE_ANNOUNCING, WHILE_ANNOUNCING
from duetime.engine.relay import Relay
from duetime.store.protocol.ready import Announcement
from duetime.streams.names import StreamName
from duetime.streams.protocol import Broker, Delivery
from duetime.worker.stream_feed import Feed

RESTART = 2.0
"""Seconds that a process takes to be back."""


class Deaths:
    def __init__(self, file: Path, writer: Writer) -> None:
        self._file = file
        self._writer = writer

    def is_due(self, point: str) -> bool:
        """Whether to die now; true once for each time that the file was written."""
        try:
            if self._file.read_text() != point:
                return False
            self._file.rename(self._file.with_suffix(f".{os.getpid()}"))
        except FileNotFoundError:
            return False
        return True

    def die(self, point: str, held: int) -> NoReturn:
        """`held`: how many messages it was about to deal with, or had just dealt with."""
        t, pid = monotonic(), os.getpid()
        record = {"t": t, "until": t + RESTART, "over": t, "kind": point, "node": f"pid-{pid}", "pid": pid, "strike": t}
        self._writer.write("faults", {**record, "came_of_it": held})
        os.kill(pid, signal.SIGKILL)
        raise AssertionError("it lives")

    def install(self) -> None:
        """Make this process die where it is told to."""
        publish, acknowledge = Relay._publish, Feed._acknowledge

        async def announce(relay: Relay, broker: Broker, stream: StreamName, announced: Sequence[Announcement]) -> None:
            if self.is_due(BEFORE_ANNOUNCING):
                self.die(BEFORE_ANNOUNCING, len(announced))
            if len(announced) > 1 and self.is_due(WHILE_ANNOUNCING):
                part = announced[: len(announced) // 2]
                await publish(relay, broker, stream, part)
                self.die(WHILE_ANNOUNCING, len(part))
            await publish(relay, broker, stream, announced)
            if self.is_due(AFTER_ANNOUNCING):
                self.die(AFTER_ANNOUNCING, len(announced))

        def end(feed: Feed, deliveries: list[Delivery]) -> None:
            if deliveries and self.is_due(BEFORE_ACKNOWLEDGING):
                self.die(BEFORE_ACKNOWLEDGING, len(deliveries))
            acknowledge(feed, deliveries)

        setattr(Relay, "_publish", announce)  # noqa: B010
        setattr(Feed, "_acknowledge", end)  # noqa: B010


def die_if_asked(writer: Writer) -> None:
    file = os.environ.get(DEATHS)
    if file:
        Deaths(Path(file), writer).install()
