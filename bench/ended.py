"""Runs a second by the limit's clock: from the first claim, whose cost counts, to the last completion.

The database's times tell when all runs have ended, on both stores: `started_at` is when a claim began, `finished_at`
when a completion did, and completions follow each other. So when the last one began, all runs but its own were in
history.
"""

import sqlite3

import asyncpg

_ENDED = """
select count(*), count(case when finished_at < last.at then 1 end), min(started_at), max(finished_at)
from {history}, (select max(finished_at) as at from {history}) last
"""


async def ended_rate(url: str, runs: int) -> float:
    """Of a database in which so many runs were drained, and nothing else."""
    kept, before, seconds = await _postgres(url) if url.startswith("postgresql://") else _sqlite(url)
    if kept != runs:
        raise RuntimeError(f"{kept:,} of {runs:,} runs are in history")
    # All of them in one completion: too few to tell what it took.
    return (before or runs) / seconds


async def _postgres(dsn: str) -> tuple[int, int, float]:
    connection = await asyncpg.connect(dsn)
    try:
        ((kept, before, first, last),) = await connection.fetch(_ENDED.format(history="duetime.history"))
    finally:
        await connection.close()
    return kept, before, (last - first).total_seconds()


def _sqlite(url: str) -> tuple[int, int, float]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    try:
        kept, before, first, last = connection.execute(_ENDED.format(history="history")).fetchone()
    finally:
        connection.close()
    return kept, before, (last - first) / 1e6
