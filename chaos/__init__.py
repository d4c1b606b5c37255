"""duetime attacked on purpose: a workload, faults, and a checker that only reads what they wrote down.

`python -m chaos run` breaks real processes, `python -m chaos simulate` a simulated cluster, thousands of times.
"""

import os
import select
import time

from chaos.real.environment import AHEAD

if AHEAD in os.environ:
    # libfaketime mistakes the monotonic deadline of `time.sleep`. Here, because other modules import the function.
    time.sleep = lambda seconds: select.select([], [], [], float(seconds)) and None
