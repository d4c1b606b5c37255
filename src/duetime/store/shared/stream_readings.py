"""The stream queues, as the loops of this process read them last."""

from duetime.clock import elapsed
from duetime.store.protocol.streams import KnownQueues


class StreamReadings:
    def __init__(self) -> None:
        self.last: KnownQueues | None = None
        self._changed_at = float("-inf")

    def note(self, known: KnownQueues) -> None:
        if known.read_at > self._changed_at:
            self.last = known

    def forget(self) -> None:
        """This process has changed a queue: what was read before must not be used, also if it is noted later."""
        self.last = None
        self._changed_at = elapsed()
