"""Signals that stop a process: each is heard, at whatever moment it comes."""

import signal
import sys
from types import FrameType
from typing import Any

import pytest

from duetime.process import signals
from tests.support.waiting import eventually

_LINES = 40
"""More than the block has, on its way in and out."""


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
async def test_none_is_swallowed_between_two_lines(kind: signal.Signals) -> None:
    heard: list[int] = []
    own = signal.signal(kind, lambda number, frame: heard.append(number))
    struck = 0
    try:
        for line in range(_LINES):
            trace = _strike_at(line, kind)
            sys.settrace(trace)
            try:
                with signals.stopped_by_signals(lambda: heard.append(kind)):
                    pass
            finally:
                sys.settrace(None)
            if trace.struck:
                struck += 1
                await eventually(lambda: heard, within=5, what=f"a signal at line {line}")
                heard.clear()
    finally:
        signal.signal(kind, own)
    assert struck > 15


def _strike_at(line: int, kind: signal.Signals) -> Any:
    """Raises a signal before so many lines of the block have run."""
    function = signals.stopped_by_signals.__wrapped__.__code__  # type: ignore[attr-defined]

    class Trace:
        lines = 0
        struck = False

        def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
            if frame.f_code is not function:
                return None
            if event == "line":
                if self.lines == line:
                    self.struck = True
                    signal.raise_signal(kind)
                self.lines += 1
            return self

    return Trace()
