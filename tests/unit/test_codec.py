"""Annotations are obeyed: what they accept, what they refuse, and what is refused when a function becomes a task."""

import logging
import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, NoReturn, TypedDict, TypeVar
from uuid import UUID

import annotated_types
import attrs
import msgspec
import pydantic
import pytest

import duetime
from duetime import App, Context, InvalidInput, PayloadMismatch, Snooze
from tests.support.typed_tasks import CASES, Cat, Customer, Dog, Invoice, Line, Order, Row, same

T = TypeVar("T")
app = App()
ORDER = CASES["order"].value
LINES = b'{"order":{"id":1,"at":"2026-01-01T00:00:00Z","total":"1","lines":[{"name":1}]}}'


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Half(Enum):
    ONE = 0.5


class Text(str): ...


@dataclass
class Tree:
    name: str
    children: list["Tree"] = field(default_factory=list)
    extra: Any = None


class Special(Line): ...


class Plain: ...


@attrs.define
class Private:
    number: int
    _secret: str = "default"


@attrs.define
class PrivateItem(Generic[T]):
    _item: T


@dataclass
class Page(Generic[T]):
    items: list[T]


class Chapter(msgspec.Struct, Generic[T]):
    items: list[T]


@dataclass
class WithInit:
    number: InitVar[int]


class Box(Generic[T]): ...


class Account(pydantic.BaseModel):
    name: str
    password: pydantic.SecretStr


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")
    at: datetime

    @pydantic.computed_field
    def year(self) -> int:
        return self.at.year


class Pair(NamedTuple):
    first: int
    second: Any


class Event(TypedDict):
    at: date


def typed(kind: Any) -> duetime.Task[..., Any]:
    """A task with a parameter of this type."""

    async def take(value):  # type: ignore[no-untyped-def]
        return value

    take.__annotations__ = {"value": kind}
    return App().task(take)


