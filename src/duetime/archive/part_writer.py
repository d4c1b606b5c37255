"""Files of one tenant and day: rows become Parquet in memory, a part at a time, and go to storage when it is full.

A file's name contains the beginning of its checksum. Two nodes that write the same rows write the same file, and a file
that was verified is never overwritten by another content. A file counts once it has been read back and compared, and
the store has recorded it.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID

from duetime.archive.arrow import arrow
from duetime.archive.columns import DELTAS, DICTIONARIES, key_names, schema
from duetime.archive.names import file_path
from duetime.archive.storage import Storage
from duetime.errors import ArchiveDamaged
from duetime.store.protocol.archives import ArchivePart, DayClaim

PART_ROWS = 1_000_000
PART_BYTES = 128 * 1024**2


class _Open(NamedTuple):
    """A file that is being made: rows that are deleted on the same day."""

    sink: Any
    writer: Any
    first_run: UUID
    keys: set[str]


class PartWriter:
    """All methods block. `most_rows` bounds how much is written again after a crash."""

    def __init__(self, storage: Storage, claim: DayClaim, tenant_id: int, most_rows: int = PART_ROWS) -> None:
        self._storage = storage
        self._claim = claim
        self._tenant_id = tenant_id
        self._most_rows = most_rows
        self._open: dict[int, _Open] = {}
        self._rows: dict[int, int] = {}
        self._read = 0
        self._last_run: UUID | None = None

    def add(self, tables: Sequence[tuple[int, Any]], read: int, last_run: UUID) -> bool:
        """Add rows by the day on which they are deleted; returns whether the part is full."""
        for expires, table in tables:
            if not table.num_rows:
                continue
            if expires not in self._open:
                self._open[expires] = self._begin(table)
                self._rows[expires] = 0
            part = self._open[expires]
            part.writer.write_table(table, row_group_size=table.num_rows)
            part.keys.update(key_names(table))
            self._rows[expires] += table.num_rows
        self._read += read
        self._last_run = last_run
        size = sum(part.sink.tell() for part in self._open.values())
        return sum(self._rows.values()) >= self._most_rows or size >= PART_BYTES

    def end(self) -> list[ArchivePart]:
        """Write the files of this part, verify them, and begin the next part."""
        parts: list[ArchivePart] = []
        for expires, part in self._open.items():
            part.writer.close()
            # The last run that was read, which may be above the last one in the file: reading continues there.
            assert self._last_run is not None
            made = self._write(part, expires, read=0 if parts else self._read, last_run=self._last_run)
            parts.append(made)
        self._open, self._rows, self._read = {}, {}, 0
        return parts

    def _begin(self, table: Any) -> _Open:
        sink = arrow.core.BufferOutputStream()
        kept = schema()
        writer = arrow.parquet.ParquetWriter(
            sink,
            kept,
            compression="zstd",
            use_dictionary=list(DICTIONARIES),
            column_encoding=dict.fromkeys(DELTAS, "DELTA_BINARY_PACKED"),
            write_statistics=[field.name for field in kept if field.name not in ("args", "options", "result", "logs")],
        )
        return _Open(sink, writer, table.column("run_id")[0].as_py(), set())

    def _write(self, part: _Open, expires: int, *, read: int, last_run: UUID) -> ArchivePart:
        body = part.sink.getvalue()
        checksum = sha256(body).hexdigest()
        made = ArchivePart(
            tenant_id=self._tenant_id,
            day=self._claim.day,
            name=f"{part.first_run.hex}-{checksum[:16]}.parquet",
            rows=self._rows[expires],
            read=read,
            bytes=body.size,
            checksum=checksum,
            first_run=part.first_run,
            last_run=last_run,
            pass_no=self._claim.pass_no,
            expires=expires,
            keys=tuple(sorted(part.keys)),
        )
        if problem_of(self._storage, made) is not None:
            self._storage.put(file_path(made), body)
            problem = problem_of(self._storage, made)
            if problem is not None:
                raise ArchiveDamaged(f"{file_path(made)} was written, and {problem}")
        return made


def problem_of(storage: Storage, part: ArchivePart) -> str | None:
    """What is wrong with a file; None: it is what was written."""
    body = storage.get(file_path(part))
    if body is None:
        return "it is missing"
    if body.size != part.bytes:
        return f"it has {body.size} bytes instead of {part.bytes}"
    if sha256(body).hexdigest() != part.checksum:
        return "its checksum is wrong"
    return None
