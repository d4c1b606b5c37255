"""Wherever a request takes one of some values, a refusal names them; wherever it takes an integer, 1.0 is one."""

import json
from typing import Any

import pytest
from msgspec import inspect

from duetime.api.bodies import ROOM_FOR_THE_REST, limit_of
from duetime.api.decoding import fit, read_query
from duetime.api.endpoint import Endpoint
from duetime.api.problems import Problem
from duetime.api.table import ENDPOINTS
from duetime.settings import Settings
from duetime.wire.targets import SecretRequest
from tests.support.request_fields import bodies
from tests.support.served import Served

TYPED = [each for each in ENDPOINTS if each.body not in (None, bytes)]


def is_choice(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.LiteralType | inspect.EnumType)


def is_integer(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.IntType)


@pytest.mark.parametrize("endpoint", TYPED, ids=lambda each: each.name)
def test_refusals_name_the_values(endpoint: Endpoint) -> None:
    for what, body in bodies(endpoint, is_choice, {"wrong": "nonsense"}):
        with pytest.raises(Problem) as caught:
            fit(body, endpoint.body)
        problem = caught.value
        assert problem.remedy is not None and problem.remedy.startswith("one of "), (what, problem.document)


@pytest.mark.parametrize(
    ("field", "given", "detail", "remedy"),
    [
        ("value", "short", "is too short", "8 or more characters"),
        ("value", "x" * 8001, "is too long", "8,000 or fewer characters"),
        ("hosts", [], "is too short", "1 or more items"),
        ("hosts", ["example.com"] * 21, "is too long", "20 or fewer items"),
    ],
)
def test_refusals_of_lengths_name_the_limit(field: str, given: Any, detail: str, remedy: str) -> None:
    with pytest.raises(Problem) as caught:
        fit({"value": "s3cret-value", "hosts": ["example.com"], field: given}, SecretRequest)
    problem = caught.value.document
    assert (problem.field, problem.detail, problem.remedy) == (field, detail, remedy)


def test_refusals_in_queries_name_the_values() -> None:
    asked = [(each.query, b"status=nonsense") for each in ENDPOINTS if "status" in _names(each.query)]
    assert asked
    for kind, query in asked:
        with pytest.raises(Problem) as caught:
            read_query(query, kind)
        assert "FAILED" in str(caught.value.remedy)


def _names(kind: Any) -> tuple[str, ...]:
    return getattr(kind, "__struct_encode_fields__", ())


@pytest.mark.parametrize("endpoint", TYPED, ids=lambda each: each.name)
def test_whole_floats_are_integers(endpoint: Endpoint) -> None:
    """What is left to refuse is their range."""
    for what, body in bodies(endpoint, is_integer, {"whole": 1.0, "huge": 1e300}):
        try:
            fit(body, endpoint.body)
        except Problem as problem:
            assert what.endswith("=huge") or "got 'float'" not in str(problem), (what, problem.document)


async def test_over_http(api: Served) -> None:
    made = await api.post("/v1/jobs", {"task": "t", "retries": 2.0, "args": {"x": 1.0}, "max_runs": 3.0, "every": "1h"})
    assert made.status == 201, made.body
    job = (await api.get(f"/v1/jobs/{made.json['job_id']}")).body
    assert b'"x":1.0' in job, "arguments stay as they are"
    found = json.loads(job)
    assert (found["retry"]["retries"], found["max_runs"]) == (2, 3)
    batch = await api.post("/v1/jobs/batch", [{"task": "t", "retry": {"retries": 1.0}}])
    assert batch.json["stored"] == 1, batch.body
    refused = await api.post("/v1/jobs", {"task": "t", "priority": "URGENT"})
    assert (refused.json["field"], refused.json["remedy"]) == ("priority", "one of HIGH, LOW, MEDIUM")
    refused = await api.post("/v1/jobs", {"task": "t", "retry": {"retries": 1.5}})
    assert (refused.status, refused.json["field"]) == (422, "retry.retries")


async def test_the_largest_calendar_is_accepted(api: Served) -> None:
    days = [f"{2000 + index // 28}-01-{index % 28 + 1:02}" for index in range(1000)]
    assert (await api.ask("PUT", "/v1/calendars/days", {"dates": days})).status == 200
    more = await api.ask("PUT", "/v1/calendars/days", {"dates": [*days, "1999-12-31"]})
    assert (more.status, more.json["field"]) == (422, "dates")


def test_what_a_small_body_may_hold_fits_into_its_limit() -> None:
    for endpoint in TYPED:
        if endpoint.body_limit in ("small", "tiny"):
            size = largest(inspect.type_info(endpoint.body))
            assert size is None or size <= limit_of(endpoint, Settings()), endpoint.name
    assert ROOM_FOR_THE_REST > 1000


def largest(kind: inspect.Type, least: int = 2) -> int | None:
    """Bytes of the largest value of a type, in plain JSON; None where nothing bounds it."""
    match kind:
        case inspect.StrType():
            return None if kind.max_length is None else kind.max_length + 2
        case inspect.Metadata():
            return largest(kind.type)
        case inspect.UnionType():
            sizes = [largest(each) for each in kind.types]
            return None if None in sizes else max(each or 0 for each in sizes)
        case inspect.StructType():
            sizes = [largest(field.type) for field in kind.fields]
            names = sum(len(field.encode_name) + 4 for field in kind.fields)
            return None if None in sizes else 2 + names + sum(each or 0 for each in sizes)
        case inspect.CollectionType():
            size = largest(kind.item_type)
            return None if size is None or kind.max_length is None else 2 + kind.max_length * (size + 1)
        case inspect.LiteralType():
            return max(len(str(value)) for value in kind.values) + 2
        case inspect.EnumType():
            return max(len(str(member.value)) for member in kind.cls) + 2
        case inspect.DateType():
            return 12
        case inspect.BoolType() | inspect.IntType() | inspect.FloatType() | inspect.NoneType():
            return 24
    return None
