"""`tail`: follows events, with the names of the jobs that they are about."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from duetime.cli.server_commands import ServerCommand, server_command
from duetime.cli.tables import shown, state
from duetime.clock import monotonic
from duetime.errors import DuetimeError
from duetime.model.event import EventKind

if TYPE_CHECKING:
    from duetime.client.event_stream import Change

_SHOWN = 3
"""Ids per line; the rest is counted."""
_LOOKUPS = 10
"""Names that are looked up per second: more events than that are shown with their ids only."""
_REMEMBERED = 10_000
_WIDTH = max(len(kind.name) for kind in EventKind)


@server_command
def tail(
    command: ServerCommand,
    after: Annotated[str | None, typer.Option("--after", help="Continue after this event.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="Exit after this many events.")] = None,
) -> None:
    """Follow events as they happen. Ctrl-C ends it."""
    names = _Names(command)
    try:
        for seen, change in enumerate(command.client.watch_events(after), 1):
            command.say(
                "" if command.json else f"[dim]{shown(change.at)}[/]  {_kind(change)}  {names.of(change)}",
                id=change.id,
                kind=change.kind,
                at=change.at,
                job_ids=change.job_ids,
                run_ids=change.run_ids,
            )
            if seen == count:
                return
    except KeyboardInterrupt:
        return


def _kind(change: "Change") -> str:
    return state(change.kind.lower()) + " " * (_WIDTH - len(change.kind))


class _Names:
    """What an event is about, in words. Names are looked up once, and a few per second."""

    def __init__(self, command: ServerCommand) -> None:
        self._client = command.client
        self._known: dict[str, str] = {}
        self._second, self._asked = 0, 0

    def of(self, change: "Change") -> str:
        ids = [*change.run_ids, *change.job_ids]
        named = [f"{name} [dim]{escape(each)}[/]".lstrip() for each, name in self._named(ids[:_SHOWN])]
        return ", ".join(named) + (f" and {len(ids) - _SHOWN:,} more" if len(ids) > _SHOWN else "")

    def _named(self, ids: list[str]) -> Iterator[tuple[str, str]]:
        for each in ids:
            if each not in self._known and self._may_ask():
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[each] = self._look_up(each)
            yield each, self._known.get(each, "")

    def _look_up(self, id: str) -> str:
        """Its task, and the name of a job. Empty if it no longer exists, or may not be read."""
        try:
            if id.startswith("run_"):
                return escape(self._client.get_run(id).task or "")
            job = self._client.get_job(id)
        except DuetimeError:
            return ""
        return escape(" ".join(filter(None, (job.task, job.name and f"({job.name})"))))

    def _may_ask(self) -> bool:
        second = int(monotonic())
        if second != self._second:
            self._second, self._asked = second, 0
        self._asked += 1
        return self._asked <= _LOOKUPS
