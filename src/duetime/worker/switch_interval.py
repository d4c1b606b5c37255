"""The interpreter's thread switch interval."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_QUICK = 0.0002
_guard = Lock()
_wanted = 0
_usual = 0.0


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Let the thread of an embedded store continue as soon as it can. By default it would stall for 5 ms after every
    statement while tasks keep the interpreter busy, and delay every claim and completion."""
    global _wanted, _usual
    with _guard:
        if not _wanted:
            _usual = sys.getswitchinterval()
            sys.setswitchinterval(min(_usual, _QUICK))
        _wanted += 1
    try:
        yield
    finally:
        with _guard:
            _wanted -= 1
            if not _wanted:
                sys.setswitchinterval(_usual)
