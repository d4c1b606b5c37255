"""`python -m chaos.real.node server` and the like: the `duetime` command, in a process that may lie to itself, or be
broken on purpose."""

import os
from contextlib import nullcontext
from pathlib import Path

from chaos.history import Files
from chaos.mutants import MUTANTS
from chaos.real.deaths import die_if_asked
from chaos.real.environment import LOGS, MUTANT
from chaos.real.lies import lie_if_asked
from duetime.cli.main import main

if __name__ == "__main__":
    files = Files(Path(os.environ[LOGS]))
    lie_if_asked(files)
    die_if_asked(files)
    mutant = os.environ.get(MUTANT)
    with MUTANTS[mutant].broken(os.getpid()) if mutant else nullcontext():
        main()
