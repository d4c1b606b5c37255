"""The child process of `--reload`: `python -m duetime.cli.reloaded PIPE COMMAND…`. It stops when the pipe is closed."""

import os
import signal
import sys
import threading


def _stop_with_parent(pipe: int) -> None:
    while os.read(pipe, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    pipe = int(sys.argv[1])
    os.set_inheritable(pipe, False)
    threading.Thread(target=_stop_with_parent, args=(pipe,), name="duetime-reloader", daemon=True).start()
    sys.argv = ["duetime", *sys.argv[2:]]
    from duetime.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
