"""What the workers of the scenario `breaker` run: it calls a target, which is down as long as a file says so. Each call
leaves a line with its time and whether it succeeded."""

import os
import time
from pathlib import Path

from duetime import App

app = App()
_DOWN = Path(os.environ["BENCH_FOLDER"]) / "down"
_CALLS = (Path(os.environ["BENCH_FOLDER"]) / f"calls-{os.getpid()}").open("a", buffering=1)


@app.task(name="call")
async def call() -> None:
    is_down = _DOWN.exists()
    _CALLS.write(f"{time.time()} {int(not is_down)}\n")
    if is_down:
        raise ConnectionError("the target is down")
