"""Processes that want the cores all the time, and fill the caches with something else meanwhile.

Beside them one worker process is what one of many is: it is switched out again and again. By how much its runs get
dearer is what the model has to know of crowded cores; it learns that without ever seeing two workers.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

CROWD = 4
CROWDED = f"run, async, beside {CROWD} busy processes"
_BUSY = """
seen, number = {}, 0
while True:
    number += 1
    seen[number * 7919 & 65535] = seen.get(number * 104729 & 65535, 0) + 1
"""


@contextmanager
def crowd() -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(CROWD)]
    try:
        time.sleep(0.3)
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
