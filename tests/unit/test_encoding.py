"""Answers with long lists are the same bytes, made in parts."""

import asyncio
from datetime import UTC, datetime

from duetime.api.encoding import encode, encode_answer
from duetime.wire.graphs import EdgeView, GraphView
from tests.support.pauses import recorded_pauses

EDGE = EdgeView("a" * 200, "é" * 100)
GRAPH = GraphView(
    graph_id="gra_1",
    name='"[]"',
    status="RUNNING",
    size=1,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
    ended_at=None,
    counts={},
    nodes=(),
    edges=(EDGE,) * 100_000,
)


async def test_a_long_list_is_encoded_in_parts() -> None:
    """The largest graph, with the longest names."""
    with recorded_pauses() as pauses:
        parts = await asyncio.create_task(encode_answer(GRAPH))
    assert pauses.worst <= 0.05
    assert b"".join(parts) == encode(GRAPH)
    assert max(map(len, parts)) < 1_000_000 and len(parts) < 1000


async def test_short_answers_are_one_part() -> None:
    short = GRAPH.__class__(**{name: getattr(GRAPH, name) for name in GRAPH.__struct_fields__} | {"edges": (EDGE,)})
    assert await encode_answer(short) == [encode(short)]
    assert await encode_answer({"a": [1] * 1000}) == [encode({"a": [1] * 1000})]
