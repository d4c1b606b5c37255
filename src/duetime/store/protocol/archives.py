"""The store's part of cold history: a day of history is read, recorded as archived, and only then removed.

The files are in storage (`duetime.archive`). The store knows them by an index: one row per file. A row of history is
removed only if its day is *released*: every row of it is in a file that was written, and was read again and compared
just before the release. A day has a *pass* number. A pass writes what no earlier pass wrote, so a day whose rows came
back (a restore, a clock that went back) is archived again without duplicates.

Days are numbered from 1970-01-01, in UTC, by the time at which an attempt finished.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import msgspec

from duetime.model.lane import LaneKey

NO_NUMBER = -(2**63)
"""Stands for a number that is missing."""
NO_ID = bytes(16)
"""Stands for an id that is missing."""
IDS = ("run_id", "job_id", "worker_id")
NUMBERS = (
    "lane_id",
    "fence",
    "attempt",
    "lost",
    "attempt_state",
    "end_state",
    "failure",
    "timeout_ms",
    "due_at",
    "ready_at",
    "started_at",
    "first_started_at",
    "finished_at",
)
"""Moments are microseconds since 1970."""
BODIES = ("args", "options", "result", "logs", "error")
"""Bytes; `error` is UTF-8."""


@dataclass
class HistoryRows:
    """Rows of history, column by column: the form that costs least to read and to write by the hundred thousand."""

    count: int
    ids: dict[str, bytes]
    """16 bytes per row."""
    numbers: dict[str, "array[int]"]
    bodies: dict[str, tuple["array[int]", bytes]]
    """The length of each (-1: missing), and all of them one after the other."""
    more: bool = False
    """Whether there may be further rows."""

    @property
    def last_run(self) -> UUID:
        return UUID(bytes=self.ids["run_id"][-16:])

    def without_last_run(self) -> "HistoryRows":
        """All rows but those of the last run, which may not be complete."""
        ids, last, kept = self.ids["run_id"], self.ids["run_id"][-16:], self.count
        while kept and ids[kept * 16 - 16 : kept * 16] == last:
            kept -= 1
        return HistoryRows(
            kept,
            {name: body[: kept * 16] for name, body in self.ids.items()},
            {name: numbers[:kept] for name, numbers in self.numbers.items()},
            {
                name: (lengths[:kept], body[: sum(length for length in lengths[:kept] if length > 0)])
                for name, (lengths, body) in self.bodies.items()
            },
            more=True,
        )


class ArchivePart(msgspec.Struct, frozen=True):
    """A file of archived history: rows of one tenant and day, sorted by run."""

    tenant_id: int
    day: int
    name: str
    """Contains the beginning of the file's checksum: equal content has an equal name."""
    rows: int
    read: int
    """How many rows were read for it, including rows that earlier passes wrote and rows that are not kept."""
    bytes: int
    checksum: str
    """SHA-256 of the file, in hexadecimal digits."""
    first_run: UUID
    last_run: UUID
    pass_no: int
    expires: int
    """The day on which it is deleted."""
    keys: tuple[str, ...] = ()
    """The names of the keys that content in it is encrypted with."""


class ArchiveDay(msgspec.Struct, frozen=True):
    """The state of a day."""

    day: int
    pass_no: int
    archived_at: datetime | None
    """When all its rows were in files; None: not yet."""
    rows: int
    """How many rows the database had then."""
    released_at: datetime | None
    """When its files were compared again, so that its rows may be removed."""
    removed_at: datetime | None
    """When its rows were first removed from the database. From then on reads look into the files."""
    restored_until: datetime | None
    problem: str | None


class TenantDay(msgspec.Struct, frozen=True):
    """What a tenant has in files of a day."""

    tenant_id: int
    day: int
    rows: int
    bytes: int
    files: int
    expires: int
    """The day on which the first file is deleted."""


