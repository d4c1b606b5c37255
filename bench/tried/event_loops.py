"""uvloop in a drain, and the event loop of the standard library."""

import asyncio
from functools import partial

from bench.tried.ways import Ways, drained

WAYS: Ways = {"uvloop": drained, "asyncio": partial(drained, loop=asyncio.new_event_loop)}
