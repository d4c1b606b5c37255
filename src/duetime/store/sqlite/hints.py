"""Wake-ups inside the process: coalesced, on the listener's event loop, never needed for correctness."""

import asyncio
import contextlib
from collections.abc import Callable
from threading import Lock

from duetime.store.protocol.store import Hint


class _Listener:
    def __init__(self, callback: Callable[[Hint], None]) -> None:
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._guard = Lock()
        self._pending: set[Hint] = set()

    def notify(self, hint: Hint) -> None:
        with self._guard:
            if hint in self._pending:
                return
            self._pending.add(hint)
        # A closed loop does not listen.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._hear, hint)

    def _hear(self, hint: Hint) -> None:
        with self._guard:
            self._pending.discard(hint)
        self._callback(hint)


class Hints:
    def __init__(self) -> None:
        self._listeners: tuple[_Listener, ...] = ()

    def give(self, hint: Hint) -> None:
        for listener in self._listeners:
            listener.notify(hint)

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        listener = _Listener(callback)
        self._listeners = (*self._listeners, listener)

        def stop() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return stop

    def close(self) -> None:
        self._listeners = ()
