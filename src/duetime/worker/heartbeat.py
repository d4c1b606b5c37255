"""The heartbeat renews the worker's lease, with its own thread, event loop and connection.

A task that blocks the worker's event loop must not look like a dead worker. When the lease cannot be renewed, the
worker is notified at 80 % of it, counted from when the last successful renewal was *sent*: its runs stop before another
worker can start them. (In a simulation, which has no threads, it is a task of the single event loop.)
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from duetime.clock import monotonic
from duetime.errors import DuetimeError, LeaseLost, reason_of
from duetime.model.worker import Renewal
from duetime.process.loop import spread
from duetime.telemetry.pulse import Pulse
from duetime.worker.session import Session
from duetime.worker.source import Source

log = logging.getLogger("duetime.worker")

_STOP_AT = 0.8
_RETRY = 0.5
_SPREAD = 0.2
_CHECK_EVERY = 1.0


class Heartbeat:
    """Renews the lease of one session until stopped or lost. The callbacks run on the event loop that created it."""

    def __init__(
        self,
        source: Source,
        session: Session,
        *,
        lease: timedelta,
        interval: timedelta,
        registered_at: float,
        renewed: Callable[[Renewal], None],
        lost: Callable[[Session], None],
        in_thread: bool = True,
        pulse: Pulse | None = None,
    ) -> None:
        self._source = source
        self._session = session
        self._lease = lease
        self._interval = interval.total_seconds()
        self._renewed_at = registered_at
        self._renewed = renewed
        self._lost = lost
        self._home = asyncio.get_running_loop()
        self._pulse = pulse
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        self._awake: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._task: asyncio.Task[None] | None = None
        if in_thread:
            self._thread = threading.Thread(target=self._serve, name="duetime-heartbeat", daemon=True)

    def start(self) -> None:
        if self._thread is not None:
            self._thread.start()
        else:
            self._task = asyncio.create_task(self._run(), name="duetime heartbeat")

    def stop(self) -> None:
        self._stopping.set()
        loop, awake = self._loop, self._awake
        if loop is not None and awake is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(awake.set)

    async def stopped(self) -> None:
        """Wait until it has ended."""
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 10)
        elif self._task is not None:
            await asyncio.wait([self._task], timeout=10)

    def _serve(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        try:
            await self._renew_until_stopped()
        except Exception:
            log.exception("the heartbeat failed: the worker stops its runs")
            self._report_lost()

    async def _renew_until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._awake = asyncio.Event()
        source = self._source.companion()
        opened = False
        # A separate task, because a renewal that hangs may also hang while it is being cancelled.
        watch = asyncio.create_task(self._watch())
        loop_watch = asyncio.create_task(self._watch_event_loop())
        try:
            while not self._stopping.is_set() and not watch.done():
                delay = _RETRY
                deadline = max(1.0, self._lease.total_seconds() * 0.3)
                try:
                    async with asyncio.timeout(deadline):
                        if not opened:
                            await source.open()
                            opened = True
                        delay = await self._renew(source)
                except LeaseLost:
                    if self._stopping.is_set():
                        return  # the worker left during this renewal
                    log.error("the lease has expired: the worker stops its runs")
                    self._report_lost()
                    return
                except TimeoutError:
                    log.warning("the lease could not be renewed: no answer within %.1f s", deadline)
                except DuetimeError as error:
                    log.warning("the lease could not be renewed: %s", reason_of(error))
                await self._sleep(delay)
        finally:
            watch.cancel()
            loop_watch.cancel()
            await source.close()

    async def _watch(self) -> None:
        """Report the lease as lost when too little of it is left."""
        stop_after = self._lease.total_seconds() * _STOP_AT
        # Each successful renewal moves the deadline without waking this task.
        while (left := self._renewed_at + stop_after - monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        if not self._stopping.is_set():
            log.error("the lease could not be renewed in time: the worker stops its runs")
            self._report_lost()

    async def _watch_event_loop(self) -> None:
        """Warn when the worker's event loop is blocked. The lease is still renewed: a run that blocks the loop must not
        start a second time elsewhere. Ending the process is up to its supervisor."""
        while self._pulse is not None and self._thread is not None:
            await asyncio.sleep(_CHECK_EVERY)
            self._pulse.log_stall()

    async def _renew(self, source: Source) -> float:
        sent = monotonic()
        session = self._session
        # In this order, so that a claim that is answered in between is listed.
        answered, open_claims = session.answered, session.open_claims()
        renewal = await source.renew(session.id, self._lease, open_claims, answered)
        self._renewed_at = sent
        with contextlib.suppress(RuntimeError):
            self._home.call_soon_threadsafe(self._renewed, renewal)
        return spread(self._interval, _SPREAD)

    async def _sleep(self, delay: float) -> None:
        assert self._awake is not None
        # Never sleep past the deadline for stopping the runs.
        left = self._renewed_at + self._lease.total_seconds() * _STOP_AT - monotonic()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.01, min(delay, left))):
                await self._awake.wait()

    def _report_lost(self) -> None:
        with contextlib.suppress(RuntimeError):
            self._home.call_soon_threadsafe(self._lost, self._session)
