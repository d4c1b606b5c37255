"""The `duetime` command as a process of its own: its output, its exit code, and signals."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from tests.support import launcher
from tests.support.launcher import ROOT as ROOT


class Command:
    """A command that was started; use it in a `with`, which ends it if it still runs."""

    def __init__(
        self, folder: Path, *arguments: str, environ: Mapping[str, str] | None = None, stdout: int | None = None
    ) -> None:
        """`stdout`: a descriptor of one's own, instead of a file."""
        self.arguments = arguments
        folder.mkdir(exist_ok=True)
        started = len(list(folder.glob("*.out")))
        self._files = folder / f"{started}.out", folder / f"{started}.err"
        with self._files[0].open("w") as out, self._files[1].open("w") as err:
            # It has its own session: a signal for the tests is not for it, and what it has spawned ends with it.
            self._process = launcher.start(
                arguments,
                folder,
                _environ() | dict(environ or {}),
                out.fileno() if stdout is None else stdout,
                err.fileno(),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdout(self) -> str:
        return self._files[0].read_text()

    @property
    def stderr(self) -> str:
        return self._files[1].read_text()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What `--json` has printed; fails on a line that is not JSON."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    def until(self, condition: Callable[[Self], object], within: float = 30.0) -> None:
        """Wait for what it prints."""
        deadline = time.monotonic() + within
        while not condition(self):
            assert self._process.poll() is None, f"ended with {self._process.returncode}: {self}"
            assert time.monotonic() < deadline, f"did not happen within {within:g} s: {self}"
            time.sleep(0.02)

    def stop(self, kind: signal.Signals = signal.SIGINT) -> int:
        self._process.send_signal(kind)
        return self.ended()

    def ended(self, within: float = 30.0) -> int:
        """Wait for its end; returns the exit code."""
        try:
            return self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {within:g} s: {self}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()

    def __str__(self) -> str:
        return f"duetime {' '.join(self.arguments)}\n{self.stdout}\n{self.stderr}"


def run(folder: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> tuple[int, Command]:
    """Run a command that ends by itself; returns its exit code and what it printed."""
    with Command(folder, *arguments, environ=environ) as command:
        return command.ended(), command


def only_line(command: Command) -> str:
    """What an error is: one line for people on standard error, no traceback, nothing on standard output."""
    assert command.stdout == ""
    (line,) = command.stderr.splitlines()
    return line


def tracebacks(stderr: str) -> list[str]:
    """Lines that show one, but for those that tell of a task's own failure."""
    return [line for line in stderr.splitlines() if "Traceback" in line and '"failure":' not in line]


def _environ() -> dict[str, str]:
    """This process's variables without settings; the project's folder, where the example lies, can be imported."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
    return kept | {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1", "DUETIME_PORT": "0"}
