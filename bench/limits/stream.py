"""Through a Redis stream to history: messages of one packed field, 500 in a read, history written while the next are
read, then acknowledged and deleted. One connection to each, durable commits, and no check for messages that come
twice."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg
import msgspec
from redis.asyncio import Redis

from bench.limits.drain import ARGS, BATCH, TABLES
from duetime.ids import new_ids

STREAM, GROUP = "pinned", "pinned"
_INSERT = """
insert into pinned.history
select x.id, 1, 1, x.job_id, 1, 1, 2, to_timestamp(x.due / 1e6), to_timestamp(x.started / 1e6), now(), $5, null, x.args
from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $6::bytea[]) as x(id, job_id, due, started, args)
"""


class Message(msgspec.Struct, array_like=True, gc=False):
    run_id: UUID
    job_id: UUID
    tenant_id: int
    task: str
    due: int
    args: bytes
    timeout_ms: int


_encode = msgspec.msgpack.Encoder(uuid_format="bytes").encode
decode = msgspec.msgpack.Decoder(Message).decode


def bodies(runs: int) -> Iterator[list[bytes]]:
    """Packed runs, a thousand at a time."""
    due = time.time_ns() // 1000
    for start in range(0, runs, 1000):
        pairs = zip(*[iter(new_ids(2 * min(1000, runs - start)))] * 2, strict=True)
        yield [_encode(Message(run_id, job_id, 1, "nothing", due, ARGS, 30_000)) for run_id, job_id in pairs]


class Drained(NamedTuple):
    rate: float
    """Runs a second."""
    cpu: float
    """Microseconds of the loop's CPU per run."""


async def drain_redis(dsn: str, url: str, runs: int) -> Drained:
    """From a stream to history."""
    redis: Redis = Redis.from_url(url, protocol=2)
    redis.set_response_callback("XREADGROUP", _unchanged)  # type: ignore[arg-type]
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(TABLES)
        await _fill(redis, runs)
        began, spent = time.perf_counter(), time.process_time()
        await _drain(redis, connection, runs)
        return Drained(runs / (time.perf_counter() - began), (time.process_time() - spent) / runs * 1e6)
    finally:
        await redis.delete(STREAM)
        await redis.aclose()
        await connection.close()


def _unchanged(answer: Any, **_: Any) -> Any:
    """The client would turn every message into a dictionary."""
    return answer


async def _ask(redis: Redis, *command: Any) -> Any:
    return await redis.execute_command(*command)  # type: ignore[no-untyped-call]


async def _fill(redis: Redis, runs: int) -> None:
    await _ask(redis, "XGROUP", "CREATE", STREAM, GROUP, "0", "MKSTREAM")
    for batch in bodies(runs):
        pipeline = redis.pipeline(transaction=False)
        for body in batch:
            pipeline.execute_command("XADD", STREAM, "*", "m", body)
        await pipeline.execute()


async def _drain(redis: Redis, connection: "asyncpg.Connection[Any]", runs: int) -> None:
    worker = new_ids(1)[0]
    writing: asyncio.Task[None] | None = None
    done = 0
    while done < runs:
        command = ("XREADGROUP", "GROUP", GROUP, "one", "COUNT", BATCH, "STREAMS", STREAM, ">")
        ((_, entries),) = await _ask(redis, *command)
        messages = [decode(fields[1]) for _, fields in entries]
        if writing is not None:
            await writing
        writing = asyncio.create_task(_write(redis, connection, worker, [entry[0] for entry in entries], messages))
        done += len(entries)
    if writing is not None:
        await writing


async def _write(
    redis: Redis,
    connection: "asyncpg.Connection[Any]",
    worker: UUID,
    ids: Sequence[bytes],
    messages: Sequence[Message],
) -> None:
    await write_history(connection, worker, messages)
    pipeline = redis.pipeline(transaction=True)
    pipeline.execute_command("XACK", STREAM, GROUP, *ids)
    pipeline.execute_command("XDEL", STREAM, *ids)
    await pipeline.execute()


async def write_history(connection: "asyncpg.Connection[Any]", worker: UUID, messages: Sequence[Message]) -> None:
    started = time.time_ns() // 1000
    await connection.execute(
        _INSERT,
        [each.run_id for each in messages],
        [each.job_id for each in messages],
        [each.due for each in messages],
        [started] * len(messages),
        worker,
        [each.args for each in messages],
    )
