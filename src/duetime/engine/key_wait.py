"""Waiting for a job's `key` while another transaction holds it.

The store never waits for a key that another transaction holds: it raises `KeyInFlight`. For an idempotency key that is
the answer: the outcome of the duplicate is not known yet, so the caller must retry. For `key`, which names one live
job, the other transaction is an ordinary submission that ends in a moment, and whatever its result, this submission has
a defined effect: it changes nothing, or it edits the job. So the submission is retried, without holding a connection
while it waits.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from duetime.clock import monotonic
from duetime.errors import KeyInFlight

T = TypeVar("T")

LONGEST = 10.0
"""Seconds: a transaction that holds a key for longer is stuck, and the caller gets the error."""
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.25


async def retry_while_key_is_held(store: Callable[[], Awaitable[T]]) -> T:
    """Call `store`, and again while another transaction holds the key."""
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
