"""`checkins`: jobs that run elsewhere, such as cron jobs, and report here."""

from typing import Annotated

import typer

from duetime.cli.durations import read_seconds
from duetime.cli.groups import group
from duetime.cli.server_commands import ServerCommand, list_command, server_command

application = group("Check-ins: jobs that run elsewhere, such as cron jobs, and report here.")
Name = Annotated[str, typer.Argument(metavar="NAME")]


@application.command("list")
@list_command
def list_checkins(command: ServerCommand) -> None:
    """List the check-ins and their states."""
    command.table(
        command.client.list_checkins().items,
        "name status schedule last_ping_at expected_at text",
        "no check-ins. Create one: duetime checkins set NAME --every 1h",
        schedule=lambda each: f"every {each.every:g} s" if each.cron is None else f"{each.cron} {each.tz}",
        text=lambda each: each.text if each.open else None,
    )


@application.command("show")
@server_command
def show(command: ServerCommand, name: Name) -> None:
    """Show a check-in."""
    command.show(command.client.get_checkin(name))


@application.command("set")
@server_command
def set_checkin(
    command: ServerCommand,
    name: Name,
    every: Annotated[str | None, typer.Option("--every", help="From one ping to the next, such as 1h.")] = None,
    cron: Annotated[str | None, typer.Option("--cron", help="The cron line of the job.")] = None,
    tz: Annotated[str, typer.Option("--tz", help="The time zone of --cron.")] = "UTC",
    grace: Annotated[str, typer.Option("--grace", help="How late a ping may be.")] = "5m",
    max_runtime: Annotated[
        str | None, typer.Option("--max-runtime", help="From a start to its end; by default the grace.")
    ] = None,
    description: Annotated[str | None, typer.Option("--description", help="A note for people.")] = None,
    paused: Annotated[bool, typer.Option("--paused", help="Expect nothing for now.")] = False,
) -> None:
    """Create a check-in, or replace what it expects. The address for its pings is shown when it is created."""
    command.show(
        command.client.put_checkin(
            name,
            every=None if every is None else read_seconds(every, "every"),
            cron=cron,
            tz=tz,
            grace=read_seconds(grace, "grace"),
            max_runtime=None if max_runtime is None else read_seconds(max_runtime, "max_runtime"),
            description=description,
            paused=paused,
        )
    )


@application.command("pause")
@server_command
def pause(command: ServerCommand, name: Name) -> None:
    """Pause a check-in: pings are recorded, and nothing is expected."""
    command.show(command.client.pause_checkin(name))


@application.command("resume")
@server_command
def resume(command: ServerCommand, name: Name) -> None:
    """Resume a check-in: its next ping is expected from now on."""
    command.show(command.client.resume_checkin(name))


@application.command("rotate")
@server_command
def rotate(command: ServerCommand, name: Name) -> None:
    """Give a check-in another address, which is shown once. The one before stops working."""
    command.show(command.client.rotate_checkin(name))


@application.command("delete")
@server_command
def delete(command: ServerCommand, name: Name) -> None:
    """Delete a check-in. Its address stops working."""
    command.show(command.client.delete_checkin(name))
