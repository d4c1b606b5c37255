"""Hides the secrets of a server or worker process from other processes of the same user.

Every process of the same user, such as a command that a job runs, can read a process's initial environment in
`/proc/<pid>/environ`. Unsetting a variable does not change that: it is the memory that the kernel filled at the start.
So the values of secret variables are overwritten there. The process's own `os.environ` keeps them, but programs that it
starts do not inherit them. On Linux other processes of the user, except root, cannot read its memory either
(`PR_SET_DUMPABLE`): no debugger, and no core dump.

Root can read everything, and so can processes of the same user that may read the same files (`duetime.toml`,
`encryption-key` and `admin-key` in the data folder): run commands as another user.
"""

import ctypes
import logging
import os
import sys
from pathlib import Path

from duetime.errors import reason_of
from duetime.settings import secret_variables

log = logging.getLogger("duetime")

_PR_SET_DUMPABLE = 4
_ENV_START, _ENV_END = 47, 48
"""Fields of `/proc/self/stat`, counted from the state."""


_is_private = False


def keep_secrets_private() -> None:
    """Hide the secret variables of this process. Call it as early as possible: until then they can be read."""
    global _is_private
    _is_private = True
    for name in secret_variables():
        os.unsetenv(name)  # not `del os.environ[name]`: settings may be loaded again
    if sys.platform != "linux":
        return
    try:
        _overwrite([os.fsencode(name) for name in secret_variables()])
    except (OSError, ValueError, IndexError) as error:
        log.warning("processes of the same user can read the environment of this process: %s", reason_of(error))
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def hidden_secrets() -> dict[str, str] | None:
    """The secret variables that a child does not inherit, for a child that needs them; None when it inherits all."""
    if not _is_private:
        return None
    return {name: os.environ[name] for name in secret_variables() if name in os.environ}


def take_secrets(hidden: dict[str, str] | None) -> None:
    """In such a child: set them, and hide them as the parent does."""
    if hidden is not None:
        os.environ.update(hidden)
        keep_secrets_private()


def _overwrite(names: list[bytes]) -> None:
    """Zero the values of these variables in the memory that the kernel shows as this process's environment."""
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    if not start < end:
        return
    place = start
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, found, value = entry.partition(b"=")
        if found and name in names:
            ctypes.memset(place + len(name) + 1, 0, len(value))
        place += len(entry) + 1
