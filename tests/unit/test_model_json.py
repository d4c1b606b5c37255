"""JSON that comes back as it went in, or is refused with the place at fault."""

from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.errors import InvalidInput
from duetime.model.json import MAX_DEPTH, decode, encode

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_is_accepted_comes_back(value: Any) -> None:
    assert decode(encode(value, field="args")) == value


def test_tuples_come_back_as_lists() -> None:
    assert decode(encode({"a": (1, 2)}, field="args")) == {"a": [1, 2]}


class Colour(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"when": datetime(2026, 1, 1, tzinfo=UTC)}, "args.when"),
        ({"a": [{"b": {1: 2}}]}, "args.a[0].b"),
        ({"a": [0, float("nan")]}, "args.a[1]"),
        ({"a": float("-inf")}, "args.a"),
        ({"a": 2**63}, "args.a"),
        ({"a": -(2**63) - 1}, "args.a"),
        ({"a": "\ud800"}, "args.a"),
        ({"\ud800": 1}, "args"),
        ({"a": b"bytes"}, "args.a"),
        ({"a": {1, 2}}, "args.a"),
        ({"a": Decimal(1)}, "args.a"),
        ({"a": Colour.RED}, "args.a"),
        ({"a": object()}, "args.a"),
    ],
)
def test_what_would_come_back_as_something_else_is_refused(value: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        encode(value, field="args")
    assert caught.value.field == field


def test_the_depth_is_bounded() -> None:
    value: Any = 1
    for _ in range(MAX_DEPTH):
        value = [value]
    assert decode(encode(value, field="args")) == value
    with pytest.raises(InvalidInput, match="nested"):
        encode([value], field="args")
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidInput, match="nested"):
        encode(loop, field="args")


def test_the_size_is_bounded() -> None:
    assert encode("x" * 8, field="args", limit=10) == b'"xxxxxxxx"'
    with pytest.raises(InvalidInput, match="11 bytes of JSON exceed the limit of 10"):
        encode("x" * 9, field="args", limit=10)
