"""`--reload`: run the command in a child process, and restart it when a Python file changes.

The child is the same command without the flag. It is stopped like any worker: it claims no more, and its running tasks
have the grace period. A child that ends by itself, because the app cannot be imported, has printed why: the next change
starts another one. Signals go to the child, which has its own process group, one by one: the first stops gracefully,
the second at once. The child holds the end of a pipe, so it also stops when this process is killed.

A command of a web framework's (`flask duetime`, `manage.py duetime`) is started again as a command of the framework.
"""

import asyncio
import contextlib
import importlib.util
import os
import signal
import sys
from collections.abc import Awaitable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from rich.markup import escape

from duetime.cli.output import say
from duetime.errors import DuetimeError, InvalidInput, reason_of
from duetime.process.ending import end_tasks
from duetime.process.signals import stopped_by_signals

FLAG = "--reload"

hosted_folders: ContextVar[Sequence[Path] | None] = ContextVar("hosted_folders", default=None)
"""The folders of the framework's application, if this process is a command of a framework."""


def run_reloading(app: str | None, *, json: bool) -> None:
    """Run this process's command until it is stopped."""
    if app is None:
        raise InvalidInput("there is no app to reload", field="app", remedy=f"give module:app with {FLAG}")
    try:
        import watchfiles  # noqa: F401
    except ImportError:
        raise InvalidInput(
            f"{FLAG} needs the library watchfiles", field="reload", remedy="pip install 'duetime[reload]'"
        ) from None
    folders = hosted_folders.get()
    program = ["duetime"] if folders is None else started_program()
    arguments = [each for each in sys.argv[1:] if each != FLAG]
    paths = watched(app) if folders is None else outermost([Path.cwd(), *folders])
    asyncio.run(_Reloader([*program, *arguments], paths, json=json).run())


def started_program() -> list[str]:
    """What Python runs in this process, as it is given to `python`: `-m` and a module, or the path of a script."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    if spec is None:
        return [str(Path(sys.argv[0]).absolute())]
    return ["-m", spec.name.removesuffix(".__main__")]


def outermost(folders: Sequence[Path]) -> list[Path]:
    """These folders without those that lie in another one."""
    found: list[Path] = []
    for folder in sorted({each.resolve() for each in folders if each.exists()}):
        if not any(folder.is_relative_to(each) for each in found):
            found.append(folder)
    return found


def watched(app: str) -> list[Path]:
    """The working folder; and the app's package or module, if it is elsewhere. It is found without importing it."""
    folder = Path.cwd()
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        spec = importlib.util.find_spec(app.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return [folder]
    found = spec.submodule_search_locations or ([spec.origin] if spec.has_location and spec.origin else [])
    paths = [Path(path).resolve() for path in found]
    return [folder, *(path for path in paths if path.exists() and not path.is_relative_to(folder))]


class _Reloader:
    def __init__(self, arguments: list[str], paths: list[Path], *, json: bool) -> None:
        self._arguments = arguments
        self._paths = paths
        self._json = json
        self._child: asyncio.subprocess.Process | None = None
        self._asked = False
        """Whether the child was asked to stop."""
        self._stopping = False
        self._changed = asyncio.Event()
        self._files: set[str] = set()

    async def run(self) -> None:
        watching = asyncio.create_task(self._watch())
        try:
            with stopped_by_signals(self._stop):
                await self._run_children(watching)
        finally:
            await end_tasks([watching])

    async def _run_children(self, watching: asyncio.Task[None]) -> None:
        reader, writer = os.pipe()
        try:
            while not self._stopping:
                self._changed.clear()  # what has changed until now is what the next child loads
                self._files.clear()
                self._child, self._asked = await self._start(reader), False
                ended = asyncio.create_task(self._child.wait())
                await _first_of(ended, watching, self._changed.wait())
                if ended.done() and not self._stopping:
                    self._say_that_it_waits(ended.result())
                    await _first_of(watching, self._changed.wait())
                if not self._stopping and not watching.done():
                    self._say_what_changed()
                self._ask_to_stop()
                await ended
                if watching.done():
                    watching.result()  # it has failed
        finally:
            os.close(reader)
            os.close(writer)

    def _say_that_it_waits(self, exit_code: int) -> None:
        text = f"[yellow]it ended with exit code {exit_code}; waiting for a change[/]"
        say(text, json=self._json, event="waiting", exit_code=exit_code)

    def _say_what_changed(self) -> None:
        files = sorted(os.path.relpath(file) for file in self._files)
        say(f"{escape(', '.join(files))} changed: restarting", json=self._json, event="reload", files=files)

    async def _start(self, reader: int) -> asyncio.subprocess.Process:
        command = (sys.executable, "-m", "duetime.cli.reloaded", str(reader), *self._arguments)
        # The environment of this process hides its secrets from others (`process/privacy.py`), and so will the child.
        return await asyncio.create_subprocess_exec(*command, env=dict(os.environ), pass_fds=(reader,), process_group=0)

    async def _watch(self) -> None:
        from watchfiles import PythonFilter, awatch

        try:
            async for changes in awatch(*self._paths, watch_filter=PythonFilter()):
                self._files.update(path for _, path in changes)
                self._changed.set()
        except (OSError, RuntimeError) as error:
            names = ", ".join(map(str, self._paths))
            raise DuetimeError(
                f"cannot watch {names}: {reason_of(error)}", remedy="set WATCHFILES_FORCE_POLLING=true"
            ) from error

    def _stop(self) -> None:
        if self._stopping:
            self._asked = False  # a second signal stops at once
        self._stopping = True
        self._changed.set()
        self._ask_to_stop()

    def _ask_to_stop(self) -> None:
        if self._child is not None and self._child.returncode is None and not self._asked:
            self._asked = True
            with contextlib.suppress(ProcessLookupError):
                self._child.send_signal(signal.SIGTERM)


async def _first_of(*awaited: Awaitable[Any]) -> None:
    """Wait for the first of them; tasks go on, the others are cancelled."""
    waiting = [asyncio.ensure_future(each) for each in awaited]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task, each in zip(waiting, awaited, strict=True):
            if task is not each:
                task.cancel()