class DayClaim(msgspec.Struct, frozen=True):
    """The right to archive a day, until the lease ends."""

    day: int
    claimant: UUID
    pass_no: int


class ArchivedRow(msgspec.Struct, frozen=True):
    """A row of history that is put back."""

    lane: LaneKey
    values: Mapping[str, Any]
    """By column, except `lane_id` and `tenant_id`."""


class Archives(Protocol):
    async def use_archive(self, *, used: bool) -> None:
        """Record for all nodes that history is archived before it is removed; or that it is not any more."""

    async def uses_archive(self) -> bool: ...

    async def days_in_history(self, before: datetime) -> list[int]:
        """The days that history has rows of and that ended before this time, oldest first."""

    async def claim_day(self, day: int, claimant: UUID, lease: timedelta, seen_at: datetime) -> DayClaim | None:
        """Claim a day that `days_in_history` named at `seen_at`; None while another claimant has it, or if it was
        archived since. One claimant has a day at a time."""

    async def renew_day(self, claim: DayClaim, lease: timedelta) -> bool:
        """False: the claim has passed to another claimant."""

    async def tenants_of_day(self, day: int) -> list[tuple[int, int]]:
        """The tenants with rows on a day, and how many rows each has."""

    async def read_day(
        self, day: int, tenant_id: int, after: UUID | None, most_rows: int, most_bytes: int
    ) -> HistoryRows:
        """The next rows of a tenant's day, sorted by run and fence, from the first run above `after`. All rows of a run
        come together. Reads on a connection of its own, so that no other work waits."""

    async def end_reading(self) -> None:
        """Close that connection."""

    async def lanes_of_rows(self, lane_ids: Sequence[int]) -> dict[int, LaneKey]: ...

    async def add_parts(self, claim: DayClaim, parts: Sequence[ArchivePart]) -> bool:
        """Record verified files, all of them or none. False: the claim has passed to another claimant."""

    async def finish_day(self, claim: DayClaim, rows: int) -> bool:
        """Record that all rows of a day are in files. False: the claim has passed, or the day has another number of
        rows by now."""

    async def give_up_day(self, claim: DayClaim, problem: str) -> None:
        """End a claim without success."""

    async def release_day(self, day: int, pass_no: int) -> bool:
        """Allow the removal of a day's rows, if it is still archived."""

    async def reopen_day(self, day: int, bad: Sequence[ArchivePart], problem: str) -> None:
        """Archive a day again, because these files of it are missing or damaged."""

    async def archive_days(self) -> list[ArchiveDay]:
        """All days that were archived or are being archived, oldest first."""

    async def parts_of_day(self, day: int, tenant_id: int | None = None) -> list[ArchivePart]: ...

    async def parts_between(
        self, tenant_id: int, lowest: UUID, before: UUID, limit: int, *, day: int | None = None
    ) -> list[ArchivePart]:
        """The files of a tenant that may hold runs from `lowest` up to, but not including, `before`, and whose rows
        are not all in the database; those with the newest runs first. With `day`: all files of that day."""

    async def tenant_days(self, tenant_id: int | None, before: int, limit: int) -> list[TenantDay]:
        """What tenants have in files of the days before a day, newest first."""

    async def expired_parts(self, day: int, limit: int) -> list[ArchivePart]:
        """Files that are to be deleted on or before a day, and whose rows are not in the database."""

    async def forget_parts(self, parts: Sequence[ArchivePart]) -> None:
        """Remove files from the index; also days that were removed from the database and have no files."""

    async def keys_in_archive(self) -> dict[str, int]:
        """The keys that content of files is encrypted with, and how many files each has."""

    async def begin_restore(self, day: int, until: datetime) -> bool:
        """Make room for a day's rows, which then stay until this time. False: the day is not archived."""

    async def restore_rows(self, tenant_id: int, rows: Sequence[ArchivedRow]) -> int:
        """Put rows back, except for those that are there; returns how many."""
