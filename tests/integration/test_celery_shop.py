"""The example project that was migrated from Celery: the guide lists each changed line, and it does what it did before.

`test_celery_shop_commands.py` starts both versions as their Procfiles say.
"""

import difflib
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from duetime.testing import harness
from tests.support.working import quick_settings

ROOT = Path(__file__).parents[2]
SHOP = ROOT / "examples" / "celery_shop"
BLOCK = re.compile(r"^```diff\n--- (?P<file>\S+)\n(?P<lines>.*?)^```$", re.MULTILINE | re.DOTALL)
TASKS = 10


def files(version: str) -> dict[str, list[str]]:
    folder = SHOP / version
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8").splitlines()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def changed(before: list[str], after: list[str]) -> list[str]:
    _, _, *lines = difflib.unified_diff(before, after, n=0, lineterm="")
    return [line for line in lines if not line.startswith("@@")]


def test_the_guide_lists_each_changed_line() -> None:
    before, after = files("before"), files("after")
    assert before.keys() == after.keys()
    differing = {name: changed(before[name], after[name]) for name in before if before[name] != after[name]}
    listed = [match.groups() for match in BLOCK.finditer((ROOT / "docs" / "from-celery.md").read_text("utf-8"))]
    assert {name: lines.splitlines() for name, lines in listed} == differing
    assert len(listed) == len(differing), "each file once"
    lines = [line for file in after.values() for line in file]
    assert not [line for line in lines if re.match(r"(from|import) celery\b", line)]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The migrated project, in this process."""
    monkeypatch.setattr("duetime.celery.current._last", [])
    monkeypatch.setenv("SHOP_DATABASE", str(tmp_path / "shop.db"))
    monkeypatch.syspath_prepend(str(SHOP / "after"))
    monkeypatch.syspath_prepend(str(SHOP))
    yield importlib.import_module("shop.celery")
    for name in [name for name in sys.modules if name in ("shop", "day") or name.startswith("shop.")]:
        del sys.modules[name]


DAY: dict[str, Any] = {
    "orders": [None, None, None],
    "gallery": ["back@200", "front@200", "side@200"],
    "sizes": ["front@20", "front@40"],
    "cancelled": None,
    "report": 203,
    "imported": 5,
    "payments": [[1, 101, 2], [2, 102, 1]],
    "shipments": [[1, "van"], [2, "van"], [3, "van"]],
    "mails": [[f"{number}@example.com", f"order {number} by van"] for number in (1, 2, 3)],
    "thumbnails": [["back", 200], ["front", 20], ["front", 40], ["front", 200], ["side", 200]],
    "galleries": [[3]],
    "rates": [["CHF", 0.95], ["USD", 1.25]],
    "reports": [["2027-01-31", 203]],
    "carts": [[24, 1]],
}


def test_a_day_at_the_migrated_shop(shop: ModuleType, database_url: str) -> None:
    assert len(shop.app.tasks) == TASKS
    shop.jobs.configure(quick_settings(database_url))
    shop.jobs.start()
    try:
        assert importlib.import_module("day").work() == DAY
    finally:
        shop.jobs.stop()


async def test_beat_and_the_rate_limit_of_the_migrated_shop(shop: ModuleType) -> None:
    charge = shop.app.tasks["shop.payments.charge"]
    async with harness(shop.jobs) as jobs:
        await shop.jobs.started()
        assert {each.given.options.name for each in jobs.submitted} == {"rates", "carts", "report"}
        await shop.jobs.submit_many([charge.native.bind(number=2 * number, amount=1) for number in range(103)])
        assert len(await jobs.run_due(timeout=100)) == 100, "the limit of 100 a minute"
        runs = await jobs.advance(minutes=61, timeout=100)
    counts = {name: [run.task for run in runs].count(name) for name in shop.app.tasks}
    assert (counts["shop.payments.charge"], counts["shop.catalog.fetch_rates"]) == (3, 6)
    assert (counts["shop.housekeeping.expire_carts"], counts["shop.housekeeping.daily_report"]) == (1, 0)
