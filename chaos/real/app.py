"""The app that real workers run: the workload's tasks, which write where `DUETIME_TEST_CHAOS_LOGS` says."""

import os
from pathlib import Path
from time import monotonic

import duetime
from chaos.history import Files
from chaos.real.activities import add_hostile_tasks
from chaos.real.environment import LOGS
from chaos.tasks import add_tasks

app = duetime.App()
# Monotonic time is the machine's, so all processes write the same; a clock that was tampered with does not reach it.
_files, _node = Files(Path(os.environ[LOGS])), f"pid-{os.getpid()}"
add_tasks(app, _files, monotonic, _node)
add_hostile_tasks(app, _files, _node)
