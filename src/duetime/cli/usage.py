"""`usage`: what tenants have used."""

from typing import Annotated

import typer

from duetime.cli.server_commands import ServerCommand, list_command

_COLUMNS = "tenant day queue runs failed attempts seconds bytes final"


@list_command
def usage(
    command: ServerCommand,
    start: Annotated[
        str | None, typer.Option("--from", help="The first day (UTC). Default: the first day of this month.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="The last day. Default: today.")] = None,
    by_queue: Annotated[bool, typer.Option("--by-queue", help="A row per day and queue.")] = False,
    all: Annotated[bool, typer.Option("--all", help="All tenants; requires a root key.")] = False,
) -> None:
    """Show runs, seconds and bytes by day: with --csv, for bills."""
    if all and by_queue:
        raise typer.BadParameter("cannot be combined with --all: use --tenant", param_hint="--by-queue")
    if all:
        items = command.client.usage(start_day=start, end_day=end, page_size=1000)
    else:
        found = command.client.get_usage(start_day=start, end_day=end, by="queue" if by_queue else None)
        items = iter(found.items)
    command.table(items, _COLUMNS, "nothing was used on these days")
