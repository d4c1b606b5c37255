"""What each command of `python -m chaos` does."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from chaos import history
from chaos.checker import PROMISES, Verdict
from chaos.checker import check as judge
from chaos.checker.facts import sort
from chaos.demands import Demands, came_of_it, failovers, late_and_refused, without_effect
from chaos.figures import figures
from chaos.mutants import MUTANTS, SIMULATED
from chaos.picture import draw, draw_series
from chaos.real import brokers, lies, limits, load, patroni, run_embedded
from chaos.real import run as real
from chaos.real.clocks import library, put_forward, until_midnight
from chaos.real.cluster import ROOT
from chaos.real.environment import AHEAD
from chaos.real.faults import KINDS, KNOWN, MIXED, missing
from chaos.scenarios import SCENARIOS, Scenario
from chaos.simulation import seeds
from tests.support.postgres import Server, installed

NO_DEMANDS = Demands()
_SET_UP = 75.0
"""Seconds from the command to midnight: a busy machine takes a minute until everything runs."""
_EMBEDDED = 0.2
_SIMULATED = 0.1
"""The shares of a mixed run that belong to the embedded store, and to the simulation."""


def run(given: Namespace) -> int:
    if given.scenario == "limits":
        return run_limits(given)
    if given.scenario == "embedded":
        return _run_embedded(given, given.seconds)
    if given.scenario is not None:
        scenario = SCENARIOS[given.scenario]
        if given.outage is not None and scenario.outage is not None:
            scenario = scenario._replace(outage=given.outage)
        if scenario.stream is not None and (reason := brokers.missing(scenario.stream)) is not None:
            print(reason)
            return 2
        if scenario.patroni is not None and (reason := patroni.missing()) is not None:
            print(reason)
            return 2
        if scenario.midnight is not None and AHEAD not in os.environ:
            return _run_at_midnight()
    else:
        kinds = MIXED if given.faults is None else [kind.strip() for kind in given.faults.split(",")]
        share = 1.0 if given.faults is not None else 1.0 - _EMBEDDED - _SIMULATED
        demands = Demands(effective=False)
        scenario = Scenario(tuple(kinds), given.seconds * share, given.every, given.rate, demands=demands)
    able = KNOWN if given.scenario is not None else KINDS
    unknown = [kind for kind in scenario.kinds if kind not in able]
    if unknown:
        print(f"there is no fault {unknown[0]!r}; there are: {', '.join(able)}")
        return 2
    impossible = [kind for kind in missing() if kind in scenario.kinds]
    scenario = scenario._replace(kinds=tuple(kind for kind in scenario.kinds if kind not in impossible))
    if impossible:
        print(f"not struck, for want of libfaketime or of the right to mount: {', '.join(impossible)}")
    if not scenario.kinds and not scenario.activities:
        return 2
    mixed = given.scenario is None and given.faults is None
    others = _run_others(given) if mixed else {}
    logs = given.report.parent / "logs"
    remove_old(logs)
    if given.scenario is not None:
        seconds = scenario.seconds + (scenario.outage or 0.0) + real.QUIET
        print(f"this takes {seconds:.0f} s, and as long as it then takes to be over", flush=True)
    asyncio.run(real.run(logs, scenario, seed=given.seed, mutant=given.mutant))
    print("servers and workers on PostgreSQL:")
    about = {"scenario": given.scenario or "mixed", "seed": given.seed, "seconds": scenario.seconds}
    status = report(logs, given.report, scenario.demands, others, **about, not_struck=impossible)
    return status if given.mutant is None else _noticed(given.mutant, logs)


def _run_at_midnight() -> int:
    """The same command, shortly before midnight."""
    if library() is None:
        print("this needs libfaketime")
        return 2
    with tempfile.TemporaryDirectory(prefix="duetime-chaos-") as folder:
        Path(folder).chmod(0o711)
        environment = put_forward(Path(folder) / "clock", until_midnight() - _SET_UP)
        command = [sys.executable, "-m", "chaos", *sys.argv[1:]]
        return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False).returncode


def _noticed(mutant: str, logs: Path) -> int:
    """Whether a product that was broken on purpose was found out by what it breaks."""
    told = MUTANTS[mutant].noticed_by(judge(history.read(logs)).violations)
    print(f"{mutant}: {f'caught: {told[0][0]}: {told[0][1]}' if told else 'NOT caught'}")
    return 0 if told else 1


def _run_others(given: Namespace) -> dict[str, bool]:
    """What a mixed run does beside its servers and workers, and whether it held."""
    print("parsers:", flush=True)
    fuzzed = fuzz(Namespace(examples=max(100, round(given.seconds)), seed=given.seed))
    print("simulation:", flush=True)
    file = given.report.with_name("report-simulation.json")
    seconds = given.seconds * _SIMULATED
    simulated = simulate(
        Namespace(first=1000 * given.seed, seeds=1000, seconds=seconds, processes=1, share=1.0, report=file)
    )
    embedded = _run_embedded(given, given.seconds * _EMBEDDED)
    return {"parsers": not fuzzed, "simulation": not simulated, "embedded": not embedded}


def run_limits(given: Namespace) -> int:
    """Limits while workers are killed; judged by the attempts' own times instead of by the checker."""
    with Server(installed()[0]) as server, tempfile.TemporaryDirectory() as folder:
        outcome = asyncio.run(limits.run(server.create_database("chaos"), Path(folder), seed=given.seed))
    record = {"scenario": "limits", "seed": given.seed, "holds": outcome.holds, **outcome._asdict()}
    for name, value in record.items():
        print(f"{name.replace('_', ' ')}: {value}")
    given.report.write_text(json.dumps(record, indent=2) + "\n")
    return 0 if outcome.holds else 1


