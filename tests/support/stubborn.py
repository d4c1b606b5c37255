"""An app whose tasks do not end: not when they are told to, not when they are cancelled. Each leaves a file when it
has begun, with the id of its process."""

import asyncio
import os
import time
from pathlib import Path

import duetime

app = duetime.App()


def begin(name: str) -> None:
    Path(f"{name}.new").write_text(str(os.getpid()))
    Path(f"{name}.new").rename(name)


@app.task
def thread() -> None:
    begin("thread")
    while True:
        time.sleep(60)


@app.task
async def loop() -> None:
    begin("loop")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


@app.task(process=True)
def child() -> None:
    begin("child")
    while True:
        time.sleep(60)


@app.on_start
async def plan() -> None:
    for task in (thread, loop, child):
        await task.submit()
