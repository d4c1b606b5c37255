"""The pulse of a process: when its event loop last ran, stamped by the loop itself and read from threads.

An async task that blocks stops everything on the same event loop: other tasks, claims, cancellations, and the process's
own health reports. Only another thread can detect that; without one, a blocked process looks healthy.
"""

import asyncio
import logging
import sys
import threading
import traceback

from duetime.clock import monotonic

log = logging.getLogger("duetime.loop")


class Pulse:
    """Stamped on one event loop, readable from any thread. Before the first stamp, the loop does not count as
    stalled."""

    def __init__(self) -> None:
        self.log_after = 5.0
        self.dead_after = 30.0
        """Seconds that the loop may be stalled before the process counts as dead."""
        self._stamped_at: float | None = None
        self._thread: int | None = None
        self._logged_stall: float | None = None

    def stamp(self) -> None:
        if self._logged_stall is not None and self._stamped_at is not None:
            log.warning("the event loop runs again, after %.1f s", monotonic() - self._stamped_at)
            self._logged_stall = None
        self._thread = threading.get_ident()
        self._stamped_at = monotonic()

    @property
    def stalled(self) -> float:
        """Seconds since the event loop last ran."""
        return 0.0 if self._stamped_at is None else max(0.0, monotonic() - self._stamped_at)

    @property
    def is_dead(self) -> bool:
        return self.stalled > self.dead_after

    def log_stall(self) -> None:
        """Log what blocks the event loop, once per stall; called from another thread."""
        beaten_at, stalled = self._stamped_at, self.stalled
        if stalled < self.log_after or self._logged_stall == beaten_at:
            return
        self._logged_stall = beaten_at
        log.warning(
            "the event loop has been blocked for %.1f s, and with it the whole process. An `async def` must"
            " not block or compute for long: make it a plain `def`, which gets a thread, or a task with process=True."
            " It is blocked here:\n%s",
            stalled,
            self._place(),
        )

    def _place(self) -> str:
        """The stack of the event loop's thread, below the loop itself."""
        frame = None if self._thread is None else sys._current_frames().get(self._thread)
        if frame is None:
            return "  (its thread is gone)"
        stack = traceback.extract_stack(frame)
        called = [index + 1 for index, each in enumerate(stack) if each.filename == asyncio.runners.__file__]
        return "".join(traceback.format_list(stack[called[-1] if called else 0 :])).rstrip()
