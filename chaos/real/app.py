"""The app that real workers run: the workload's tasks, which write where `DUETIME_TEST_CHAOS_LOGS` says."""

import os
from pathlib import Path
from time import monotonic

import duetime
from chaos.history import Files
from chaos.real.environment import LOGS
from chaos.tasks import add_tasks

app = duetime.App()
# Monotonic time is the machine's, so all processes write the same; a clock that was tampered with does not reach it.
add_tasks(app, Files(Path(os.environ[LOGS])), monotonic, f"pid-{os.getpid()}")
