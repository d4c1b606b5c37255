"""A process that hides its secrets, and others that look: prints what they have seen, as JSON.

As root it becomes another user in its children, since root may look into everything.
"""

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from duetime.process.privacy import keep_secrets_private

NOBODY = 65534
_PR_SET_DUMPABLE = 4


def _seen(path: Path) -> str:
    try:
        found = path.read_bytes()
    except OSError as error:
        return str(error.strerror)
    return "SECRET" if os.environ["DUETIME_ENCRYPTION_KEYS"].encode() in found else ""


def _opened(path: Path) -> str:
    try:
        path.open("rb").close()
    except OSError as error:
        return str(error.strerror)
    return "opened"


def _as_user(work: Callable[[], object]) -> object:
    """What `work` gives in a process of an ordinary user."""
    to_read, to_write = os.pipe()
    if os.fork() == 0:
        _become_ordinary()
        os.write(to_write, json.dumps(work()).encode())
        os._exit(0)
    os.close(to_write)
    with os.fdopen(to_read) as file:
        return json.load(file)


def _become_ordinary() -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # as after an exec; `setuid` has changed it


def main() -> None:
    to_child, from_parent = os.pipe()
    done, to_say = os.pipe()
    hider = os.fork()
    if hider == 0:
        _become_ordinary()
        os.write(to_say, b"1")
        os.read(to_child, 1)
        keep_secrets_private()
        shown = subprocess.run(
            ["/bin/sh", "-c", "echo $DUETIME_ENCRYPTION_KEYS$DUETIME_HOST"], capture_output=True, text=True, check=True
        )
        os.write(to_say, json.dumps([os.environ["DUETIME_ENCRYPTION_KEYS"], shown.stdout.strip()]).encode())
        os.read(to_child, 1)
        os._exit(0)
    folder = Path(f"/proc/{hider}")
    os.read(done, 1)
    before = _as_user(lambda: _seen(folder / "environ"))
    os.write(from_parent, b"1")
    itself, programs = json.loads(os.read(done, 4096))
    same_user = _as_user(lambda: {"environ": _seen(folder / "environ"), "mem": _opened(folder / "mem")})
    root = _seen(folder / "environ")
    os.write(from_parent, b"1")
    os.waitpid(hider, 0)
    json.dump(
        {"before": before, "same user": same_user, "itself": itself, "its programs": programs, "root": root}, sys.stdout
    )


if __name__ == "__main__":
    main()
