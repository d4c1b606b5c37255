"""Turns of threads: quick while anybody wants it, as before when nobody does any more."""

import sys
from contextlib import ExitStack

from duetime.worker.switching import quick_turns


def test_turns_are_as_they_were_when_the_last_one_has_ended() -> None:
    before = sys.getswitchinterval()
    one, other = ExitStack(), ExitStack()
    one.enter_context(quick_turns())
    other.enter_context(quick_turns())
    one.close()
    assert sys.getswitchinterval() < before
    other.close()
    assert sys.getswitchinterval() == before


def test_who_wants_even_quicker_turns_keeps_them() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    try:
        with quick_turns():
            assert sys.getswitchinterval() < 0.00011
    finally:
        sys.setswitchinterval(before)
