"""The same mistake in every job of a batch: what was probably meant is looked for once, and others have their turn."""

import asyncio
import time
from time import thread_time
from types import ModuleType
from typing import Any

import pytest

from duetime.api import decoding
from duetime.ids import new_id
from duetime.model.schedule import words, zone
from duetime.text.suggestions import AT_ONCE, SHARE, SearchBudget
from tests.support.served import Served


@pytest.mark.parametrize(
    ("where", "mistake", "remedy"),
    [
        (zone, {"cron": "* * * * *", "tz": "Europe/Berlinn"}, "did you mean Europe/Berlin?"),
        (decoding, {"priorrity": "HIGH"}, "did you mean priority?"),
    ],
)
async def test_it_is_looked_for_once(
    api: Served, monkeypatch: pytest.MonkeyPatch, where: ModuleType, mistake: dict[str, str], remedy: str
) -> None:
    searches: list[str] = []
    search = where.get_close_matches

    def counted(word: str, *args: Any, **given: Any) -> Any:
        searches.append(word)
        return search(word, *args, **given)

    monkeypatch.setattr(where, "get_close_matches", counted)
    monkeypatch.setattr(where, "search_budget", SearchBudget())
    refused = await api.post("/v1/jobs/batch", [{"task": "t"} | mistake] * 50)
    assert refused.status == 422
    assert {problem["remedy"] for problem in refused.json["errors"]} == {remedy}
    assert len(searches) <= 1


async def test_others_have_their_turn_between_mistakes(api: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, took = 0, dict[int, float]()
    search = zone.get_close_matches

    def noted(*args: Any, **given: Any) -> Any:
        began = thread_time()
        try:
            return search(*args, **given)
        finally:
            took[turns] = took.get(turns, 0.0) + thread_time() - began

    monkeypatch.setattr(zone, "get_close_matches", noted)
    monkeypatch.setattr(zone, "search_budget", SearchBudget())
    fresh = new_id().hex[-8:]  # what another test has looked for is remembered
    jobs = [{"task": "t", "cron": "* * * * *", "tz": f"Europe/{fresh}{index}"} for index in range(100)]
    asked = asyncio.create_task(api.post("/v1/jobs/batch", jobs))
    while not asked.done():
        turns += 1
        await asyncio.sleep(0)
    assert (await asked).status == 422
    assert len(took) > 1
    assert max(took.values()) < 0.05


@pytest.mark.parametrize(
    ("where", "mistake"),
    [
        (zone, lambda text: {"cron": "* * * * *", "tz": f"Europe/{text}"}),
        (decoding, lambda text: {f"prio{text}": "HIGH"}),
        (words, lambda text: {"when": f"evry wekday {text}"}),
    ],
    ids=["zones", "fields", "words"],
)
async def test_many_mistakes_are_searched_for_a_moment(
    api: Served, monkeypatch: pytest.MonkeyPatch, where: ModuleType, mistake: Any
) -> None:
    """A thousand mistakes in one batch cost a fraction of a second: those after that get no suggestion."""
    monkeypatch.setattr(where, "search_budget", SearchBudget())
    searches = 0

    def slow(*args: Any, **given: Any) -> list[str]:
        nonlocal searches
        searches += 1
        time.sleep(0.01)
        return []

    monkeypatch.setattr(where, "get_close_matches", slow)
    fresh = new_id().hex[-8:].translate(str.maketrans("0123456789", "ghijklmnop"))
    letters = "abcdefghij"
    jobs = [
        {"task": "t", **mistake(fresh + letters[n % 10] + letters[n // 10 % 10] + letters[n // 100])}
        for n in range(1000)
    ]
    began = time.monotonic()
    refused = await api.post("/v1/jobs/batch", jobs)
    assert refused.status == 422
    assert 1 <= searches <= 6 + (AT_ONCE + SHARE * (time.monotonic() - began)) / 0.01
