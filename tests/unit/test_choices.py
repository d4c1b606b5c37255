"""Enumerations print their names, and a value outside a closed list is refused with the valid ones."""

import importlib
import pkgutil
from enum import Enum, IntEnum
from typing import Any, Literal

import msgspec
import pytest

import duetime
import duetime.model
from duetime import InvalidInput, RunState
from duetime.api.decoding import fit
from duetime.api.problems import Problem
from duetime.codec.schema_types import ArgumentCheck
from duetime.spec.bodies import MisfireBody
from duetime.spec.dependencies import make_rule
from duetime.wire.jobs import JobRequest

VALUES = "is not a valid value (one of "


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def test_numbers_of_the_model_print_their_names() -> None:
    found = set()
    for module in pkgutil.walk_packages(duetime.model.__path__, "duetime.model."):
        members = vars(importlib.import_module(module.name)).values()
        found |= {each for each in members if isinstance(each, type) and issubclass(each, IntEnum) and len(each)}
    assert RunState in found and duetime.FailureClass in found
    for each in found:
        assert [f"{member} {member:<3}|" for member in each] == [f"{each.name} {each.name:<3}|" for each in each]
        assert [str(member) for member in each] == [member.name for member in each]
    assert str(duetime.GraphStatus.RUNNING) == "RUNNING"
    assert msgspec.json.encode(RunState.SUCCEEDED) == b"4"


def paint(colour: Literal["red", "blue"], layers: list[Colour] = []) -> None:  # noqa: B006
    ...


@pytest.mark.parametrize(
    ("attempt", "told"),
    [
        (lambda task: task.options(priority="urgent"), f"priority: 'urgent' {VALUES}HIGH, LOW, MEDIUM)"),
        (lambda task: task.options(delivery="once"), f"delivery: 'once' {VALUES}at_least_once, at_most_once)"),
        (lambda task: make_rule("most", "success", "run"), f"depends_on.need: 'most' {VALUES}all, any)"),
        (lambda task: task.bind(colour="green").encoded(), f"args.colour: 'green' {VALUES}blue, red)"),
    ],
)
def test_python(attempt: Any, told: str) -> None:
    task = duetime.App().task(paint)
    with pytest.raises(InvalidInput) as caught:
        attempt(task)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("body", "field", "told"),
    [
        ({"task": "t", "priority": "urgent"}, "priority", "one of HIGH, LOW, MEDIUM"),
        ({"task": "t", "misfire": {"mode": "never"}}, "misfire.mode", "one of all, latest, skip"),
    ],
)
def test_http(body: dict[str, Any], field: str, told: str) -> None:
    with pytest.raises(Problem) as caught:
        fit(body, JobRequest)
    problem = caught.value.document
    assert (problem.field, problem.remedy) == (field, told)
    assert str(problem.detail).endswith(" is not a valid value")


def test_arguments_from_other_languages() -> None:
    schema = msgspec.json.encode(msgspec.json.schema(MisfireBody))
    with pytest.raises(InvalidInput) as caught:
        ArgumentCheck(schema).check(b'{"mode": "never"}')
    assert str(caught.value) == f"args.mode: 'never' {VALUES}all, latest, skip)"
