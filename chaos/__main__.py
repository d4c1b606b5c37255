"""`python -m chaos`: break duetime on purpose, and say which promises held.

run        faults on real processes: what `make chaos` does
simulate   many seeds of the simulation
mutants    break the product on purpose, and see that the checker notices
replay     one seed of the simulation, its logs kept
check      judge the logs of a folder again
soak       a steady rate for long, then more than can be done
fuzz       the parsers, with many more examples than the tests draw
"""

import argparse
import signal
import sys
from pathlib import Path

from chaos import commands
from chaos.mutants import MUTANTS, SIMULATED
from chaos.scenarios import SCENARIOS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    actions = parser.add_subparsers(required=True)

    run = actions.add_parser("run", help="faults on real processes")
    run.add_argument(
        "--seconds",
        type=float,
        default=300.0,
        help="of a mixed run, or of `embedded`; any other scenario takes as long as it needs",
    )
    run.add_argument("--seed", type=int, default=1)
    run.add_argument(
        "--scenario",
        choices=[*SCENARIOS, "limits", "embedded"],
        default=None,
        help="one kind of fault, for as long as that needs (embedded: for SECONDS)",
    )
    run.add_argument("--faults", default=None, help="kinds, with commas in between; all, unless told")
    run.add_argument("--every", type=float, default=2.0, help="seconds from one fault to the next")
    run.add_argument("--rate", type=float, default=400.0, help="one-off jobs a second")
    run.add_argument(
        "--outage", type=float, default=None, help="seconds that a killed broker stays away in streams-outage (60)"
    )
    run.add_argument(
        "--mutant", choices=MUTANTS, default=None, help="break the product on purpose: the checker must notice"
    )
    run.add_argument("--report", type=Path, default=Path("chaos/report.json"))
    run.set_defaults(action=commands.run)

    simulate = actions.add_parser("simulate", help="many seeds of the simulation")
    simulate.add_argument("--seeds", type=int, default=100)
    simulate.add_argument("--first", type=int, default=1)
    simulate.add_argument("--processes", type=int, default=1)
    simulate.add_argument("--seconds", type=float, default=None, help="begin no seed after so long")
    simulate.add_argument("--share", type=float, default=1.0, help="of an hour, and of its work; the faults stay five")
    simulate.add_argument("--report", type=Path, default=None)
    simulate.set_defaults(action=commands.simulate)

    mutants = actions.add_parser("mutants", help="the checker must notice a broken product")
    mutants.add_argument("--seeds", type=int, default=500)
    mutants.add_argument("--first", type=int, default=1)
    mutants.set_defaults(action=commands.mutants)

    replay = actions.add_parser("replay", help="one seed again")
    replay.add_argument("seed", type=int)
    replay.add_argument("--mutant", choices=SIMULATED, default=None)
    replay.add_argument("--share", type=float, default=1.0)
    replay.add_argument("--keep", type=Path, default=None, help="a folder for its logs")
    replay.set_defaults(action=commands.replay)

    check = actions.add_parser("check", help="judge logs again")
    check.add_argument("folder", type=Path)
    check.set_defaults(action=commands.check)

    soak = actions.add_parser("soak", help="a steady rate for long, then more than can be done")
    soak.add_argument("--seconds", type=float, default=600.0)
    soak.add_argument("--rate", type=float, default=100.0, help="jobs a second")
    soak.add_argument("--hold", action="store_true", help="keep a transaction open all the while")
    soak.add_argument("--report", type=Path, default=Path("chaos/report-load.json"))
    soak.set_defaults(action=commands.soak)

    fuzz = actions.add_parser("fuzz", help="many examples for every parser")
    fuzz.add_argument("--examples", type=int, default=2_000, help="for each of them")
    fuzz.add_argument("--seed", type=int, default=1)
    fuzz.set_defaults(action=commands.fuzz)

    given = parser.parse_args()
    # Both end the processes of a run with it, also when a shell started this in the background and had SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    status: int = given.action(given)
    return status


if __name__ == "__main__":
    sys.exit(main())
