"""A worker of a stream in a process of its own, to be killed and stopped. `python -m tests.support.stream_worker` takes
the address, the stream, the lease and a file. The worker writes a line to it for each message that it gets (`first` or
`again`), and `done` before it says so to the broker, as a worker commits in the store first."""

import asyncio
import random
import sys
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from duetime.errors import StreamUnavailable
from duetime.streams.address import broker_at
from duetime.streams.protocol import Delivery

AT_ONCE = 30


async def work(address: str, stream: str, lease: float, file: Path) -> None:
    broker = await broker_at(address)
    await broker.open()
    consumer = await broker.consumer([stream], uuid4().hex, lease)
    held: set[Delivery] = set()
    tasks = set()

    with file.open("ab", buffering=0) as log:

        def write(word: bytes, deliveries: list[Delivery]) -> None:
            log.write(b"".join(b"%s %s\n" % (word, delivery.body) for delivery in deliveries))

        async def finish(deliveries: list[Delivery]) -> None:
            await asyncio.sleep(random.uniform(0, lease / 5))
            random.shuffle(deliveries)
            for start in range(0, len(deliveries), 7):
                ended = deliveries[start : start + 7]
                write(b"done", ended)
                with suppress(StreamUnavailable):
                    await consumer.done(ended)
                held.difference_update(ended)

        async def extend() -> None:
            while True:
                await asyncio.sleep(lease / 5)
                with suppress(StreamUnavailable):
                    await consumer.extend(list(held))

        tasks.add(asyncio.create_task(extend()))
        while True:
            try:
                found = await consumer.fetch([(stream, AT_ONCE)], lease / 4)
            except StreamUnavailable:
                await asyncio.sleep(0.1)
                continue
            held.update(found)
            write(b"first", [delivery for delivery in found if not delivery.redelivered])
            write(b"again", [delivery for delivery in found if delivery.redelivered])
            task = asyncio.create_task(finish(found))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    address, stream, lease, file = sys.argv[1:]
    asyncio.run(work(address, stream, float(lease), Path(file)))
