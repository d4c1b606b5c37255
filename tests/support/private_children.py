"""A process that hides its secrets, and a child of it: prints what the child has, and what is to be read of it."""

import json
import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from duetime.process.privacy import hidden_secrets, keep_secrets_private, take_secrets

NAME = "DUETIME_ENCRYPTION_KEYS"


def _child(answer: Connection, hidden: dict[str, str] | None) -> None:
    readable = Path("/proc/self/environ").read_bytes()  # as it was started
    take_secrets(hidden)
    has = os.environ[NAME]
    answer.send({"has": has, "readable": has.encode() in readable, "programs have": os.popen(f"echo ${NAME}").read()})


def main() -> None:
    keep_secrets_private()
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=_child, args=(theirs, hidden_secrets()))
    child.start()
    json.dump(ours.recv(), sys.stdout)
    child.join()


if __name__ == "__main__":
    main()