def round_trip(kind: Any, value: Any) -> Any:
    task = typed(kind)
    return task.definition.decode(task.bind(value=value).encoded())["value"]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (str, 3, "args.value: expected str, got int"),
        (Page[int], Page(["x"]), r"args.value.items\[0\]: expected int, got str"),
        (Page[int], [1], "args.value: expected Page, got list"),
        (str, None, "args.value: expected str, got None"),
        (str, datetime(2026, 1, 1, tzinfo=UTC), "args.value: expected str, got datetime"),
        (str, Text("x"), "args.value: expected str, got its subclass Text"),
        (str, "\ud800", "args.value: contains a lone surrogate"),
        (int, True, "args.value: expected int, got bool"),
        (int, "7", "args.value: expected int, got str"),
        (int, 1.0, "args.value: expected int, got float"),
        (int, Level.HIGH, "args.value: expected int, got Level"),
        (int, 2**63, "args.value: the integer does not fit in 64 bits"),
        (bool, 1, "args.value: expected bool, got int"),
        (float, "1", "args.value: expected float, got str"),
        (float, 2**53 + 1, "args.value: 9007199254740993 is not exact as a float"),
        (float, math.nan, "args.value: nan cannot be represented"),
        (float | None, math.inf, "args.value: inf cannot be represented"),
        (bytes, "abcd", "args.value: expected bytes, got str"),
        (date, datetime(2026, 1, 1, tzinfo=UTC), "args.value: expected date, got datetime"),
        (datetime, "2026-01-01T00:00:00Z", "args.value: expected datetime, got str"),
        (UUID, "x", "args.value: expected UUID, got str"),
        (Decimal, 1.5, "args.value: expected Decimal, got float"),
        (Colour, "red", "args.value: expected Colour, got str"),
        (list[str], ["a", date(2026, 1, 1)], r"args.value\[1\]: expected str, got date"),
        (list[int], {1}, "args.value: expected list, got set"),
        (list[int], (n for n in (1, 2)), "args.value: expected list, got generator"),
        (set[int], [1], "args.value: expected set, got list"),
        (tuple[int, str], (1,), "args.value: expected 2 items, got 1"),
        (dict[int, str], {"1": "x"}, "args.value.1: expected int, got str"),
        (dict[str, Any], {1: "x"}, "args.value.1: expected str, got int"),
        (dict[str, Any], {"a": {"b": object()}}, "args.value.a.b: object is not JSON"),
        (Any | None, {"a": {1}}, "args.value.a: set is not JSON"),
        (int | str, 1.5, r"args.value: expected int \| str, got float"),
        (Line, {"name": "tea"}, "args.value: expected Line, got dict"),
        (Line, Special("tea"), "args.value: expected Line, got its subclass Special"),
        (Line, Line(3), "args.value.name: expected str, got int"),  # type: ignore[arg-type]
        (Order | None, ORDER.lines, "args.value: expected Order, got list"),
        (
            Tree,
            Tree("a", [Tree("b", [Tree(3)])]),
            r"args.value.children\[0\].children\[0\].name: expected str, got int",
        ),  # type: ignore[arg-type]
        (Tree, Tree("a", extra={1}), "args.value.extra: set is not JSON"),
        (Cat | Dog, Dog(3), "args.value.name: expected str, got int"),  # type: ignore[arg-type]
        (Customer, Customer("1", "Ada"), "args.value.id: expected UUID, got str"),  # type: ignore[arg-type]
        (Row, {"at": date(2026, 1, 1), "other": 1}, "args.value: 'other' is not a key of Row"),
        (Event, {}, "args.value.at: is required"),
        (Pair, Pair(1, object()), "args.value.second: object is not JSON"),
        (Annotated[int, msgspec.Meta(ge=1)], 0, "args.value: Expected int >= 1"),
        (Invoice, Line("tea"), "args.value: expected Invoice, got Line"),
        (Account, Account(name="a", password="b"), "args.value: Account is not the same after JSON"),
        (Invoice, Invoice.model_construct(number=0, due=date(2026, 1, 1)), r"args.value.no: Input should be greater"),
        (list[Invoice], [Invoice.model_construct(number=1, due=None)], r"args.value\[0\].due: Input should be"),
        (Path, "/tmp", "args.value: expected Path, got str"),
    ],
)
def test_other_values_are_refused_with_their_path(kind: Any, value: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{told}"):
        typed(kind).bind(value=value).encoded()


@pytest.mark.parametrize("name", CASES)
def test_what_is_accepted_arrives_unchanged(name: str) -> None:
    """The values of all other types, too: each of them is refused, or arrives as it is."""
    task = typed(CASES[name].kind)
    accepted = []
    for other, case in CASES.items():
        try:
            body = task.bind(value=case.value).encoded()
        except InvalidInput:
            continue
        accepted.append(other)
        found = task.definition.decode(body)["value"]
        assert same(found, float(case.value) if name == "number" else case.value), other
    assert name in accepted


@pytest.mark.parametrize(
    ("kind", "value", "arrives"),
    [
        (float, 3, 3.0),
        (Sequence[int], (1, 2), [1, 2]),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (tuple[int, ...], [1], (1,)),
        (object, {"a": 1}, {"a": 1}),
        (dict[str, object], {"a": [1]}, {"a": [1]}),
        (Annotated[datetime | str, duetime.Json], "now", "now"),
        (Tree, Tree("a", [Tree("b")], {"x": 1}), Tree("a", [Tree("b")], {"x": 1})),
        (Strict, Strict(at=datetime(2026, 1, 1, tzinfo=UTC)), Strict(at=datetime(2026, 1, 1, tzinfo=UTC))),
        (Invoice | None, None, None),
        (list[dict[str, date | None]], [{"a": None}], [{"a": None}]),
        (Page[int], Page([1]), Page([1])),
        (list[Chapter[Page[date]]], [Chapter([Page([date.max])])], [Chapter([Page([date.max])])]),
    ],
)
def test_values_arrive_as_their_annotation_says(kind: Any, value: Any, arrives: Any) -> None:
    found = round_trip(kind, value)
    assert (found, type(found)) == (arrives, type(arrives))


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (datetime | str, "these are all text in JSON"),
        (bytes | str, "these are all text in JSON"),
        (Colour | str, "these are all text in JSON"),
        (list[datetime | str], "these are all text in JSON"),
        (Level | int, "these are all numbers in JSON"),
        (Line | Tree, "these are all objects in JSON"),
        (dict[str, int] | Line, "these are all objects in JSON"),
        (list[int] | tuple[int, ...], "these are all arrays in JSON"),
        (Path | str, "such a class stands alone or with None"),
        (Invoice | Account, "such a class stands alone or with None"),
        (Half, "give its members text or integers"),
        (Plain, "Plain has no JSON form (use a dataclass"),
        (list[Plain], "Plain has no JSON form"),
        (Callable[[int], str], "Callable has no JSON form"),
        (Iterator[int], "Iterator has no JSON form"),
        (complex, "complex has no JSON form"),
        (dict[int | str, int], "JSON objects have text as keys"),
        (dict[Line, int], "JSON objects have text as keys"),
        (set[list[int]], "the items of a set must be hashable"),
        (list[T], "a generic function cannot be a task"),  # type: ignore[valid-type]
        ("Nowhere", "'Nowhere' cannot be resolved"),
        (3, "JSON cannot carry 3"),
        (Private, "the private field _secret of Private would be lost in JSON (rename it"),
        (list[Private | None], "the private field _secret of Private"),
        (PrivateItem[int], "the private field _item of"),
        (Annotated[int, pydantic.Field(gt=5)], "FieldInfo of pydantic is not checked here (use msgspec.Meta"),
        (list[Annotated[int, annotated_types.Gt(5)]], "Gt of annotated_types is not checked here"),
        (WithInit, "JSON cannot carry WithInit (pass plain JSON"),
    ],
)
@pytest.mark.parametrize("place", ["value", "return"])
def test_annotations_that_json_cannot_carry_are_refused(kind: Any, told: str, place: str) -> None:
    async def take(value):  # type: ignore[no-untyped-def]
        return value

    take.__annotations__ = {place: kind}
    with pytest.raises(InvalidInput) as caught:
        App().task(take)
    message = str(caught.value)
    assert told in message
    assert ("the parameter 'value'" if place == "value" else "its result") in message


