"""Starts `duetime` by forking a process that has imported it: an import takes more than most commands do.

The new process is what `python -m duetime.cli` would be: it has a session, a folder, an environment and streams of its
own, and ends as an interpreter ends. Only its command line in `/proc` is the launcher's. Each test process has one
launcher, which ends with it.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MODULE = "duetime.cli"
_PRELOADED = (
    "duetime.cli.main",
    "duetime.cli.run",
    "duetime.cli.worker",
    "duetime.node.assembly",
    "duetime.store.postgres",
    "duetime.store.sqlite",
)
_LONGEST = 1 << 17
"""Bytes of a message."""


class Started:
    """A process that the launcher has started; asked like a `subprocess.Popen`."""

    def __init__(self, launcher: "_Launcher", pid: int, args: Sequence[str]) -> None:
        self.pid = pid
        self.args = args
        self.returncode: int | None = None
        self._launcher = launcher

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._launcher.ended(self.pid, 0.0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = self._launcher.ended(self.pid, 0.05)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, kind: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, kind)


def start(arguments: Sequence[str], folder: Path, environ: Mapping[str, str], stdout: int, stderr: int) -> Started:
    """Start `duetime` with these arguments; the descriptors stay the caller's."""
    return _launcher().start(arguments, folder, environ, stdout, stderr)


class _Launcher:
    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ended: dict[int, int] = {}
        environ = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.launcher", str(theirs.fileno())],
            cwd=ROOT,
            env=environ | {"PYTHONPATH": ""},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()
        atexit.register(self._close)

    def _close(self) -> None:
        self._socket.close()
        self._process.wait()

    def start(
        self, arguments: Sequence[str], folder: Path, environ: Mapping[str, str], stdout: int, stderr: int
    ) -> Started:
        asked = {"arguments": arguments, "folder": str(folder), "environ": dict(environ)}
        socket.send_fds(self._socket, [json.dumps(asked).encode()], [stdout, stderr])
        while (told := self._told(30.0)) is not None:
            if "started" in told:
                return Started(self, told["started"], (MODULE, *arguments))
        raise RuntimeError("the launcher does not answer")

    def ended(self, pid: int, within: float) -> int | None:
        """How this process ended, if it has."""
        while pid not in self._ended and self._told(within) is not None:
            pass
        return self._ended.pop(pid, None)

    def _told(self, within: float) -> dict[str, Any] | None:
        if not select.select([self._socket], [], [], within)[0]:
            return None
        said = self._socket.recv(_LONGEST)
        if not said:
            raise RuntimeError("the launcher has ended")
        told: dict[str, Any] = json.loads(said)
        if "ended" in told:
            self._ended[told["ended"]] = told["status"]
        return told


@cache
def _launcher() -> _Launcher:
    return _Launcher()


def _serve(orders: socket.socket) -> bool:
    """Fork for each order, until there are no more; true in the new process."""
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    watched: list[socket.socket | int] = [orders, woken]
    while True:
        ready, _, _ = select.select(watched, [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_of_ends(orders)
        if orders not in ready:
            continue
        said, streams, _, _ = socket.recv_fds(orders, _LONGEST, 2)
        if not said:
            return False
        if not (pid := os.fork()):
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (woken, waking):
                os.close(descriptor)
            orders.close()
            _become(json.loads(said), streams)
            return True
        for stream in streams:
            os.close(stream)
        orders.send(json.dumps({"started": pid}).encode())


def _tell_of_ends(orders: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            told = {"ended": ended[0], "status": os.waitstatus_to_exitcode(ended[1])}
            orders.send(json.dumps(told).encode())


def _become(asked: dict[str, Any], streams: Sequence[int]) -> None:
    os.setsid()
    for stream, place in zip(streams, (1, 2), strict=True):
        os.dup2(stream, place)
        os.close(stream)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    time.tzset()
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdout, sys.stderr = _stream(1, "strict", at_once=at_once), _stream(2, "backslashreplace", at_once=at_once)
    sys.stderr.reconfigure(line_buffering=True)
    path = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    sys.path[:1] = [asked["folder"], *path]
    sys.argv = [MODULE, *asked["arguments"]]
    importlib.invalidate_caches()


def _stream(descriptor: int, errors: str, *, at_once: bool) -> TextIOWrapper:
    raw = open(descriptor, "wb", buffering=0 if at_once else -1, closefd=False)  # noqa: SIM115
    return TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=at_once)


if __name__ == "__main__":
    for name in _PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # what is collected is not shared
    if _serve(socket.socket(fileno=int(sys.argv[1]))):
        runpy.run_module(MODULE, run_name="__main__", alter_sys=True)
