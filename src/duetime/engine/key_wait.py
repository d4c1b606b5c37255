"""Waiting for a job's `key` while another transaction holds it.

The store never waits for a key that another transaction holds: it raises `KeyInFlight`. For an idempotency key, that is
the answer: the outcome of the other request is not known yet, so the caller must ask again. For `key`, which names one
live job, the other transaction is an ordinary submission that ends in a moment. Whatever it leaves behind, this
submission has a defined effect: it changes nothing, or it edits the job. So it waits for its turn, and holds no
connection meanwhile.
"""

import asyncio
import random

from duetime.clock import monotonic
from duetime.errors import KeyInFlight

LONGEST = 10.0
"""Seconds: a transaction that holds a key for longer is stuck, and the caller gets the error."""
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.25


class KeyWait:
    """The turns of one submission."""

    def __init__(self) -> None:
        self._deadline = monotonic() + LONGEST
        self._pause = _FIRST_PAUSE

    async def turn(self, error: KeyInFlight) -> None:
        """Wait before the next try. Raises the error where there is nothing to wait for."""
        if error.field != "key" or monotonic() > self._deadline:
            raise error
        await asyncio.sleep(random.uniform(self._pause / 2, self._pause))
        self._pause = min(_LONGEST_PAUSE, self._pause * 2)
