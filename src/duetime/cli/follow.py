"""`runs show --follow`: prints what changes about a run until it has ended."""

from datetime import datetime
from time import sleep
from typing import TYPE_CHECKING, get_args

from rich.markup import escape

from duetime.cli.output import out, print_json
from duetime.cli.run_view import heading, print_error, print_log
from duetime.cli.tables import seconds, state
from duetime.errors import InStream
from duetime.model.run import RunState
from duetime.wire.runs import RunStateName, RunView

if TYPE_CHECKING:
    from duetime.cli.server_commands import ServerCommand

_POLL = 0.5
_ENDS = frozenset(name for name in get_args(RunStateName) if RunState[name].is_end)


class Follower:
    """Remembers what was printed, and prints the rest."""

    def __init__(self) -> None:
        self._status = ""
        self._ended: set[tuple[int, datetime]] = set()
        self._lines = 0
        self._message: str | None = None

    def show(self, run: RunView) -> None:
        for attempt in run.attempts:
            if (attempt.attempt, attempt.finished_at) in self._ended:
                continue
            self._ended.add((attempt.attempt, attempt.finished_at))
            print_log(attempt.logs[self._lines :])
            took = "" if attempt.duration is None else f" after {seconds(attempt.duration)}"
            out.print(f"attempt {attempt.attempt}  {state(attempt.status)}{took}", soft_wrap=True)
            print_error(attempt.error)
            self._lines = 0
        print_log(run.logs[self._lines :])
        self._lines = max(self._lines, len(run.logs))
        if run.message and run.message != self._message:
            self._message = run.message
            out.print(f"  [dim]{'' if run.progress is None else f'{run.progress:.0%} '}[/]{escape(run.message)}")
        if run.status != self._status:
            self._status = run.status
            out.print(heading(run), soft_wrap=True)


def follow(command: "ServerCommand", run_id: str) -> RunView:
    """The run at its end. With --json, each change is one object."""
    follower, last = Follower(), None
    while True:
        try:
            run = command.client.get_run(run_id)
        except InStream:
            sleep(_POLL)
            continue
        if run != last:
            last = run
            if command.json:
                print_json(run)
            else:
                follower.show(run)
        if run.status in _ENDS:
            return run
        sleep(_POLL)
