"""Real brokers for tests, as processes of our own.

A `BrokerServer` belongs to the process that made it: its data lie in a temporary folder, it listens on 127.0.0.1 only,
and it ends with that process, however that one ends. It signals only its own children, which share a process group.
"""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.postgres import free_port


class BrokerServer:
    """Made stopped; `start` it, or use it in a `with`. After a stop it starts again with its data, on its port."""

    kind = ""
    seconds_to_start = 60.0
    ordered = True
    """Whether the messages of a stream are delivered in order."""
    knows_silence = True
    """Whether a message comes back when its consumer lives and does not extend it."""
    many = 100
    """How many streams are many."""
    counts_held = True
    """Whether the depth of a stream includes messages that are held."""
    partitioned = False
    """Whether a message can be delivered only to the consumer that owns its part of the stream."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"duetime-{self.kind}-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._watch = _keep_watch(self.folder)
        atexit.register(self.close)

    @classmethod
    def missing(cls) -> str | None:
        """Why this broker cannot run here, and what to do about it."""
        return None

    @property
    def address(self) -> str:
        """As an operator writes it."""
        raise NotImplementedError

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    def command(self) -> Sequence[str]:
        """The program, which must stay in the foreground."""
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        return {}

    def is_ready(self) -> bool:
        """Whether it serves clients."""
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def start(self) -> None:
        if self._process:
            raise RuntimeError(f"{self.kind} runs already")
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                list(self.command()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **self.environment()},
                # Ctrl-C is for the tests; their ending stops the server.
                start_new_session=True,
            )
        self._process = process
        (self.folder / "group").write_text(str(process.pid))
        deadline = time.monotonic() + self.seconds_to_start
        while not self.is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                log_text = self._log.read_text(errors="replace")
                raise RuntimeError(f"{self.kind} did not start:\n{log_text[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        """As an operator stops it: it writes its data first. No-op when stopped."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Like a crash."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """End it, and remove every trace."""
        atexit.unregister(self.close)
        self.kill()
        if self._watch.stdin:
            self._watch.stdin.close()
        self._watch.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if not process:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        # What did not end, or was started and left behind.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        (self.folder / "group").unlink(missing_ok=True)

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _keep_watch(folder: Path) -> subprocess.Popen[bytes]:
    """Start a shell that waits for the end of this process, which closes its input; then it ends the group of processes
    that the folder names, and removes the folder."""
    script = """
        read -r _
        if group=$(cat "$1/group" 2>/dev/null); then kill -KILL -"$group" 2>/dev/null; sleep 0.2; fi
        rm -rf "$1"
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", script, "watch", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
