"""The child process of `--reload`: `python -m duetime.cli.reloaded PIPE PROGRAM ARGUMENT…`. It stops when the pipe is
closed. The program is `duetime`, or that of a web framework: `-m MODULE`, or the path of a script.
"""

import os
import runpy
import signal
import sys
import threading
from pathlib import Path


def _stop_with_parent(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    pipe, program, *arguments = sys.argv[1:]
    os.set_inheritable(int(pipe), False)
    threading.Thread(target=_stop_with_parent, args=(int(pipe),), name="duetime-reloader", daemon=True).start()
    sys.argv = [program, *arguments]
    if program == "duetime":
        from duetime.cli.main import main as run

        run()
    elif program == "-m":
        module, *sys.argv[1:] = arguments
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(program).parent)
        runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