def _run_embedded(given: Namespace, seconds: float) -> int:
    """One process with everything in it."""
    logs, file = given.report.parent / "logs" / "embedded", given.report.with_name("report-embedded.json")
    remove_old(logs)
    run_embedded.run(logs, seconds=seconds, seed=given.seed)
    print("one process on SQLite:")
    return report(logs, file, seed=given.seed, seconds=seconds)


def report(
    logs: Path,
    file: Path,
    demands: Demands = NO_DEMANDS,
    others: Mapping[str, bool] = MappingProxyType({}),
    **about: object,
) -> int:
    """Judge the logs, print the verdict, and write the report with its picture; `others` is what else has held."""
    found = history.read(logs)
    verdict, seen = judge(found), figures(found)
    tell(verdict)
    not_shown = demands.broken(found, verdict, seen)
    for text in not_shown:
        print(f"BROKEN  what this run has to show: {text}")
    for kind in without_effect(found["faults"]):
        print(f"note    {kind}: struck, and hit nothing")
    holds = verdict.holds and not not_shown and all(others.values())
    print(f"struck: {seen.struck}")
    if told := failovers(found["faults"]):
        print(f"failovers, in seconds: {told}")
    print(f"lag: {seen.quantiles}; over {seen.over_after} s after the last fault")
    promises = {promise: verdict.broken(promise) for promise in PROMISES}
    record = {
        **about,
        "holds": holds,
        "others hold": dict(others),
        "not shown": not_shown,
        "load": [round(load, 1) for load in os.getloadavg()],
        "promises": {
            promise: {"holds": not texts, "broken": len(texts), "examples": texts[:20]}
            for promise, texts in promises.items()
        },
        "counts": verdict.counts,
        "struck": seen.struck,
        "late and refused": late_and_refused(sort(found)),
        "came of it": came_of_it(found["faults"]),
        "failovers": failovers(found["faults"]),
        "never lied at": sorted(name for name in lies.methods() if f"lie: {name}" not in seen.struck),
        "lag": seen.quantiles,
        "due when nothing was wrong": seen.in_quiet,
        "over after": seen.over_after,
        "throughput": seen.throughput,
        "lag by second": seen.lag,
    }
    file.write_text(json.dumps(record, indent=2) + "\n")
    file.with_suffix(".svg").write_text(
        draw(seen, f"duetime, {', '.join(f'{name} {value}' for name, value in about.items())}")
    )
    for name, held in others.items():
        print(f"{'holds ' if held else 'BROKEN'}  {name}")
    print(f"written: {file}, {file.with_suffix('.svg')}")
    return 0 if holds else 1


