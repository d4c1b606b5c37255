"""What is cached is read once, however many callers need it at the same time."""

import asyncio

import pytest

from duetime.api.lookup_cache import Memory


async def test_concurrent_callers_share_one_reading() -> None:
    memory: Memory[str, int] = Memory(60.0)
    reads = 0
    answered = asyncio.Event()

    async def read() -> int:
        nonlocal reads
        reads += 1
        await answered.wait()
        return reads

    callers = [asyncio.ensure_future(memory.read("tenant", read)) for _ in range(64)]
    await asyncio.sleep(0)
    callers[0].cancel()  # the others get their answer all the same
    answered.set()
    assert await asyncio.gather(*callers[1:]) == [1] * 63
    assert await memory.read("tenant", read) == 1, "it is cached for as long as the memory does, however quick it was"


async def test_a_reading_that_failed_is_repeated() -> None:
    memory: Memory[str, int] = Memory(60.0)

    async def fail() -> int:
        raise OSError("away")

    async def read() -> int:
        return 7

    with pytest.raises(OSError, match="away"):
        await memory.read("tenant", fail)
    assert await memory.read("tenant", read) == 7
