"""Lists are timed where there is something to list, for the largest tenant too."""

from pathlib import Path

import pytest

from bench import lists
from tests.bench.small import results, small_bench
from tests.support.postgres import Server


@pytest.mark.timeout(240)
async def test_every_list_finds_something(postgres: Server, tmp_path: Path, database: str) -> None:
    with small_bench(postgres, tmp_path, database, stored=40_000) as bench:
        await lists.run(bench)
    body = results(tmp_path, "list")
    ours, found = body["ours"]["postgres"], body["notes"]["share of asks that found rows"]
    assert ours.keys() >= {*lists.LISTS, *lists.OF_LARGEST.values(), lists.SLOWEST_OF_LARGEST}
    for name in lists.OF_LARGEST:
        assert bool(found[lists.OF_LARGEST[name]]) is (name not in lists.EMPTY), name
    assert body["target"]["postgres"][lists.SLOWEST_OF_LARGEST] == "≤ 50"


async def test_lists_of_nothing_are_no_measurement(
    postgres: Server, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LISTS", "FIGURES", "OF_LARGEST"):
        monkeypatch.setattr(lists, name, {})
    monkeypatch.setitem(lists.LISTS, "jobs of nobody", "/v1/jobs?owner=nobody")

    async def nothing(*_: object) -> list[float]:
        return [1.0]

    monkeypatch.setattr(lists, "_scrape", nothing)  # a node that was just started has no figures yet
    failed = pytest.raises(AssertionError, match="nothing on the pages of: jobs of nobody")
    with small_bench(postgres, tmp_path, database, stored=4_000) as bench, failed:
        await lists.run(bench)
