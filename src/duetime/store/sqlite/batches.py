"""The runs that a claim has leased, many in one row.

`sqlite3` gives up the GIL for each row that it fetches, and waits for it while the event loop works. So `claim` packs
each column of all runs into one value: SQLite computes it in less time than the rows take, and the caller's thread
unpacks it.
"""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from duetime.model.attempt import Claimed
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.values import count_of, identity, packed, places, unpacked

_numbers = msgspec.json.Decoder(list[int])
_maybe_numbers = msgspec.json.Decoder(list[int | None])


class Batch(NamedTuple):
    """Runs that one statement has leased to a worker."""

    ids: bytes
    shortest_ms: int | None
    """The shortest of their timeouts."""
    read: Callable[[], Sequence[Claimed]]
    """Reads the runs. The caller's thread does it where it can: a drain waits for the store's thread."""

    @classmethod
    def of(cls, runs: Sequence[Claimed]) -> "Batch":
        timeouts = [run.timeout_ms for run in runs if run.timeout_ms is not None]
        return cls(packed(run.run_id for run in runs), min(timeouts, default=None), lambda: runs)

    @property
    def size(self) -> int:
        return count_of(self.ids)


class _Columns(NamedTuple):
    """The columns of `claim`, in its order. Numbers are JSON lists."""

    ids: bytes
    shortest_ms: int | None
    job_ids: bytes
    fences: str
    attempts: str
    lost: str
    due: str
    ready: str
    timeouts: str
    arg_sizes: str
    args: bytes
    option_sizes: str
    options: bytes | None
    checkpoint_sizes: str
    checkpoints: bytes | None

    def read(self, lane_id: int, now: int) -> list[Claimed]:
        ids = [identity(each) for each in unpacked(self.ids)]
        # In the order of Claimed's fields.
        columns: list[list[Any]] = [
            ids,
            [identity(each) for each in unpacked(self.job_ids)],
            [lane_id] * len(ids),
            *(_numbers.decode(each) for each in (self.fences, self.attempts, self.lost, self.due, self.ready)),
            [now] * len(ids),
            _cut(self.args, self.arg_sizes),
            _cut(self.options, self.option_sizes),
            _maybe_numbers.decode(self.timeouts),
            _cut(self.checkpoints, self.checkpoint_sizes),
        ]
        if any(len(column) != len(ids) for column in columns):
            raise ValueError("the columns of a claim have unequal lengths")
        return list(map(Claimed, *columns))


def claim_ready(connection: Connection, this: Mapping[str, Any], lane_id: int, take: int) -> Batch:
    """Lease the first ready runs of a lane; fewer, if they are too large for one value together."""
    try:
        (row,) = connection.rows("claim", {**this, "lane_id": lane_id, "take": take})
    except sqlite3.DataError:
        if take == 1:
            raise
        return claim_ready(connection, this, lane_id, take // 2)  # nothing was leased
    if row[0] is None:
        return Batch(b"", None, list)
    columns = _Columns(*row)
    # By id: SQLite would otherwise look for the same runs again, which takes more than reading their ids.
    connection.execute("lease_claimed", {**this, "ids": columns.ids, "places": places(columns.ids)})
    return Batch(columns.ids, columns.shortest_ms, partial(columns.read, lane_id, this["now"]))


def claimed_runs(rows: Iterable[tuple[Any, ...]]) -> list[Claimed]:
    """From statements that return one row for each run."""
    return [Claimed(identity(run_id), identity(job_id), *rest) for run_id, job_id, *rest in rows]


def _cut(joined: bytes | None, sizes: str) -> list[bytes | None]:
    """Byte strings of these sizes; None where there is none."""
    parts: list[bytes | None] = []
    start = 0
    if joined is None:
        return [None] * len(_maybe_numbers.decode(sizes))
    for size in _maybe_numbers.decode(sizes):
        if size is None:
            parts.append(None)
        else:
            parts.append(joined[start : start + size])
            start += size
    if start != len(joined):
        raise ValueError(f"{start} bytes were expected, and there are {len(joined)}")
    return parts
