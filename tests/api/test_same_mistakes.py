"""The same mistake in every job of a batch: what was probably meant is looked for once, and others have their turn."""

import asyncio
from time import thread_time
from types import ModuleType
from typing import Any

import pytest

from duetime.api import decoding
from duetime.ids import new_id
from duetime.model.schedule import zone
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
    fresh = new_id().hex[-8:]  # what another test has looked for is remembered
    jobs = [{"task": "t", "cron": "* * * * *", "tz": f"Europe/{fresh}{index}"} for index in range(100)]
    asked = asyncio.create_task(api.post("/v1/jobs/batch", jobs))
    while not asked.done():
        turns += 1
        await asyncio.sleep(0)
    assert (await asked).status == 422
    assert len(took) > 5
    assert max(took.values()) < 0.05
