"""Reading runs from files. The statistics of row groups say which of them can hold an id: no file is read whole.

A page reads a bounded number of row groups, whatever the filter. If that is not enough to fill it, the page is short,
and the next one continues.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from threading import Lock
from typing import Any, NamedTuple
from uuid import UUID

from duetime.archive.arrow import arrow
from duetime.archive.columns import LISTED, fields_of
from duetime.archive.names import file_path
from duetime.archive.storage import Storage
from duetime.errors import ArchiveDamaged
from duetime.model.lists import RunFilter, RunItem
from duetime.store.protocol.archives import ArchivePart
from duetime.store.rules.list_pages import Source
from duetime.store.shared.list_rows import archived_run_item

MOST_GROUPS = 12
"""Row groups that a page reads."""
_REMEMBERED = 256
"""Files whose metadata is kept."""
_ERROR_SHOWN = 500


class _Group(NamedTuple):
    """A row group and the runs that it can hold."""

    part: ArchivePart
    number: int
    lowest: UUID
    highest: UUID


class PartReader:
    """All methods block."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._metadata: OrderedDict[str, Any] = OrderedDict()
        self._guard = Lock()

    def page(
        self,
        parts: Sequence[ArchivePart],
        unread: UUID | None,
        filter: RunFilter,
        lowest: UUID,
        before: UUID,
        limit: int,
    ) -> Source:
        """Ended runs from `lowest` up to, but not including, `before`. `unread`: the highest run that files beyond
        these can hold, which is below `before`."""
        # By the highest run: first a file as a whole, then its row groups.
        heap: list[tuple[int, int, ArchivePart | _Group]] = [
            (-part.last_run.int, place, part) for place, part in enumerate(parts)
        ]
        heapify(heap)
        found: dict[UUID, RunItem] = {}
        count, place = 0, len(heap)
        while heap:
            highest, _, each = heap[0]
            if self._is_enough(found, -highest, limit) or (unread is not None and -highest < unread.int):
                break
            if count >= MOST_GROUPS and -highest < before.int:
                break  # the page got somewhere: the next one continues
            heappop(heap)
            if isinstance(each, ArchivePart):
                for group in self._groups(each):
                    if group.lowest < before and group.highest >= lowest:
                        place += 1
                        heappush(heap, (-group.highest.int, place, group))
                continue
            count += 1
            for item in self._runs(each, filter, lowest, before, limit + 1):
                found.setdefault(item.id, item)
        tops = [-heap[0][0]] if heap else []
        if unread is not None:
            tops.append(unread.int)
        horizon = UUID(int=max(tops) + 1) if tops else None
        return Source(sorted(found.items(), reverse=True), horizon)

    def rows(self, parts: Sequence[ArchivePart], run_id: UUID) -> list[dict[str, Any]]:
        """All rows of a run."""
        found: list[dict[str, Any]] = []
        for part in parts:
            for group in self._groups(part):
                if group.lowest <= run_id <= group.highest:
                    table = self._read(group, None)
                    found += fields_of(table.filter(_ids(table, "equal", run_id)), part.tenant_id)
        return found

    def batches(self, part: ArchivePart, start: int, size: int) -> Iterator[list[dict[str, Any]]]:
        """All rows of a file from one row on."""
        passed = 0
        for group in self._groups(part):
            table = self._read(group, None)
            for offset in range(0, table.num_rows, size):
                if passed + offset >= start:
                    yield fields_of(table.slice(offset, size), part.tenant_id)
            passed += table.num_rows

    def _is_enough(self, found: dict[UUID, RunItem], highest: int, limit: int) -> bool:
        """Whether nothing at or below this id can come onto the page."""
        if len(found) <= limit:
            return False
        return sorted(found, reverse=True)[limit].int > highest

    def _groups(self, part: ArchivePart) -> list[_Group]:
        metadata = self._metadata_of(part)
        groups = []
        for number in range(metadata.num_row_groups):
            known = metadata.row_group(number).column(0).statistics
            groups.append(_Group(part, number, UUID(bytes=known.min), UUID(bytes=known.max)))
        return groups

    def _metadata_of(self, part: ArchivePart) -> Any:
        path = file_path(part)
        with self._guard:
            if path in self._metadata:
                self._metadata.move_to_end(path)
                return self._metadata[path]
        with self._opened(part) as file:
            metadata = arrow.parquet.read_metadata(file)
        with self._guard:
            self._metadata[path] = metadata
            while len(self._metadata) > _REMEMBERED:
                self._metadata.popitem(last=False)
        return metadata

    def _read(self, group: _Group, columns: Sequence[str] | None) -> Any:
        with self._opened(group.part) as file:
            # Only what is needed, in few requests.
            reader = arrow.parquet.ParquetFile(file, metadata=self._metadata_of(group.part), pre_buffer=True)
            try:
                return reader.read_row_group(group.number, columns=None if columns is None else list(columns))
            except (OSError, arrow.core.ArrowException) as error:
                raise ArchiveDamaged(f"{file_path(group.part)} cannot be read: {error}") from error

    def _opened(self, part: ArchivePart) -> Any:
        try:
            return self._storage.open(file_path(part))
        except FileNotFoundError:
            raise ArchiveDamaged(
                f"the file {file_path(part)} of the archive is missing",
                remedy="restore it from the storage's backup",
            ) from None

    def _runs(self, group: _Group, filter: RunFilter, lowest: UUID, before: UUID, limit: int) -> list[RunItem]:
        pc = arrow.compute
        table = self._read(group, LISTED)
        mask = pc.and_(pc.is_valid(table.column("status")), _ids(table, "less", before))
        mask = pc.and_(mask, _ids(table, "greater_equal", lowest))
        for name, value in (
            ("status", None if filter.state is None else filter.state.name),
            ("task", filter.task),
            ("queue", filter.queue),
        ):
            if value is not None:
                mask = pc.and_(mask, pc.equal(table.column(name), value))
        if filter.job_id is not None:
            mask = pc.and_(mask, _ids(table, "equal", filter.job_id, "job_id"))
        if filter.due_from is not None:
            mask = pc.and_(mask, pc.greater_equal(table.column("due_at"), filter.due_from))
        if filter.due_until is not None:
            mask = pc.and_(mask, pc.less(table.column("due_at"), filter.due_until))
        chosen = table.filter(pc.fill_null(mask, False))
        # Rows are sorted by run: the newest are the last.
        rows = fields_of(chosen.slice(max(0, chosen.num_rows - limit)), group.part.tenant_id)
        for row in rows:
            row["id"] = row["run_id"]
            row["error"] = None if row["error"] is None else row["error"][:_ERROR_SHOWN]
        return [archived_run_item(row) for row in rows]


def _ids(table: Any, compare: str, identity: UUID, column: str = "run_id") -> Any:
    pa = arrow.core
    ids = table.column(column)
    plain = pa.chunked_array([chunk.storage for chunk in ids.chunks], pa.binary(16))
    return arrow.compute.call_function(compare, [plain, pa.scalar(identity.bytes, pa.binary(16))])
