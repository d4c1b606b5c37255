"""A process whose only task blocks the event loop that it runs on: `python -m tests.support.stuck data-folder sleep`.

`sleep` blocks in Python, `read` in C code that no handler of Python interrupts. It prints the port of its metrics, and
blocks once its folder holds a file called `go`. It counts as dead after a second."""

import asyncio
import ctypes
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import duetime
from duetime.cli.run import run_until_stopped, start_logging
from duetime.node.assembly import Node
from duetime.settings import Settings
from duetime.store.protocol.store import Store


def main(folder: Path, how: str) -> None:
    app = duetime.App()

    @app.task
    async def stuck() -> None:
        while not (folder / "go").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        if how == "sleep":
            time.sleep(3600)
        else:
            ctypes.CDLL(None).read(os.pipe()[0], ctypes.create_string_buffer(1), 1)

    @app.on_start
    async def plan() -> None:
        await stuck.submit()

    settings = Settings(data_dir=folder, port=0, metrics_port=0, heartbeat=timedelta(seconds=1))
    start_logging(settings, json=True)
    app.configure(settings)
    node = Node(settings, app=app, migrate=True)
    node.meters.pulse.log_after = node.meters.pulse.dead_after = 1.0

    async def ready(store: Store, server: object) -> None:
        print(node.metrics_port, flush=True)

    run_until_stopped(node.run(ready), json=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
