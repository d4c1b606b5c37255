"""A function for child processes that notes each call in a file, and ends as it is told to."""

import os
import signal
import time
from pathlib import Path
from typing import Any


def noted(file: str, name: str, then: str = "return") -> Any:
    with Path(file).open("a") as lines:
        print(name, file=lines)
    match then:
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(3)
        case "hang":
            time.sleep(600)
        case "an object":
            return object()
    return name
