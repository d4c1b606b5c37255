"""Values of many types, each with its JSON, and a task for each that returns what it gets."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic

from duetime import App, SyncContext


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Access(Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: float


class Row(TypedDict, total=False):
    at: date
    note: str


@dataclass
class Order:
    id: int
    at: datetime
    total: Decimal
    lines: list["Line"]


@dataclass(frozen=True)
class Line:
    name: str
    count: int | None = None


@attrs.frozen
class Customer:
    id: UUID
    name: str


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    name: str


class Invoice(pydantic.BaseModel):
    number: int = pydantic.Field(alias="no", ge=1)
    due: date
    parts: list["Part"] = []


class Part(pydantic.BaseModel):
    name: str


class Case(NamedTuple):
    kind: Any
    value: Any
    json: Any


_UUID = UUID("0b1c2d3e-4f50-4a61-8273-849500112233")
_CET = timezone(timedelta(hours=1))

CASES: dict[str, Case] = {
    "text": Case(str, "ü☃𝄞\x00", "ü☃𝄞\x00"),
    "integer": Case(int, -(2**63), -(2**63)),
    "number": Case(float, 1.0, 1.0),
    "boolean": Case(bool, True, True),
    "nothing": Case(None, None, None),
    "binary": Case(bytes, b"\x00\xff", "AP8="),
    "mutable_binary": Case(bytearray, bytearray(b"ab"), "YWI="),
    "moment": Case(datetime, datetime(2026, 1, 2, 3, 4, 5, 6, _CET), "2026-01-02T03:04:05.000006+01:00"),
    "local_moment": Case(datetime, datetime.fromisoformat("2026-01-02T03:04:05"), "2026-01-02T03:04:05"),
    "day": Case(date, date(2026, 1, 2), "2026-01-02"),
    "time_of_day": Case(time, time(3, 4, 5), "03:04:05"),
    "length": Case(timedelta, timedelta(days=1, microseconds=1), "P1DT0.000001S"),
    "identity": Case(UUID, _UUID, str(_UUID)),
    "money": Case(Decimal, Decimal("1.50"), "1.50"),
    "choice": Case(Colour, Colour.RED, "red"),
    "level": Case(Level, Level.HIGH, 3),
    "flags": Case(Access, Access.READ | Access.WRITE, 3),
    "literal": Case(Literal["fast", "slow", 3], 3, 3),
    "optional": Case(date | None, date(2026, 1, 2), "2026-01-02"),
    "either": Case(int | str, "3", "3"),
    "numbers": Case(list[int], [1, 2], [1, 2]),
    "pair": Case(tuple[int, date], (1, date(2026, 1, 2)), [1, "2026-01-02"]),
    "names": Case(set[str], {"a"}, ["a"]),
    "frozen": Case(frozenset[UUID], frozenset({_UUID}), [str(_UUID)]),
    "by_number": Case(dict[int, list[date]], {7: [date(2026, 1, 2)]}, {"7": ["2026-01-02"]}),
    "by_id": Case(dict[UUID, int], {_UUID: 1}, {str(_UUID): 1}),
    "point": Case(Point, Point(1, 2.0), [1, 2.0]),
    "row": Case(Row, {"at": date(2026, 1, 2)}, {"at": "2026-01-02"}),
    "order": Case(
        Order,
        Order(1, datetime(2026, 1, 2, tzinfo=UTC), Decimal("9.90"), [Line("tea", 2), Line("cup")]),
        {
            "id": 1,
            "at": "2026-01-02T00:00:00Z",
            "total": "9.90",
            "lines": [{"name": "tea", "count": 2}, {"name": "cup", "count": None}],
        },
    ),
    "customer": Case(Customer, Customer(_UUID, "Ada"), {"id": str(_UUID), "name": "Ada"}),
    "pet": Case(Cat | Dog, Dog("Rex"), {"type": "dog", "name": "Rex"}),
    "invoice": Case(
        list[Invoice],
        [Invoice(no=3, due=date(2026, 1, 2), parts=[Part(name="tea")])],
        [{"no": 3, "due": "2026-01-02", "parts": [{"name": "tea"}]}],
    ),
    "path": Case(Path, Path("/tmp/report"), "/tmp/report"),
    "zone": Case(ZoneInfo, ZoneInfo("Europe/Berlin"), "Europe/Berlin"),
    "anything": Case(dict[str, Any], {"a": [1, None, "x"]}, {"a": [1, None, "x"]}),
}


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of the same type."""
    return type(one) is type(other) and one == other


def task_of(name: str) -> Callable[..., Any]:
    """A function that a child process can import, which returns what it gets."""
    function: Callable[..., Any] = globals()[name]
    return function


def _make(name: str, case: Case) -> None:
    def echo(value: Any) -> Any:
        if not same(value, case.value):
            raise AssertionError(f"got {value!r} instead of {case.value!r}")
        return value

    echo.__name__ = echo.__qualname__ = name
    echo.__annotations__ = {"value": case.kind, "return": case.kind}
    globals()[name] = echo


for _name, _case in CASES.items():
    _make(_name, _case)


_app = App()


@_app.task(name="fetch_line")
async def fetch_line(name: str) -> Line:
    return Line(name)


def read_line(ctx: SyncContext) -> str:
    return ctx.result_of(fetch_line).name


def take_order(order: Order) -> None: ...
