"""`python -m bench.limits.submitting <dsn> <jobs> <batch>`: a process that submits to the tables of the drain. It says
`ready` when it is connected, and begins when it is told to."""

import sys

import asyncpg
import uvloop

from bench.limits.submit import submit_pinned


async def _submit(dsn: str, jobs: int, batch: int) -> None:
    connection = await asyncpg.connect(dsn)
    print("ready", flush=True)
    sys.stdin.readline()
    await submit_pinned(connection, jobs, batch)
    await connection.close()


if __name__ == "__main__":
    uvloop.run(_submit(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
