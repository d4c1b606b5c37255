"""Taking turns at a job's `key`.

The store never waits for a key that another transaction holds: it raises `KeyInFlight`. For an idempotency key that is
the answer: the twin's outcome is not known yet, so the caller must ask again. For `key`, which names one live job, the
other transaction is an ordinary submission that is over in a moment, and whatever it leaves behind, this one has a
defined effect: it changes nothing, or it edits the job. So it waits its turn, holding no connection while it waits.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from duetime.clock import monotonic
from duetime.errors import KeyInFlight

T = TypeVar("T")

LONGEST = 10.0
"""Seconds: a transaction that holds a key for longer is stuck, and the caller is told."""
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.25


async def in_turn(store: Callable[[], Awaitable[T]]) -> T:
    """Store what may carry a `key`, again while another transaction holds that key."""
    deadline = monotonic() + LONGEST
    bound = _FIRST_PAUSE
    while True:
        try:
            return await store()
        except KeyInFlight as error:
            if error.field != "key" or monotonic() > deadline:
                raise
        await asyncio.sleep(random.uniform(bound / 2, bound))
        bound = min(_LONGEST_PAUSE, bound * 2)
