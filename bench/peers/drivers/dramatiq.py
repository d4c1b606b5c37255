"""Dramatiq on Redis: two processes of eight threads (more are faster than fewer), no more middleware than it needs to
run, a deep prefetch."""

import os
import sys
import time
from collections.abc import Sequence

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.driver import ARGUMENT, Driver
from bench.peers.tally import hit

PROCESSES = int(os.environ.get("PEER_PROCESSES", "2"))
THREADS = int(os.environ.get("PEER_THREADS", "8"))

broker = RedisBroker(url=os.environ["PEER_URL"], middleware=[])
dramatiq.set_broker(broker)


@dramatiq.actor
def nothing(sent: float, to: str) -> None:
    hit(sent)


class DramatiqDriver(Driver):
    async def reset(self) -> None:
        broker.flush_all()
        broker.client.flushdb()

    async def submit(self, moments: Sequence[float], *, bulk: bool) -> None:
        for moment in moments:
            nothing.send(moment, ARGUMENT)

    async def plan(self, moments: Sequence[float]) -> None:
        for moment in moments:
            nothing.send_with_options(args=(moment, ARGUMENT), delay=(moment - time.time()) * 1000)

    def work(self) -> None:
        os.environ["dramatiq_queue_prefetch"] = "1000"  # noqa: SIM112 (as it is read)
        command = [sys.executable, "-m", "dramatiq", "bench.peers.drivers.dramatiq"]
        options = ("--processes", str(PROCESSES), "--threads", str(THREADS), "--skip-logging")
        os.execv(command[0], [*command, *options])


DRIVER = DramatiqDriver
