"""Runs one command, and ends with all processes that the command has started: `python -I -S supervisor.py LIMITS
ARGV…`.

The supervisor runs between the worker and the command. It is the subreaper of all descendants of the command: a process
that leaves its group or session, or whose parent has exited (`setsid`, a double fork), becomes a child of the
supervisor and not of init. Nothing is left, however it ends: the command has exited, the worker has closed the other
end of standard input because the run has ended or timed out, or the worker has died.

It ends as the command did: with its exit code, or by its signal. It is a separate program, because code that runs
between fork and exec in a process with threads may hang. It imports nothing from duetime.
"""

import contextlib
import ctypes
import json
import os
import pwd
import resource
import select
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

_FAILED = 126
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_LIFELINE = 0
_PAUSE = 0.01


def main() -> None:
    limits = json.loads(sys.argv[1])
    prctl = _prctl()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    woken = _wake_up_by(signal.SIGCHLD, signal.SIGTERM)
    # In addition to the lifeline, which a child that the worker has forked may hold open.
    prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != limits["parent"]:
        return
    supervisor = os.getpid()
    command = os.fork()
    if command == 0:
        _become_command(limits, sys.argv[2:], prctl, supervisor)
    # Only the command holds the pipes: they end with the last process that writes to them.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    status = _wait(command, woken)
    _end_all(command, woken)
    if status is not None:
        _end_like(status)


def _wake_up_by(*signals: signal.Signals) -> int:
    """A file descriptor from which the numbers of these signals can be read."""
    to_read, to_write = os.pipe()
    os.set_blocking(to_read, False)
    os.set_blocking(to_write, False)
    signal.set_wakeup_fd(to_write, warn_on_full_buffer=False)
    for each in signals:
        signal.signal(each, lambda *_: None)
    return to_read


def _wait(command: int, woken: int) -> int | None:
    """The exit status of the command; None when it must be killed."""
    while True:
        ready, _, _ = select.select([_LIFELINE, woken], [], [])
        if _LIFELINE in ready and not os.read(_LIFELINE, 4096):
            return None
        if woken in ready and signal.SIGTERM in os.read(woken, 4096):
            return None
        while (found := _reap()) is not None:
            if found[0] == command:
                return found[1]


def _end_all(command: int, woken: int) -> None:
    """Kill our children until there are none. The children of a killed child become ours. Nothing else is killed: a
    child's pid cannot be reused before we have reaped it."""
    if sys.platform != "linux":
        _kill(command, os.killpg)
        return
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in _children():
            _kill(pid, os.kill)
        if select.select([woken], [], [], _PAUSE)[0]:
            os.read(woken, 4096)


def _reap() -> tuple[int, int] | None:
    """A child that has exited, and its status; it may be an orphan of the command."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _children() -> list[int]:
    me = os.getpid()
    try:
        return [int(pid) for pid in _read(f"/proc/{me}/task/{me}/children").split()]
    except OSError:  # a kernel that was built without it
        return [
            int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit() and _parent_of(entry.name) == me
        ]


def _parent_of(pid: str) -> int | None:
    try:
        return int(_read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[1])
    except OSError:
        return None


def _read(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 1 << 20)  # if more children have exited than fit, the next read gets the rest
    finally:
        os.close(descriptor)


def _kill(pid: int, kill: Callable[[int, int], None]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        kill(pid, signal.SIGKILL)


def _end_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def _become_command(
    limits: dict[str, Any], argv: list[str], prctl: Callable[[int, int], None], parent: int
) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), _LIFELINE)
        if limits["user"] is not None:
            _become(limits["user"])
        if limits["folder"] is not None:
            os.chdir(limits["folder"])
        for kind, most in (
            (resource.RLIMIT_AS, limits["memory"]),
            (resource.RLIMIT_CPU, limits["cpu"]),
            (resource.RLIMIT_FSIZE, limits["file_size"]),
            (resource.RLIMIT_NOFILE, limits["files"]),
        ):
            if most is not None:
                resource.setrlimit(kind, (most, most))
        # The command gains no privileges by what it executes, and dies with the supervisor. This comes after `setuid`,
        # which would reset the latter.
        prctl(_PR_SET_NO_NEW_PRIVS, 1)
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            os.execve(argv[0], argv, dict(os.environ))
    except (OSError, KeyError, ValueError) as error:
        os.write(2, f"cannot run {argv[0]}: {error}\n".encode(errors="replace"))
    os._exit(_FAILED)


def _become(user: str) -> None:
    entry = pwd.getpwnam(user) if not user.isdigit() else pwd.getpwuid(int(user))
    os.initgroups(entry.pw_name, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def _prctl() -> Callable[[int, int], None]:
    if sys.platform != "linux":
        return lambda *_: None
    libc = ctypes.CDLL(None, use_errno=True)

    def prctl(option: int, value: int) -> None:
        libc.prctl(option, value, 0, 0, 0)

    return prctl


if __name__ == "__main__":
    main()
