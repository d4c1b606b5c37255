"""Storing occurrences: as runs, or as skipped ones with their reason. Any number in one step (`values.py`)."""

from collections.abc import Sequence
from typing import NamedTuple

from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.values import listed


class NewRun(NamedTuple):
    job_id: bytes
    run_id: bytes
    lane_id: int
    due_at: int
    ready_at: int
    blocked: bool = False


class Skipped(NamedTuple):
    job_id: bytes
    run_id: bytes
    lane_id: int
    due_at: int
    reason: str


def make_runs(connection: Connection, now: int, runs: Sequence[NewRun], *, manual: bool) -> None:
    if runs:
        ids = b"".join([part for run in runs for part in run[:2]])
        words = listed([(run.lane_id, run.due_at, run.ready_at, int(run.blocked)) for run in runs])
        connection.execute("make_runs", {"ids": ids, "words": words, "now": now, "manual": manual})


def skip_runs(connection: Connection, now: int, skips: Sequence[Skipped]) -> None:
    if skips:
        ids = b"".join([part for skip in skips for part in skip[:2]])
        connection.execute("skip_runs", {"ids": ids, "words": listed([skip[2:] for skip in skips]), "now": now})