def test_a_refusal_names_the_way_out() -> None:
    async def take(value: datetime | str) -> None: ...

    with pytest.raises(InvalidInput, match=r"pass plain JSON with Annotated\[…, duetime.Json\]"):
        App().task(take)


def test_functions_without_annotations_keep_plain_json() -> None:
    @app.task(name="untyped")
    async def untyped(to, n=1):  # type: ignore[no-untyped-def]
        return to

    @app.task(name="any_fields")
    async def any_fields(day: datetime, **fields: int) -> None: ...

    @app.task(name="anything")
    async def anything(what: Any, other: object) -> Any: ...

    @app.task(name="nothing")
    async def nothing() -> None: ...

    for task in (untyped, any_fields, anything, nothing):
        assert task.definition.arguments is None
    with pytest.raises(InvalidInput, match=r"args.to: datetime is not JSON"):
        untyped.bind(to=datetime(2026, 1, 1, tzinfo=UTC)).encoded()


def test_parameters_without_annotation_beside_annotated_ones_are_plain_json() -> None:
    @app.task(name="mixed")
    async def mixed(day: date, rest=None, *, more: Any = ()):  # type: ignore[no-untyped-def]
        return rest

    body = mixed.bind(day=date(2026, 1, 1), rest={"a": [1]}).encoded()
    assert body == b'{"day":"2026-01-01","rest":{"a":[1]}}', "defaults are not stored"
    with pytest.raises(InvalidInput, match=r"args.rest.a: date is not JSON"):
        mixed.bind(day=date(2026, 1, 1), rest={"a": date(2026, 1, 1)}).encoded()
    assert mixed.definition.decode(body) == {"day": date(2026, 1, 1), "rest": {"a": [1]}}


async def test_the_caller_fills_in_defaults_and_the_context() -> None:
    usual: list[int] = []

    @app.task(name="called")
    async def called(ctx: Context, to: str, ids: list[int] = usual, *, day: date = None) -> Any:  # type: ignore[assignment]  # noqa: RUF013
        return ctx, to, ids, day

    context: Any = object()
    found = await called.definition.call(b'{"to":"x"}', lambda: context)
    assert found == (context, "x", usual, None)
    assert found[2] is usual, "the function's own default"
    assert called.bind(to="x", day=None).encoded() == b'{"to":"x","day":null}', "None is the default"


@pytest.mark.parametrize(
    ("body", "path", "found", "expected"),
    [
        (b'{"order":{"id":"x"}}', "args.order.id", "str", "int"),
        (b'{"order":null}', "args.order", "null", "object"),
        (b"{}", "args.order", "nothing", "a value"),
        (b'{"order":{"id":1}}', "args.order.at", "nothing", "a value"),
        (b'{"orde":1}', "args.orde", "a value", "nothing"),
        (b"[]", "args", "array", "object"),
        (b'{"order":{"id":1,"at":"x"}}', "args.order.at", None, None),
        (LINES, "args.order.lines[0].name", "int", "str"),
    ],
)
def test_a_payload_that_does_not_fit(body: bytes, path: str, found: str | None, expected: str | None) -> None:
    task = App().task(name="shop.ship")(_ship)
    with pytest.raises(PayloadMismatch) as caught:
        task.definition.call(body, lambda: None)  # type: ignore[arg-type, return-value]
    error = caught.value
    assert (error.task, error.path, error.found, error.expected) == ("shop.ship", path, found, expected)
    assert str(error).startswith(f"{path}: does not fit shop.ship: ")


