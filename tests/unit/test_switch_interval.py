"""The thread switch interval is short while a user needs it, and restored after the last one."""

import sys
from contextlib import ExitStack

from duetime.worker.switch_interval import short_switch_interval


def test_turns_are_as_they_were_when_the_last_one_has_ended() -> None:
    before = sys.getswitchinterval()
    one, other = ExitStack(), ExitStack()
    one.enter_context(short_switch_interval())
    other.enter_context(short_switch_interval())
    one.close()
    assert sys.getswitchinterval() < before
    other.close()
    assert sys.getswitchinterval() == before


def test_who_wants_even_quicker_turns_keeps_them() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    try:
        with short_switch_interval():
            assert sys.getswitchinterval() < 0.00011
    finally:
        sys.setswitchinterval(before)
