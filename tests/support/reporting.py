"""An app that reports to Sentry, and fails in every way; run as a program with the address of a receiver."""

import asyncio
import logging
import sys

import sentry_sdk

import duetime
from duetime.integrations import sentry
from duetime.testing import harness

app = duetime.App()
quickly = duetime.RetryPolicy(retries=1, base=0.001)


def fail(card: str) -> None:
    logging.getLogger("shop").warning("charging")
    raise LookupError("no such card")


@app.task(name="in_the_loop", retry=quickly)
async def in_the_loop(card: str) -> None:
    fail(card)


@app.task(name="in_a_thread", retry=quickly)
def in_a_thread(card: str) -> None:
    fail(card)


@app.task(name="in_a_process", retry=quickly, process=True)
def in_a_process(card: str) -> None:
    fail(card)


@app.task(name="slow", retries=0, timeout=0.05)
async def slow(card: str) -> None:
    await asyncio.sleep(60)


@app.task(name="good")
async def good(card: str) -> None:
    sentry_sdk.capture_message("all is well")


everything = duetime.App()


@everything.task(name="asked_for", retry=quickly)
async def asked_for(card: str) -> None:
    fail(card)


async def run(app: duetime.App) -> None:
    async with harness(app) as jobs:
        for task in app.tasks.values():
            await task.submit(card="4111-1111" if app is not everything else "5500-0000")
        await jobs.advance(minutes=1, timeout="60s")


if __name__ == "__main__":
    sentry_sdk.init(dsn=sys.argv[1], shutdown_timeout=20)
    sentry.install(app)
    sentry.install(everything, retries=True, send_args=True)
    asyncio.run(run(app))
    asyncio.run(run(everything))
