"""What every peer's driver can do, and the commands by which the harness asks for it.

    python -m bench.peers.driver <peer> reset | submit N single|bulk | send RATE SECONDS | plan RATE SECONDS | work

Nothing but the standard library: this is imported inside the peers' environments.
"""

import asyncio
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

ARGUMENT = "x" * 180
"""With the moment of sending beside it, arguments come to about 200 bytes."""
TICK = 0.01
AHEAD = float(os.environ.get("PEER_AHEAD", "18"))
"""Jobs are submitted so many seconds before the first of them is due: no peer looks ahead that far."""


PLANS = "PEER_PLANS" in os.environ
"""Whether jobs are planned ahead: who polls for what is due does so ten times a second then."""


class Driver:
    """A peer in its best documented settings. `url` is its broker or database."""

    run: Callable[..., Any] = staticmethod(asyncio.run)
    """What runs coroutines: uvloop's, where that is its best."""

    def __init__(self) -> None:
        self.url = os.environ["PEER_URL"]

    async def open(self) -> None:
        """Connect, for submitting."""

    async def close(self) -> None:
        """Disconnect."""

    async def reset(self) -> None:
        """Make tables, or throw away what is there."""
        raise NotImplementedError

    async def submit(self, moments: Sequence[float], *, bulk: bool) -> None:
        """Submit a no-op job for each of these moments; in bulk where the peer offers that."""
        raise NotImplementedError

    async def plan(self, moments: Sequence[float]) -> None:
        """Submit a no-op job to be started at each of these moments."""
        raise NotImplementedError

    def work(self) -> None:
        """Run jobs until a signal comes."""
        raise NotImplementedError


async def submit(driver: Driver, count: int, *, bulk: bool) -> float:
    """Seconds that it took to submit so many."""
    await driver.submit([time.time()], bulk=bulk)  # connections are made, code is warm
    began = time.perf_counter()
    for start in range(0, count - 1, 1000):
        await driver.submit([time.time()] * min(1000, count - 1 - start), bulk=bulk)
    return time.perf_counter() - began


async def send(driver: Driver, rate: float, seconds: float) -> int:
    """Submit at a fixed rate. Each job carries the moment at which it should have been sent: a peer that cannot be fed
    fast enough is late, whatever the cause."""
    began, sent = time.time(), 0
    wanted = int(rate * seconds)
    while sent < wanted:
        elapsed = time.time() - began
        # No more than a tick's worth of 50 at once, so that one who is behind does not wait for one huge batch.
        due = min(wanted, int(elapsed * rate) + 1, sent + max(1, int(rate * TICK * 50)))
        if due > sent:
            await driver.submit([began + number / rate for number in range(sent, due)], bulk=True)
            sent = due
        if elapsed > 3 * seconds:
            break
        await asyncio.sleep(max(0.0, min(began + sent / rate - time.time(), 1.0) if rate < 1 / TICK else TICK))
    return sent


async def plan(driver: Driver, rate: float, seconds: float) -> int:
    """Submit jobs that are due at moments spread over some seconds, a while from now."""
    began, dice = time.time() + AHEAD, random.Random(1)
    moments = sorted(began + dice.uniform(0, seconds) for _ in range(int(rate * seconds)))
    await driver.plan(moments)
    if time.time() > began:
        raise SystemExit("it took so long to submit them that the first was due")
    return len(moments)


async def _do(driver: Driver, command: str, arguments: list[str]) -> float | int | None:
    await driver.open()
    try:
        match command, arguments:
            case "reset", []:
                await driver.reset()
                return None
            case "submit", [count, how]:
                return await submit(driver, int(count), bulk=how == "bulk")
            case "send", [rate, seconds]:
                return await send(driver, float(rate), float(seconds))
            case "plan", [rate, seconds]:
                return await plan(driver, float(rate), float(seconds))
        raise SystemExit(f"no command {command} {arguments}")
    finally:
        await driver.close()


def main() -> None:
    # By its real name, which a driver's tasks are found by.
    name, command, *arguments = sys.argv[1:]
    driver: Driver = importlib.import_module(f"bench.peers.drivers.{name}").DRIVER()
    if command == "work":
        driver.work()
    else:
        print(json.dumps(driver.run(_do(driver, command, arguments))), flush=True)


if __name__ == "__main__":
    importlib.import_module("bench.peers.driver").main()
