"""Signals that stop a process: the first one gracefully, the second at once, even when the event loop hangs.

An event loop's handler runs on the loop, and Python's in the main thread, so neither runs while a task blocks both in
some library. The interpreter itself always reacts to a signal: it writes a byte to a socket. A thread reads it,
notifies the event loop, and ends the process when the event loop does not react to a second signal.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType

log = logging.getLogger("duetime")

_KINDS = (signal.SIGTERM, signal.SIGINT)
_REACTION_TIME = 1.0
"""Seconds in which a live event loop reacts to a signal."""


@contextlib.contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on this event loop at each signal inside the block; exit the process when it does not react to the
    second."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    listener = _Listener(ours, before, asyncio.get_running_loop(), stop)
    listener.start()
    # Installed after the listener starts and removed before it stops: otherwise a signal in between would be lost.
    handlers = {kind: signal.signal(kind, _ignore) for kind in _KINDS}
    for kind in _KINDS:
        signal.siginterrupt(kind, False)
    try:
        yield
    finally:
        for kind, handler in handlers.items():
            signal.signal(kind, handler)
        signal.set_wakeup_fd(before)
        listener.end()
        theirs.close()


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing: the listener handles the signal. Without a handler the signal would end the process."""


class _Listener(threading.Thread):
    def __init__(
        self, socket: socket.socket, before: int, loop: asyncio.AbstractEventLoop, stop: Callable[[], None]
    ) -> None:
        super().__init__(name="duetime-signals", daemon=True)
        self._socket = socket
        self._before = before
        self._loop = loop
        self._stop_loop = stop
        self._reacted = threading.Event()
        self._over = threading.Event()

    def end(self) -> None:
        self._over.set()
        self._reacted.set()

    def run(self) -> None:
        times = 0
        with self._socket:
            while byte := self._socket.recv(1):
                if byte[0] in _KINDS:
                    times += 1
                    self._pass_on(byte[0], times)
                elif self._before != -1:
                    # Forward the byte to the event loop's own wake-up socket, so that other handlers run.
                    with contextlib.suppress(OSError):
                        os.write(self._before, byte)

    def _pass_on(self, number: int, times: int) -> None:
        self._reacted.clear()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._hear)
        if self._over.is_set() or self._reacted.wait(_REACTION_TIME):
            return
        if times > 1:
            log.error(
                "the event loop hangs: exiting now; running attempts start on other workers when the lease expires"
            )
            os._exit(128 + number)
        log.warning("the event loop hangs: stopping when it runs again; send a second signal to exit now")

    def _hear(self) -> None:
        self._reacted.set()
        self._stop_loop()
