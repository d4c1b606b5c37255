"""Keeps child processes from repeating what a program does when it is imported.

A spawned child imports the main script of its program, and a child of the worker also the module of its function. What
they do at import, every child does again: a script that starts its app there would start it in each child, and submit
its jobs once more. So until the import has ended, apps and clients cannot be used.

A child of the worker that is refused something reports that and exits at once: code around the call may catch every
exception, and wait. In other children, and while the module of a function is imported, the call raises.
"""

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

from duetime.errors import ImportedByChild
from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Failed, Outcome
from duetime.worker.frames import pack

REFUSED = "refused"
"""The kind of the message from a child that cannot start, with the reason."""
_NAME = "duetime-process-"
_GUARD = '`if __name__ == "__main__":`'


class _Import:
    """An import of a function's module. What it has started keeps its context variables, and may go on after it."""

    under_way = True


_current: ContextVar[_Import | None] = ContextVar("duetime_import", default=None)


def child_name(messages: int) -> str:
    """The name of a child of the worker. It is known in the child before its arguments are, and names the descriptor of
    its socket, which it inherits."""
    return f"{_NAME}{messages}"


@contextmanager
def importing() -> Iterator[None]:
    """Refuse to use apps and clients in this block, which imports the module of a function."""
    this = _Import()
    before = _current.set(this)
    try:
        yield
    finally:
        this.under_way = False
        _current.reset(before)


def refuse_at_import(what: str) -> None:
    """Raise `ImportedByChild` if this process is a child that imports a module; `what` completes "this line …"."""
    found = _current.get()
    if found is not None and found.under_way:
        raise _refusal(what)
    # Not imported here: a process without this module is no such child.
    processes = sys.modules.get("multiprocessing.process")
    if processes is None:
        return
    process = processes.current_process()
    if getattr(process, "_inheriting", False):
        refusal = _refusal(what)
        if process.name.startswith(_NAME):
            with socket.socket(fileno=int(process.name.removeprefix(_NAME))) as end:
                end.sendall(pack((REFUSED, 0, str(refusal))))
            os._exit(1)
        raise refusal


def never_starts(refusal: ImportedByChild) -> Outcome:
    """The outcome of a run whose child was refused something: a retry is useless, every child does the same."""
    return Failed(Failure(FailureClass.ERROR, f"its process cannot start: {refusal}", final=True))


def _refusal(what: str) -> ImportedByChild:
    frame = _imported_line()
    if frame is None or frame.f_globals.get("__name__") == "__mp_main__":
        where = "the main script" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        return ImportedByChild(
            f"{where} {what} when it is imported, and every child process imports it", remedy=f"put this below {_GUARD}"
        )
    return ImportedByChild(
        f"{frame.f_code.co_filename}:{frame.f_lineno} {what} when it is imported, and child processes import it",
        remedy=f"put this into a function that the main script calls below {_GUARD}, or that has @app.on_start",
    )


def _imported_line() -> FrameType | None:
    """The line at the top level of the module that is imported now. Imports happen in the main thread; the call may
    have been made there or on a background thread."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and (frame.f_code.co_name != "<module>" or _is_ours(frame)):
        frame = frame.f_back
    return frame


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] == "duetime"
