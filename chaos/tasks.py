"""The tasks of the workload. Each writes down when it began and how it ended, before it does anything else about it."""

import asyncio
from collections.abc import Callable
from itertools import count

from chaos.history import Writer
from duetime import App, Context


class Broken(Exception):
    """What a task raises that was told to fail."""


def add_tasks(app: App, writer: Writer, now: Callable[[], float], node: str) -> None:
    """`now` tells true time; `node` names the process."""
    numbers = count(1)

    @app.task(name="work")
    async def work(ctx: Context, tag: str, seconds: float = 0.0, fail: int = 0) -> str:
        """Take some seconds, and fail the first `fail` attempts."""
        nonce = f"{node}:{next(numbers)}"

        def end(how: str) -> None:
            writer.write("seen", {"what": "end", "t": now(), "nonce": nonce, "how": how})

        writer.write(
            "seen",
            {
                "what": "start",
                "t": now(),
                "tag": tag,
                "job": ctx.job_id,
                "run": ctx.run_id,
                "due": ctx.due_at.timestamp(),
                "attempt": ctx.attempt,
                "lost": ctx.lost,
                "nonce": nonce,
                "node": node,
            },
        )
        try:
            if seconds:
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            end("stopped")
            raise
        if ctx.attempt <= fail:
            end("failed")
            raise Broken(f"attempt {ctx.attempt} was to fail")
        end("done")
        return nonce
