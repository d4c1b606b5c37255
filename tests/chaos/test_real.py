"""A short slice of the faults on real processes, seeded; `make chaos` goes on for minutes and with every kind."""

import inspect
import signal
from pathlib import Path

from chaos import history
from chaos.checker import check
from chaos.figures import figures
from chaos.picture import draw
from chaos.real import lies, run, run_embedded
from chaos.real.cluster import Member
from chaos.scenarios import Scenario
from duetime.store.protocol.store import Store
from tests.support.waiting import eventually


async def test_servers_and_workers_on_postgres(tmp_path: Path) -> None:
    kinds = ("kill worker", "kill server", "terminate backends", "crash database", "reset", "lies")
    scenario = Scenario(kinds, seconds=8.0, every=1.0, rate=40.0, longest_wait=3.0, lasts=0.5, strengths=(0.05,))
    await run.run(tmp_path, scenario, seed=3, workers=2, quiet=run.RECOVERY + run.BOUND + 2.0)
    logs = history.read(tmp_path)
    verdict = check(logs)
    assert verdict.violations == []
    assert verdict.counts["acknowledged"] > 50
    assert verdict.counts["occurrences that must have run"] > 10
    struck = figures(logs)
    assert struck.struck.keys() >= set(kinds)
    assert draw(struck, "a test").startswith("<svg")


def test_one_process_on_sqlite(tmp_path: Path) -> None:
    run_embedded.run(tmp_path, seconds=14.0, seed=3, every=1.5)
    verdict = check(history.read(tmp_path))
    assert verdict.violations == []
    assert verdict.counts["acknowledged"] > 10
    assert verdict.counts["occurrences that must have run"] > 10
    assert verdict.counts["faults"] > 2


def test_every_method_of_the_store_can_lie() -> None:
    """A method that is added to the store's protocol is lied about without anyone thinking of it."""
    asked = {name for name, method in inspect.getmembers(Store, inspect.iscoroutinefunction) if name[0] != "_"}
    assert asked - set(lies.methods()) == {"open", "close", "migrate", "check_schema"}
    assert {"submit", "settle", "submit_graph", "claim_many", "list_runs"} <= set(lies.methods())


async def test_a_process_may_end_by_the_signal_only_while_it_is_loaded(tmp_path: Path) -> None:
    member = Member("server", ["server"], "postgresql://127.0.0.1:1/none", tmp_path, tmp_path)
    await member.proxy.start()
    try:
        member.start()
        member.send(signal.SIGTERM)
        await eventually(lambda: member.pid is None)
        member.judge_end()
        assert member.crashes == []
        (tmp_path / "server.log").write_text("serving")
        member.start()
        (tmp_path / "server.log").write_text("serving again")
        member.send(signal.SIGTERM)
        await eventually(lambda: member.pid is None)
        member.judge_end()
        assert len(member.crashes) == 1 and "ended with -15" in member.crashes[0]
    finally:
        await member.close()
