"""Functions whose module takes a second to import, in a child."""

import multiprocessing
import time

if multiprocessing.parent_process() is not None:
    time.sleep(1)


def quick() -> str:
    return "in time"


def hang() -> None:
    while True:
        time.sleep(60)
