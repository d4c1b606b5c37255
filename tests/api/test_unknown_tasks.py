"""Jobs for tasks that no worker provides: a similar name is looked for, and never for long."""

import difflib
from datetime import timedelta
from typing import Any

import pytest

from duetime.ids import new_id
from duetime.model.worker import WorkerInfo
from tests.support.served import Served


async def _has(api: Served, *tasks: str) -> None:
    await api.store.leases.register(WorkerInfo(new_id(), "a", tasks, (), 1), timedelta(minutes=1))


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names for which a search for the nearest one was made."""
    found: list[str] = []
    search = difflib.get_close_matches

    def counted(word: str, *args: Any, **given: Any) -> list[str]:
        found.append(word)
        return search(word, *args, **given)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    return found


async def test_a_name_is_searched_for_once(api: Served, searches: list[str]) -> None:
    await _has(api, "reports.pay", "reports.send")
    for _ in range(3):
        [warning] = (await api.post("/v1/jobs", {"task": "report.pay"})).json["warnings"]
        assert warning.endswith("did you mean 'reports.pay'?")
    assert searches == ["report.pay"]


async def test_a_batch_of_many_such_names_looks_for_a_few(api: Served, searches: list[str]) -> None:
    await _has(api, *(f"reports.pay_{index}" for index in range(50)))
    made = (await api.post("/v1/jobs/batch", [{"task": f"report.pay_{index}"} for index in range(100)])).json
    warnings = [item["job"]["warnings"][0] for item in made["items"]]
    assert all("no worker provides the task" in warning for warning in warnings)
    assert ["did you mean" in warning for warning in warnings] == [True] * 10 + [False] * 90
    assert len(searches) == 10


async def test_a_graph_of_many_such_names_is_made_at_once(api: Served, searches: list[str]) -> None:
    await _has(api, *(f"reports.pay_{index}" for index in range(50)))
    nodes = {f"n{index}": {"task": f"report.pay_{index}"} for index in range(100)}
    assert (await api.post("/v1/graphs", {"nodes": nodes})).status == 201
    assert len(searches) <= 10


async def test_among_very_many_tasks_only_their_last_part_is_compared(api: Served, searches: list[str]) -> None:
    await _has(api, *(f"a.module.with.a.long.name.task_{index:04}" for index in range(500)))
    [warning] = (await api.post("/v1/jobs", {"task": "task_0007"})).json["warnings"]
    assert warning.endswith("did you mean 'a.module.with.a.long.name.task_0007'?")
    [warning] = (await api.post("/v1/jobs", {"task": "a.module.with.a.long.name.task_0x07"})).json["warnings"]
    assert warning.endswith("the job waits until one does")
    assert searches == []
