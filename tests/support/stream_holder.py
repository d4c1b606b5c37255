"""A consumer in a process of its own, to be killed: `python -m tests.support.stream_holder address stream name lease
count`. It prints each message that it holds, then `extended` each time that it has extended them."""

import asyncio
import sys

from duetime.streams.address import broker_at
from duetime.streams.protocol import Delivery


async def hold(address: str, stream: str, name: str, lease: float, count: int) -> None:
    broker = await broker_at(address)
    await broker.open()
    consumer = await broker.consumer([stream], name, lease)
    held: list[Delivery] = []
    while len(held) < count:
        found = await consumer.fetch([(stream, count - len(held))], 1)
        for delivery in found:
            print(f"{delivery.body.decode()} {'again' if delivery.redelivered else 'first'}", flush=True)
        held += found
    while True:
        await consumer.extend(held)
        print("extended", flush=True)
        await asyncio.sleep(lease / 4)


if __name__ == "__main__":
    address, stream, name, lease, count = sys.argv[1:]
    asyncio.run(hold(address, stream, name, float(lease), int(count)))
