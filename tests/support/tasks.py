"""Functions for processes of their own: a child finds them by the name of their module."""

import asyncio
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from duetime import GiveUp, LeaseLost, Snooze, SyncContext, current_context

left_behind: list[threading.Thread] = []
refused: list[str] = []
"""What those were told."""


def square(number: int) -> int:
    return number * number


async def async_square(number: int) -> int:
    await asyncio.sleep(0)
    return number * number


def process_id() -> int:
    return os.getpid()


def die(marker: str = "") -> str:
    """Killed at once; with a marker, only the first time."""
    if marker:
        if Path(marker).exists():
            return "alive"
        Path(marker).touch()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def leave(code: int) -> None:
    os._exit(code)


def hang(ctx: SyncContext) -> None:
    """Says that it has begun, and never ends."""
    ctx.progress(0.5, f"in process {os.getpid()}")
    while True:
        time.sleep(60)


def run_a_command(ctx: SyncContext, note: str) -> None:
    """Waits for a command that goes on when this process is gone; its id stands in the note."""
    ctx.progress(0.5)
    os.system(f"echo $$ > {note}; exec sleep 60")


def fork(ctx: SyncContext, note: str) -> None:
    """Waits for a copy of itself that goes on when this process is gone; its id stands in the note."""
    ctx.progress(0.5)
    copy = os.fork()
    if not copy:
        time.sleep(60)
        os._exit(0)
    Path(note).write_text(str(copy))
    os.waitpid(copy, 0)


def nap(seconds: float) -> None:
    time.sleep(seconds)


def fail(text: str) -> None:
    raise LookupError(text)


def say(what: str) -> Any:
    if what == "give up":
        raise GiveUp("no use")
    if what == "snooze":
        return Snooze("1h")
    return None


def give(what: str) -> Any:
    """Results that cannot be kept, and one that can."""
    return {"large": "x" * 100_000, "not JSON": object(), "NUL": "a\x00b"}[what]


def resume(ctx: SyncContext) -> list[Any]:
    """Fails once after saving a checkpoint; then tells what it found."""
    if ctx.last_checkpoint is None:
        ctx.logger.warning("first attempt of %s", ctx.task)
        ctx.checkpoint({"done": 3})
        raise ConnectionError("cut off")
    assert current_context() is ctx
    return [ctx.attempt, ctx.last_checkpoint, ctx.queue]


def names_of_parents(ctx: SyncContext) -> list[Any]:
    return sorted([parent.name, parent.value] for parent in ctx.parents())


def leave_a_thread(ctx: SyncContext, asks_after: float, ends_after: float) -> None:
    """Returns while a thread of it goes on to talk."""

    def go_on() -> None:
        time.sleep(asks_after)
        for ask in (lambda: ctx.checkpoint(1), ctx.parents):
            ctx.logger.warning("left behind")
            ctx.progress(0.7, "left behind")
            try:
                ask()
            except LeaseLost as error:
                refused.append(str(error))

    left_behind.append(threading.Thread(target=go_on, daemon=True))
    left_behind[-1].start()
    time.sleep(ends_after)


def refusals() -> list[str]:
    """What was refused in this child, once nothing goes on there."""
    for thread in left_behind:
        thread.join(10)
    return refused


def save_in_threads(ctx: SyncContext, threads: int, times: int) -> int:
    """Saves checkpoints from many threads at once; returns how many."""
    with ThreadPoolExecutor(threads) as pool:
        return len(list(pool.map(ctx.checkpoint, range(threads * times))))


def fail_without_words(text: str) -> None:
    """Its error does not repeat what it was given."""
    raise LookupError("no such card")
