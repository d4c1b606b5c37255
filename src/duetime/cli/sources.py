"""`sources`: places at brokers whose messages create jobs."""

from typing import Annotated

import typer

from duetime.cli.groups import group
from duetime.cli.job_options import read_json
from duetime.cli.server_commands import ServerCommand, list_command, server_command
from duetime.model.source import OnBad

application = group("Sources: topics, streams and queues whose messages create jobs.")
Name = Annotated[str, typer.Argument(metavar="NAME")]


@application.command("list")
@list_command
def list_sources(command: ServerCommand) -> None:
    """List the sources, and what became of their messages."""
    command.table(
        command.client.list_sources().items,
        "name broker status received created repeated bad reason",
        "no sources. Create one: duetime sources set NAME --broker JSON --job JSON",
        broker=lambda each: each.broker.__class__.__struct_config__.tag,
    )


@application.command("show")
@server_command
def show(command: ServerCommand, name: Name) -> None:
    """Show a source, with its newest bad messages."""
    command.show(command.client.get_source(name))


@application.command("set")
@server_command
def set_source(
    command: ServerCommand,
    name: Name,
    broker: Annotated[str, typer.Option("--broker", help="The place at a broker, as JSON.")],
    job: Annotated[str, typer.Option("--job", help="The template of the jobs, as JSON.")],
    by: Annotated[
        str | None, typer.Option("--by", help="What repeated messages have in common, such as body.order.id.")
    ] = None,
    on_bad: Annotated[OnBad, typer.Option("--on-bad", help="What a bad message does: skip or stop.")] = "skip",
    paused: Annotated[bool, typer.Option("--paused", help="Read nothing for now.")] = False,
) -> None:
    """Create or replace a source."""
    command.show(
        command.client.put_source(
            name, read_json(broker, "broker"), read_json(job, "job"), key=by, on_bad=on_bad, paused=paused
        )
    )


@application.command("pause")
@server_command
def pause(command: ServerCommand, name: Name) -> None:
    """Pause a source: its messages wait at the broker."""
    command.show(command.client.pause_source(name))


@application.command("resume")
@server_command
def resume(command: ServerCommand, name: Name) -> None:
    """Resume a source that was paused, or that a bad message has stopped."""
    command.show(command.client.resume_source(name))


@application.command("delete")
@server_command
def delete(command: ServerCommand, name: Name) -> None:
    """Delete a source. How far it was read is forgotten."""
    command.show(command.client.delete_source(name))
