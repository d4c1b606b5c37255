"""Workers of a stream are killed, stopped for longer than a lease, and added while messages arrive. No message is lost,
and none is given to a second worker as if it were the first."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

from duetime.streams.address import broker_at
from tests.support.broker_server import BrokerServer
from tests.support.brokers import BROKERS, running
from tests.support.waiting import eventually

LEASE = 2.0
FAULTS = 8


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", BROKERS, ids=lambda kind: kind.kind)
async def test_workers_that_die_or_hang_lose_nothing(kind: type[BrokerServer], tmp_path: Path) -> None:
    server = running(kind)
    broker = await broker_at(server.address)
    await broker.open()
    stream = f"test_{uuid4().hex}"
    await broker.check([stream])
    accepted: set[bytes] = set()
    workers: list[subprocess.Popen[bytes]] = []

    def add() -> None:
        file = tmp_path / uuid4().hex
        command = ["tests.support.stream_worker", server.address, stream, str(LEASE), str(file)]
        workers.append(subprocess.Popen([sys.executable, "-m", *command]))

    def seen() -> dict[bytes, Counter[bytes]]:
        words: dict[bytes, Counter[bytes]] = {word: Counter() for word in (b"first", b"again", b"done")}
        for file in tmp_path.iterdir():
            for line in file.read_bytes().splitlines(keepends=True):
                word, _, body = line.rstrip().partition(b" ")
                if line.endswith(b"\n"):
                    words[word][body] += 1
        return words

    async def publish() -> None:
        while True:
            bodies = [b"%d" % number for number in range(len(accepted), len(accepted) + 20)]
            await broker.publish(stream, bodies)
            accepted.update(bodies)
            await asyncio.sleep(0.05)

    def more_done_than(count: int) -> bool:
        return len(seen()[b"done"]) > count

    faults = random.Random(kind.kind)
    try:
        for _ in range(3):
            add()
        publishing = asyncio.create_task(publish())
        for number in range(FAULTS):
            await eventually(lambda: more_done_than(len(accepted) // 2), within=100)
            worker = faults.choice(workers)
            if number % 2:
                os.kill(worker.pid, signal.SIGSTOP)
                await asyncio.sleep(1.5 * LEASE)
                os.kill(worker.pid, signal.SIGCONT)
            else:
                worker.kill()
                worker.wait()
                workers.remove(worker)
                add()
        publishing.cancel()
        await asyncio.wait([publishing])
        await eventually(lambda: accepted <= seen()[b"done"].keys(), within=100)
        twice = [body for body, count in seen()[b"first"].items() if count > 1]
        assert not twice
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        await broker.close()