async def _ship(order: Order) -> None: ...


def test_a_function_that_never_returns_or_only_signals_has_no_result() -> None:
    async def never() -> NoReturn:
        raise AssertionError

    async def later() -> Snooze: ...

    async def either() -> Snooze | int | None: ...

    tasks = [App().task(each).definition for each in (never, later, either)]
    assert [task.returns_none for task in tasks] == [True, True, True]
    assert tasks[2].decode_result(b"3") == 3


def test_text_annotations_are_resolved() -> None:
    async def take(ctx: "Context", value: "Order | None" = None) -> "list[Line]": ...

    task = App().task(take)
    assert task.definition.decode(task.bind(value=ORDER).encoded()) == {"value": ORDER}


def test_text_annotations_may_name_local_classes() -> None:
    @dataclass
    class Local:
        id: int

    async def take(value: "Local") -> "Local": ...

    class Tasks:
        @dataclass
        class Inner:
            id: int

        @staticmethod
        async def give(value: "Inner") -> None: ...

        task = App().task(name="give")(give.__func__)  # type: ignore[attr-defined]

    task = App().task(take)
    assert task.definition.decode(task.bind(value=Local(1)).encoded()) == {"value": Local(1)}
    assert Tasks.task.definition.arguments is not None


@pytest.mark.parametrize("kind", [Tree, list[Any], dict[str, Any]])
def test_values_without_an_end_are_refused(kind: Any) -> None:
    tree = Tree("a")
    tree.children.append(tree)
    deep: Any = []
    deep.append(deep)
    value = tree if kind is Tree else deep if kind == list[Any] else {"a": deep}
    with pytest.raises(InvalidInput, match="args"):
        typed(kind).bind(value=value).encoded()


@pytest.mark.parametrize("name", CASES)
def test_every_type_has_a_schema(name: str) -> None:
    codec = typed(CASES[name].kind).definition.arguments
    if codec is None:
        return
    schema = codec.schema()
    assert msgspec.json.encode(schema)
    for reference in _references(schema):
        assert reference.removeprefix("#/$defs/") in schema["$defs"]


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        yield from (each for name, each in part.items() if name == "$ref")
        part = list(part.values())
    for each in part if isinstance(part, list) else ():
        yield from _references(each)


def test_pydantic_is_not_imported_for_others() -> None:
    code = """
import sys
from dataclasses import dataclass
import duetime
@dataclass
class Order: id: int
app = duetime.App()
@app.task
async def ship(order: Order) -> Order: return order
ship.bind(order=Order(1)).encoded()
assert "pydantic" not in sys.modules and "attrs" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_submission_that_is_never_awaited_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @app.task(name="forgotten")
    async def forgotten(to: str) -> None: ...

    with caplog.at_level(logging.ERROR):
        forgotten.submit(to="x")
    assert "nothing was stored" in caplog.text
    assert "`forgotten.sync.submit`" in caplog.text


@pytest.mark.parametrize("name", ["delay", "apply_async", "defer"])
def test_names_of_celery_lead_to_ours(name: str) -> None:
    @app.task(name=f"hint.{name}")
    async def send(to: str) -> None: ...

    with pytest.raises(AttributeError, match=r"use `await send\."):
        getattr(send, name)


def test_options_of_celery_lead_to_ours() -> None:
    @app.task(name="hint.options")
    async def send(to: str) -> None: ...

    with pytest.raises(InvalidInput, match=r"countdown: is not an option \(it is called `run_in` here\)"):
        send.options(countdown=10)
    with pytest.raises(InvalidInput, match=r"`eta` is an option, .* \(send.options\(run_at=…\).submit\(to=…\)\)"):
        send.bind(to="x", eta=10)
    with pytest.raises(InvalidInput, match=r"max_retries: is not an option of a task \(it is called `retries` here\)"):
        app.task(max_retries=3)(send.function)
