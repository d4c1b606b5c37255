"""Shell targets: a command that the operator allows, as an argument vector, without a shell.

A supervisor runs the command (`supervisor.py`). However the command ends, none of its processes survives: they are
killed at the deadline, when the attempt is stopped, when the command has exited, and when this process dies. This
process holds the other end of the supervisor's standard input; closing it signals each of these. The tail of the
command's output is kept.
"""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from duetime.ids import show
from duetime.model.failure import Failure, FailureClass, bounded
from duetime.model.outcome import Failed, Outcome, Succeeded
from duetime.model.target import ShellTarget
from duetime.targets.commands import Command, Commands
from duetime.targets.target_attempt import TargetAttempt

TAIL = 8 * 1024
_SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
_NOT_RUN = (126, 127)
_PATH = "/usr/local/bin:/usr/bin:/bin"
_LAST_WORDS = 1.0
"""Seconds to read the output of a command that was killed."""
_ENDING = 10.0
"""Seconds in which a supervisor must end all processes; one that cannot, because it was stopped (SIGSTOP), is
killed."""


class ShellRunner:
    def __init__(self, commands: Commands, *, max_result: int) -> None:
        self._commands = commands
        self._tail = min(TAIL, max_result // 16)

    async def run(self, target: ShellTarget, attempt: TargetAttempt) -> Outcome:
        argv = self._commands.fill(target.command, target.args)
        command = self._commands.command(target.command)
        async with _Tail.open(self._tail) as out, _Tail.open(self._tail) as err:
            lifeline = _Lifeline()
            try:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-I", "-S", _SUPERVISOR, _limits(command), *argv),
                    stdin=lifeline.to_read,
                    stdout=out.to_write,
                    stderr=err.to_write,
                    env=_environment(attempt),
                    start_new_session=True,
                )
            except OSError as error:
                lifeline.cut()
                return Failed(Failure(FailureClass.ERROR, f"the command could not be started: {error}"))
            except BaseException:
                lifeline.cut()  # whether it was started or not
                raise
            out.begin()
            err.begin()
            in_time = await _wait(process, lifeline, attempt.limit)
            await asyncio.wait((out.reading, err.reading), timeout=_LAST_WORDS)
        if not in_time:
            text = f"the command was killed: it ran for longer than {attempt.limit:g} s"
            return Failed(Failure(FailureClass.TIMEOUT, _with_tail(text, err)))
        return _judge(process.returncode or 0, out, err)


async def _wait(process: asyncio.subprocess.Process, lifeline: "_Lifeline", limit: float) -> bool:
    """Whether it ended in time; in either case none of its processes is left."""
    try:
        async with asyncio.timeout(limit):
            await process.wait()
    except TimeoutError:
        return False
    finally:
        lifeline.cut()
        await asyncio.shield(_ended(process))
    return True


async def _ended(process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(_ENDING):
            await process.wait()
    except TimeoutError:
        process.kill()  # the command dies with it
        await process.wait()


class _Lifeline:
    """A pipe that is never written to. The supervisor gets EOF when this process closes its end or dies."""

    def __init__(self) -> None:
        self.to_read, self._to_hold = os.pipe()

    def cut(self) -> None:
        for end in (self.to_read, self._to_hold):
            if end >= 0:
                os.close(end)
        self.to_read = self._to_hold = -1


class _Tail:
    """The last bytes written to a pipe, however many there are.

    It uses its own pipe instead of the event loop's: some event loops report the end of a process only after the end of
    its pipes, which a child of the command may hold open.
    """

    reading: asyncio.Future[None]

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._stream = asyncio.StreamReader(limit=2 * most + 1024)
        self.to_write = -1

    @classmethod
    @asynccontextmanager
    async def open(cls, most: int) -> "AsyncIterator[_Tail]":
        tail = cls(most)
        to_read, tail.to_write = os.pipe()
        pipe = os.fdopen(to_read, "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(tail._stream), pipe
        )
        tail.reading = asyncio.ensure_future(tail._read())
        try:
            yield tail
        finally:
            tail.begin()
            tail.reading.cancel()
            transport.close()

    def begin(self) -> None:
        """The command has its end of the pipe: close ours, so that the pipe ends with its last writer."""
        if self.to_write >= 0:
            os.close(self.to_write)
            self.to_write = -1

    async def _read(self) -> None:
        while part := await self._stream.read(self._most):
            self._parts.append(part)
            self._size += len(part)
            while self._size - len(self._parts[0]) >= self._most:
                self._size -= len(self._parts.popleft())

    @property
    def text(self) -> str:
        return b"".join(self._parts)[-self._most :].decode("utf-8", "replace")


def _judge(code: int, out: _Tail, err: _Tail) -> Outcome:
    if code == 0:
        return Succeeded(msgspec.json.encode({"exit_code": 0, "stdout": out.text, "stderr": err.text}))
    text = f"the command exited with code {code}" if code > 0 else f"the command was killed by {_signal_name(-code)}"
    return Failed(Failure(FailureClass.ERROR, _with_tail(text, err), final=code in _NOT_RUN))


def _with_tail(text: str, err: _Tail) -> str:
    said = err.text.strip()
    return bounded(f"{text}: {said[-1000:]}", 1200) if said else text


def _limits(command: Command) -> str:
    return msgspec.json.encode(
        {
            "user": command.user,
            "folder": None if command.folder is None else str(command.folder),
            "memory": command.memory,
            "cpu": command.cpu,
            "file_size": command.file_size,
            "files": command.files,
            "parent": os.getpid(),
        }
    ).decode()


def _environment(attempt: TargetAttempt) -> dict[str, str]:
    """Nothing from the worker's own environment, which may hold the service's keys."""
    return {
        "PATH": _PATH,
        "LANG": "C.UTF-8",
        "DUETIME_RUN": attempt.message_id,
        "DUETIME_JOB": show("job", attempt.claimed.job_id),
        "DUETIME_ATTEMPT": str(attempt.claimed.attempt),
        "DUETIME_DUE_AT": attempt.claimed.due_at.isoformat(),
    }


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
