"""The columns of a file, and how rows of history become columns and rows again.

States, failures and priorities have their names, and times are times, so that other programs can read the files
(docs/archive.md). Arguments, results and logs are bytes: JSON, or sealed where the tenant asks for encryption.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from duetime.archive.arrow import arrow
from duetime.crypto.sealer import MAGIC, TEXT_MAGIC, key_name_of
from duetime.model.attempt import AttemptState
from duetime.model.failure import FailureClass
from duetime.model.lane import LaneKey, Tier, tier_of
from duetime.model.run import RunState
from duetime.store.protocol.archives import NO_ID, NO_NUMBER, ArchivedRow, HistoryRows

_MOMENTS = ("due_at", "ready_at", "started_at", "first_started_at", "finished_at")
_SMALL = {"fence": "int32", "attempt": "int16", "lost": "int16", "timeout_ms": "int32"}
_BYTES = ("args", "options", "result", "logs")
_RUN_STATES = {state.value: state.name for state in RunState}
_ATTEMPT_STATES = {state.value: state.name for state in AttemptState}
_FAILURES = {failure.value: failure.label for failure in FailureClass}
_TIERS = {tier.value: tier.name for tier in Tier}
_NAMED = (
    ("attempt_status", "attempt_state", _ATTEMPT_STATES),
    ("status", "end_state", _RUN_STATES),
    ("failure", "failure", _FAILURES),
)
NUMBERS_OF = {column: {name: number for number, name in names.items()} for column, _, names in _NAMED}
"""The stored number of each name, by column."""
DICTIONARIES = ("task", "queue", "priority", "attempt_status", "status", "failure", "worker_id", "options")
"""Columns with few different values."""
DELTAS = (*_MOMENTS, *_SMALL)
LISTED = (
    "run_id",
    "job_id",
    "task",
    "queue",
    "priority",
    "attempt",
    "lost",
    "status",
    "failure",
    *_MOMENTS,
    "worker_id",
    "options",
    "error",
)
"""What a list shows of a run."""


def schema() -> Any:
    pa = arrow.core
    moment = pa.timestamp("us", tz="UTC")
    return pa.schema(
        [
            pa.field("run_id", pa.uuid(), nullable=False),
            pa.field("job_id", pa.uuid(), nullable=False),
            pa.field("task", pa.string(), nullable=False),
            pa.field("queue", pa.string(), nullable=False),
            pa.field("priority", pa.string(), nullable=False),
            pa.field("fence", pa.int32(), nullable=False),
            pa.field("attempt", pa.int16(), nullable=False),
            pa.field("lost", pa.int16(), nullable=False),
            pa.field("attempt_status", pa.string(), nullable=False),
            pa.field("status", pa.string()),
            pa.field("failure", pa.string()),
            pa.field("due_at", moment, nullable=False),
            pa.field("ready_at", moment),
            pa.field("started_at", moment),
            pa.field("first_started_at", moment),
            pa.field("finished_at", moment, nullable=False),
            pa.field("worker_id", pa.uuid()),
            pa.field("timeout_ms", pa.int32()),
            *(pa.field(name, pa.binary()) for name in _BYTES),
            pa.field("error", pa.string()),
        ]
    )


def to_table(rows: HistoryRows, lanes: Mapping[int, LaneKey]) -> Any:
    """Rows of history as an Arrow table, without a loop over rows."""
    pa, pc = arrow.core, arrow.compute
    columns: dict[str, Any] = {}
    for name, body in rows.ids.items():
        plain = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), rows.count, [None, pa.py_buffer(body)])
        if name == "worker_id":
            missing = pc.equal(plain, pa.scalar(NO_ID, pa.binary(16)))
            plain = pc.if_else(missing, pa.scalar(None, pa.binary(16)), plain)
        columns[name] = pa.ExtensionArray.from_storage(pa.uuid(), plain)
    numbers = {name: _numbers(each) for name, each in rows.numbers.items()}
    for name in _MOMENTS:
        columns[name] = numbers[name].cast(pa.timestamp("us", tz="UTC"))
    for name, kind in _SMALL.items():
        columns[name] = numbers[name].cast(kind)
    for column, name, names in _NAMED:
        columns[column] = _named(numbers[name], names)
    lane_ids = numbers["lane_id"]
    for column, values in (
        ("task", {number: key.task for number, key in lanes.items()}),
        ("queue", {number: key.queue for number, key in lanes.items()}),
        ("priority", {number: _TIERS[tier_of(key.tier)] for number, key in lanes.items()}),
    ):
        columns[column] = _named(lane_ids, values)
    for name, (lengths, body) in rows.bodies.items():
        columns[name] = _bodies(lengths, body, pa.string() if name == "error" else pa.binary())
    wanted = schema()
    return pa.table([columns[field.name] for field in wanted], schema=wanted)


def _numbers(values: Any) -> Any:
    pa, pc = arrow.core, arrow.compute
    plain = pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
    return pc.if_else(pc.equal(plain, NO_NUMBER), pa.scalar(None, pa.int64()), plain)


def _named(numbers: Any, names: Mapping[int, str]) -> Any:
    """The names of numbers. A number that this release does not know shows as its digits."""
    pa, pc = arrow.core, arrow.compute
    known = {number: names.get(number, str(number)) for number in pc.unique(numbers).to_pylist() if number is not None}
    places = pc.index_in(numbers, value_set=pa.array(list(known), pa.int64()))
    return pc.take(pa.array(list(known.values()), pa.string()), places)


def _bodies(lengths: Any, body: bytes, kind: Any) -> Any:
    pa, pc = arrow.core, arrow.compute
    count = len(lengths)
    plain = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(lengths)])
    ends = pc.cumulative_sum(pc.max_element_wise(plain, 0).cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    values = pa.Array.from_buffers(kind, count, [None, offsets.buffers()[1], pa.py_buffer(body)])
    missing = pc.less(plain, 0)
    return pc.if_else(missing, pa.scalar(None, kind), values) if pc.any(missing).as_py() else values


def key_names(table: Any) -> tuple[str, ...]:
    """The names of the keys that content is sealed with."""
    pc = arrow.compute
    found: set[str] = set()
    for name in (*_BYTES, "error"):
        column = table.column(name)
        sealed = pc.starts_with(column, TEXT_MAGIC if name == "error" else MAGIC)
        if pc.any(sealed).as_py():
            for value in column.filter(sealed):
                found.add(key_name_of(value.as_py()).decode())
    return tuple(sorted(found - {""}))


def fields_of(table: Any, tenant_id: int) -> list[dict[str, Any]]:
    """Rows as the store would return them."""
    found = table.to_pylist()
    for row in found:
        row["tenant_id"] = tenant_id
        row["tier"] = _number(row.pop("priority", None), Tier.__members__, Tier.LOW)
        for column, name, _ in _NAMED:
            if column in row:
                row[name] = _number(row.pop(column), NUMBERS_OF[column], None)
    return [dict(row) for row in found]


def _number(name: str | None, known: Mapping[str, int], unknown: int | None) -> int | None:
    if name is None:
        return unknown
    number = known.get(name)
    return int(name) if number is None and name.isdigit() else number


def to_restore(rows: Iterable[Mapping[str, Any]], tenant_id: int) -> list[ArchivedRow]:
    return [
        ArchivedRow(
            LaneKey(tenant_id, row["queue"], int(row["tier"]), row["task"]),
            {name: value for name, value in row.items() if name not in ("task", "queue", "tier", "tenant_id")},
        )
        for row in rows
    ]
