"""The tasks that are measured: they do nothing, but for one, and for saying when they began."""

import asyncio

from bench.peers.tally import hit
from duetime import App, Context, RetryPolicy

app = App()


@app.task(name="nothing", timeout="30s")
async def nothing(sent: float, to: str) -> None:
    hit(sent)


@app.task(name="nothing_in_a_thread", timeout="30s")
def nothing_in_a_thread(sent: float, to: str) -> None:
    hit(sent)


@app.task(name="nothing_in_a_process", timeout="30s", process=True)
def nothing_in_a_process(sent: float, to: str) -> None:
    hit(sent)


@app.task(name="computing", timeout="30s")
async def computing(sent: float, to: str) -> None:
    """As much to compute each time, about 50 µs of a core: by a clock it would be less where cores are crowded."""
    hit(sent)
    sum(number * number for number in range(650))


@app.task(name="fails_once", timeout="30s", retry=RetryPolicy(retries=1, base=1.0))
async def fails_once(ctx: Context, sent: float, to: str) -> None:
    if ctx.attempt == 1:
        raise RuntimeError("the first attempt fails")
    hit(sent)


@app.task(name="report")
async def report(ctx: Context, to: str) -> None:
    """What stored jobs run: counted from when it was due."""
    hit(ctx.due_at.timestamp())


@app.task(name="asleep")
async def asleep(to: str) -> None:
    await asyncio.sleep(3600)


async def on_the_loop(to: str) -> None:
    """Nothing at all, for workers that are watched from inside."""


def blocking(to: str) -> None:
    """The same, as a plain function."""
