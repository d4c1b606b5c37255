"""A short slice of the faults on real processes, seeded; `make chaos` goes on for minutes and with every kind."""

from pathlib import Path

import pytest

from chaos import history
from chaos.checker import check
from chaos.figures import figures
from chaos.picture import draw
from chaos.real import lies, run, run_embedded
from chaos.scenarios import Scenario


@pytest.mark.xdist_group("chaos")
async def test_servers_and_workers_on_postgres(tmp_path: Path) -> None:
    kinds = ("kill worker", "kill server", "terminate backends", "crash database", "reset", "lies")
    scenario = Scenario(kinds, seconds=8.0, every=1.0, rate=40.0, longest_wait=3.0, lasts=0.5, strengths=(0.05,))
    await run.run(tmp_path, scenario, seed=3, workers=2)
    logs = history.read(tmp_path)
    verdict = check(logs)
    assert verdict.violations == []
    assert verdict.counts["acknowledged"] > 50
    struck = figures(logs)
    assert len(struck.struck.keys() & set(kinds)) >= 5
    assert draw(struck, "a test").startswith("<svg")


@pytest.mark.xdist_group("chaos")
def test_one_process_on_sqlite(tmp_path: Path) -> None:
    assert run_embedded.run(tmp_path, seconds=6.0, seed=3, every=1.5) == "ok"
    verdict = check(history.read(tmp_path))
    assert verdict.violations == []
    assert verdict.counts["acknowledged"] > 10
    assert verdict.counts["faults"] > 2


def test_every_method_of_the_store_can_lie() -> None:
    """A method that is added to the store's protocol is lied about without anyone thinking of it."""
    assert {"submit", "fire_due", "claim", "renew", "complete", "hand_back", "reap", "cancel_job"} <= set(
        lies.methods()
    )
