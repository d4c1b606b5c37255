"""Runs in the child, between fork and the command: takes limits upon itself, then becomes the command.

It is a program of its own (`python -I -S confine.py LIMITS ARGV…`), since code that runs between fork and exec in a
process with threads may hang. It imports nothing of duetime.
"""

import ctypes
import json
import os
import pwd
import resource
import signal
import sys

_FAILED = 126
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38


def main() -> None:
    limits = json.loads(sys.argv[1])
    argv = sys.argv[2:]
    try:
        if limits["user"] is not None:
            _become(limits["user"])
        if limits["folder"] is not None:
            os.chdir(limits["folder"])
        for kind, most in (
            (resource.RLIMIT_AS, limits["memory"]),
            (resource.RLIMIT_CPU, limits["cpu"]),
            (resource.RLIMIT_FSIZE, limits["file_size"]),
            (resource.RLIMIT_NOFILE, limits["files"]),
            (resource.RLIMIT_CORE, 0),
        ):
            if most is not None:
                resource.setrlimit(kind, (most, most))
        _bind_to_parent(limits["parent"])
        os.execve(argv[0], argv, dict(os.environ))
    except OSError as error:
        sys.stderr.write(f"{argv[0]} cannot be run: {error}\n")
        sys.exit(_FAILED)


def _become(user: str) -> None:
    entry = pwd.getpwnam(user) if not user.isdigit() else pwd.getpwuid(int(user))
    os.initgroups(entry.pw_name, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def _bind_to_parent(parent: int) -> None:
    """Die with the worker, and gain no rights by what is run. After `setuid`, which would undo it."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before we were bound to it
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
