"""`bulk`: one action on all jobs, runs or dead letters that match."""

import time
from typing import Annotated, Any, get_args

import typer
from rich.progress import Progress

from duetime.cli.groups import group
from duetime.cli.options import IdempotencyKey
from duetime.cli.output import err
from duetime.cli.server_commands import ServerCommand, Yes, list_command, server_command
from duetime.errors import InvalidInput
from duetime.wire.bulk_actions import BulkActionName, BulkObjects, BulkPreview
from duetime.wire.jobs import JobConditions
from duetime.wire.runs import DeadLetterFilter, RunConditions

application = group("Bulk actions: cancel, pause, resume, run, retry or discard everything that matches.")
_CONDITIONS = {"jobs": JobConditions, "runs": RunConditions, "dead_letters": DeadLetterFilter}
_POLL = 0.5

BulkId = Annotated[str, typer.Argument(metavar="BULK", help="The id of the bulk action: blk_…")]
Does = Annotated[str, typer.Argument(metavar="ACTION", help="cancel, pause, resume, run, retry or discard.")]
Objects = Annotated[str, typer.Argument(metavar="OBJECTS", help="jobs, runs or dead-letters.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", "-w", help="A condition, such as queue=mail. Repeatable: all of them must hold."),
]
Everything = Annotated[bool, typer.Option("--all", help="Everything, if no condition is given.")]


@application.command("list")
@list_command
def list_bulk_actions(command: ServerCommand) -> None:
    """List the newest bulk actions."""
    command.table(
        command.client.list_bulk_actions().items,
        "bulk_id action objects status done skipped failed created=created_at by=actor",
        "no bulk actions. Start one: duetime bulk start pause jobs --where queue=mail",
    )


@application.command("preview")
@server_command
def preview(
    command: ServerCommand, action: Does, objects: Objects, where: Where = None, everything: Everything = False
) -> None:
    """Count what a bulk action would affect."""
    does, given = _read(action, objects, where, everything=everything)
    command.show(command.client.preview_bulk_action(does, **given))


@application.command("start")
@server_command
def start(
    command: ServerCommand,
    action: Does,
    objects: Objects,
    where: Where = None,
    everything: Everything = False,
    rate: Annotated[float | None, typer.Option("--rate", help="Runs per second, for run and retry.")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow it to its end.")] = True,
    yes: Yes = False,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Start a bulk action on everything that matches, and follow it. It goes on if this command ends."""
    does, given = _read(action, objects, where, everything=everything)
    total: int | None = None
    if command.must_confirm(yes=yes):
        found = command.client.preview_bulk_action(does, **given)
        total = found.matching if found.complete else None
        command.confirm(_question(does, objects, found))
    bulk = command.client.create_bulk_action(does, **given, rate=rate, idempotency_key=idempotency_key)
    if wait:
        with Progress(console=err, transient=True) as progress:
            bar = progress.add_task(f"{does} {objects}", total=total)
            while bulk.status == "running":
                progress.update(bar, completed=bulk.done + bulk.skipped + bulk.failed)
                time.sleep(_POLL)
                bulk = command.client.get_bulk_action(bulk.bulk_id)
    command.show(bulk)


@application.command("show")
@server_command
def show(command: ServerCommand, bulk: BulkId) -> None:
    """Show the progress of a bulk action."""
    command.show(command.client.get_bulk_action(bulk))


@application.command("stop")
@server_command
def stop(command: ServerCommand, bulk: BulkId) -> None:
    """Stop a bulk action where it is. What it has done stays."""
    command.show(command.client.stop_bulk_action(bulk))


def _read(action: str, objects: str, where: list[str] | None, *, everything: bool) -> tuple[BulkActionName, Any]:
    of = objects.replace("-", "_")
    if of not in get_args(BulkObjects):
        raise InvalidInput(f"{objects!r} cannot be acted on", field="OBJECTS", remedy="jobs, runs or dead-letters")
    if action not in get_args(BulkActionName):
        raise InvalidInput(
            f"{action!r} is not an action", field="ACTION", remedy=f"one of {', '.join(get_args(BulkActionName))}"
        )
    if not where and not everything:
        raise InvalidInput("no condition is given", field="--where", remedy="give one, or --all for everything")
    fields = _CONDITIONS[of].__struct_fields__
    conditions: dict[str, object] = {}
    for each in where or ():
        name, given, value = each.partition("=")
        if not given or name not in fields:
            raise InvalidInput(
                f"{each!r} is not a condition on {objects}",
                field="--where",
                remedy=f"FIELD=VALUE, with one of {', '.join(fields)}",
            )
        conditions[name] = value == "true" if name == "recurring" and value in ("true", "false") else value
    does: Any = action
    return does, {of: conditions}


def _question(action: str, objects: str, found: BulkPreview) -> str:
    more = "" if found.complete else " or more"
    names = ", ".join(dict.fromkeys(each.name for each in found.sample))
    such = f", such as {names}" if names else ""
    return f"{action.capitalize()} {found.affected:,}{more} of {found.matching:,}{more} matching {objects}{such}?"
