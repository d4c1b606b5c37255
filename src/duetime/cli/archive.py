"""`archive`: history in files."""

from time import sleep
from typing import Annotated

import typer
from rich.progress import Progress

from duetime.cli.groups import group
from duetime.cli.jobs import Limit
from duetime.cli.output import err
from duetime.cli.runs import show_runs
from duetime.cli.server_commands import ServerCommand, Yes, limited, list_command, server_command
from duetime.errors import DuetimeError

archive = group("Archived history: days that were written to files.")

Day = Annotated[str, typer.Argument(metavar="DAY", help="A day in UTC, such as 2027-01-31.")]

_POLL = 0.5


@archive.command("list")
@list_command
def list_days(command: ServerCommand, limit: Limit = 50) -> None:
    """List the archived days of the tenant, newest first."""
    command.table(
        limited(command.client.archived_days(page_size=min(limit, 200)), limit),
        "day tenant rows bytes files expires",
        "no archived days. duetime archive status says where the archive is, and which days wait",
    )


@archive.command()
@list_command
def read(command: ServerCommand, day: Day, limit: Limit = 50) -> None:
    """List the runs that ended on an archived day, newest first, as the files have them.

    `duetime runs list` continues into the archive by itself, and `duetime runs show` finds archived runs.
    """
    found = limited(command.client.archived_runs(day, page_size=min(limit, 200)), limit)
    show_runs(command, found, f"no archived runs on {day}. duetime archive list shows the archived days")


@archive.command()
@server_command
def restore(
    command: ServerCommand,
    day: Day,
    keep: Annotated[str, typer.Option("--keep", help="How long the database keeps the restored runs.")] = "7d",
) -> None:
    """Put an archived day of the tenant back into the database. Rows that are there are left alone."""
    rows, cursor = 0, None
    with Progress(console=err, transient=True, disable=command.json) as progress:
        under_way = progress.add_task("restoring", total=None)
        while True:
            answer = command.client.restore_archive(day, keep=keep, cursor=cursor)
            rows, cursor = rows + answer.rows, answer.next_cursor
            progress.update(under_way, completed=rows)
            if cursor is None:
                break
    command.say(f"restored {rows:,} rows of {day} for {keep}", restored=rows)


@archive.command()
@server_command
def run(command: ServerCommand) -> None:
    """Archive all ended days now instead of within minutes. Requires a root key."""
    status = command.client.run_archive()
    with Progress(console=err, transient=True, disable=command.json) as progress:
        under_way = progress.add_task(f"archiving {len(status.waiting)} days", total=None)
        while status.running:
            progress.update(under_way, completed=status.rows)
            sleep(_POLL)
            status = command.client.get_archive()
    if status.problem is not None:
        raise DuetimeError(f"archived {status.rows:,} rows, then: {status.problem}")
    command.say(f"archived {status.rows:,} rows; {len(status.waiting)} days are left", rows=status.rows)


@archive.command()
@server_command
def status(command: ServerCommand) -> None:
    """Show where the archive is, and the state of each day over all tenants. Requires a root key."""
    command.show(command.client.get_archive())


@archive.command()
@server_command
def erase(command: ServerCommand, yes: Yes = False) -> None:
    """Delete all archived history of the tenant."""
    if command.must_confirm(yes=yes):
        command.confirm("Delete all archived history of the tenant? It cannot be restored afterwards.")
    files = command.client.erase_archive().files
    command.say(f"deleted {files:,} files", files=files)


@archive.command()
@server_command
def stop(command: ServerCommand) -> None:
    """Let the database remove history that is not archived. Remove archive_url from all servers first."""
    command.client.stop_archive()
    command.say("history is removed without being archived from now on", used=False)
