"""Huey on Redis: four worker processes, blocking reads, no results, no periodic tasks."""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from huey import RedisHuey

from bench.peers.driver import ARGUMENT, Driver
from bench.peers.tally import hit

WORKERS = int(os.environ.get("PEER_WORKERS", "4"))
KIND = os.environ.get("PEER_KIND", "process")

huey = RedisHuey("bench", url=os.environ["PEER_URL"], results=False, blocking=True)


@huey.task(name="nothing")
def nothing(sent: float, to: str) -> None:
    hit(sent)


class HueyDriver(Driver):
    async def reset(self) -> None:
        huey.flush()

    async def submit(self, moments: Sequence[float], *, bulk: bool) -> None:
        for moment in moments:
            nothing(moment, ARGUMENT)

    async def plan(self, moments: Sequence[float]) -> None:
        for moment in moments:
            nothing.schedule(args=(moment, ARGUMENT), eta=datetime.fromtimestamp(moment, UTC))

    def work(self) -> None:
        command = [sys.executable, "-m", "huey.bin.huey_consumer", "bench.peers.drivers.huey.huey"]
        workers = ("--workers", str(WORKERS), "--worker-type", KIND)
        os.execv(command[0], [*command, *workers, "--no-periodic", "--quiet", "--disable-health-check"])


DRIVER = HueyDriver