def simulate(given: Namespace) -> int:
    summary, began = seeds.Summary(), time.monotonic()

    def wanted() -> Iterator[int]:
        for seed in range(given.first, given.first + given.seeds):
            if given.seconds is not None and time.monotonic() - began > given.seconds:
                return
            yield seed

    for outcome in seeds.run_seeds(wanted(), processes=given.processes, share=given.share):
        summary.add(outcome)
        for promise, text in outcome.violations[:5]:
            print(f"seed {outcome.seed}: {promise}: {text}")
        if outcome.violations:
            print(f"  to see it again: {seeds.replay(outcome.seed, given.share)}", flush=True)
        if summary.seeds % 25 == 0:
            print(f"{summary.seeds} seeds, {len(summary.failed)} with a violation", flush=True)
    took = time.monotonic() - began
    print(f"{summary.seeds} seeds, {summary.simulated_hours:.0f} simulated hours in {took:.0f} s")
    print(f"each with {summary.fewest_runs} runs or more; of {summary.planned} planned faults have struck:")
    print(dict(summary.struck))
    print(f"{len(summary.failed)} seeds with a violation")
    if given.report is not None:
        given.report.write_text(json.dumps({**summary.as_record(), "seconds": round(took, 1)}, indent=2) + "\n")
    return 1 if summary.failed else 0


def mutants(given: Namespace) -> int:
    missed = 0
    for name, mutant in SIMULATED.items():
        for outcome in seeds.run_seeds(range(given.first, given.first + given.seeds), mutant=name):
            if told := mutant.noticed_by(outcome.violations):
                promise, text = told[0]
                print(f"{name}: caught by seed {outcome.seed}: {promise}: {text}", flush=True)
                break
        else:
            missed += 1
            print(f"{name}: NOT caught within {given.seeds} seeds", flush=True)
    return 1 if missed else 0


def replay(given: Namespace) -> int:
    outcome = seeds.run_seed(given.seed, mutant=given.mutant, share=given.share, keep=given.keep)
    for promise, text in outcome.violations:
        print(f"{promise}: {text}")
    print(f"seed {outcome.seed}: {outcome.counts}, struck {outcome.struck}, {outcome.seconds:.1f} s")
    print(f"{len(outcome.violations)} violations")
    return 1 if outcome.violations else 0


def check(given: Namespace) -> int:
    return tell(judge(history.read(given.folder)))


def soak(given: Namespace) -> int:
    logs = given.report.parent / "logs" / "load"
    remove_old(logs)
    found = asyncio.run(load.run(logs, seconds=given.seconds, rate=given.rate, held=given.hold))
    broken = found.broken()
    for text in broken:
        print(f"BROKEN  {text}")
    record = load.as_record(found)
    print({name: value for name, value in record.items() if name not in ("series", "second and last quarter")})
    given.report.write_text(json.dumps({"holds": not broken, "broken": broken, **record}, indent=2) + "\n")
    given.report.with_suffix(".svg").write_text(draw_series(found.series, f"duetime, {given.seconds:g} s of soak"))
    print(f"written: {given.report}, {given.report.with_suffix('.svg')}")
    return 1 if broken else 0


def fuzz(given: Namespace) -> int:
    environment = {**os.environ, "DUETIME_TEST_FUZZ": str(given.examples), "DUETIME_TEST_FUZZ_SEED": str(given.seed)}
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=0", "tests/fuzz"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def tell(verdict: Verdict) -> int:
    """Print what held and what did not."""
    for promise in PROMISES:
        broken = verdict.broken(promise)
        print(f"{'BROKEN' if broken else 'holds '}  {promise}" + (f": {len(broken)} times" if broken else ""))
        for text in broken[:5]:
            print(f"          {text}")
    print(", ".join(f"{count} {name}" for name, count in verdict.counts.items()))
    return 0 if verdict.holds else 1


def remove_old(folder: Path) -> None:
    """A run's logs are its own: what an earlier run left there would be judged with them."""
    for name in history.LOGS:
        (folder / f"{name}.jsonl").unlink(missing_ok=True)
