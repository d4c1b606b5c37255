"""The tasks that test processes run. Each leaves its traces in the table `effects`, which has no unique key."""

import asyncio
import os
import signal
import time

import asyncpg

import duetime

app = duetime.App()

TABLE = """
create table if not exists effects (
    run_id text not null, what text not null, attempt integer not null, pid integer not null,
    at timestamptz not null default clock_timestamp())
"""
_pools: dict[int, asyncpg.Pool] = {}


async def leave(ctx: duetime.Context, what: str) -> None:
    pool = _pools.get(os.getpid())
    if pool is None:
        pool = _pools[os.getpid()] = await asyncpg.create_pool(os.environ["DUETIME_TEST_DSN"], min_size=0, max_size=4)
    await pool.execute(
        "insert into effects (run_id, what, attempt, pid) values ($1, $2, $3, $4)",
        ctx.run_id,
        what,
        ctx.attempt,
        os.getpid(),
    )


@app.task(name="append")
async def append(ctx: duetime.Context, number: int) -> None:
    await leave(ctx, "append")


@app.task(name="nothing")
async def nothing() -> None:
    pass


@app.task(name="hold")
async def hold(ctx: duetime.Context, seconds: float) -> None:
    await leave(ctx, "begin")
    await asyncio.sleep(seconds)
    await leave(ctx, "end")


@app.task(name="block")
async def block(ctx: duetime.Context, seconds: float) -> None:
    """A task that must not be written: it stops the event loop and everything on it."""
    await leave(ctx, "begin")
    time.sleep(seconds)


@app.task(name="poison")
async def poison(ctx: duetime.Context) -> None:
    await leave(ctx, "begin")
    os.kill(os.getpid(), signal.SIGKILL)
