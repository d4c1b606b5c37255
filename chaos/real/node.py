"""`python -m chaos.real.node server` and the like: the `duetime` command, in a process that may lie to itself."""

import os
from pathlib import Path

from chaos.history import Files
from chaos.real.environment import LOGS
from chaos.real.lies import lie_if_asked
from duetime.cli.main import main

if __name__ == "__main__":
    lie_if_asked(Files(Path(os.environ[LOGS])))
    main()
