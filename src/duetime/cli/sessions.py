"""`sessions` and `login-link`: browser sessions."""

from typing import Annotated

import typer
from rich.markup import escape

from duetime.cli.groups import group
from duetime.cli.server_commands import ServerCommand, Yes, list_command, server_command
from duetime.errors import InvalidInput

sessions = group("Browser sessions: list, revoke.")


@sessions.command("list")
@list_command
def list_sessions(
    command: ServerCommand,
    of: Annotated[str | None, typer.Option("--of", help="key (this one), tenant (all its keys) or all.")] = None,
) -> None:
    """List the active sessions, newest first."""
    command.table(
        command.client.sessions(of=of),
        "session_id key=key_name role tenant from=address last_seen=last_seen_at expires=expires_at browser=user_agent",
        "no browser is logged in. duetime login-link prints a link that logs one in",
    )


@sessions.command()
@server_command
def revoke(
    command: ServerCommand,
    session_ids: Annotated[
        list[str] | None, typer.Argument(metavar="SESSION…", help="The sessions' ids: ses_…")
    ] = None,
    of: Annotated[
        str | None, typer.Option("--all-of", help="All sessions of: key (this one), tenant (all its keys) or all.")
    ] = None,
    yes: Yes = False,
) -> None:
    """End sessions: those browsers must log in again."""
    if bool(session_ids) == bool(of):
        raise InvalidInput("is required", field="session", remedy="give ids or --all-of")
    found = session_ids or [session.session_id for session in command.client.sessions(of=of)]
    if of and command.must_confirm(yes=yes):
        command.confirm(f"End {len(found)} sessions? Those browsers must log in again.")
    for session_id in found:
        command.show(command.client.revoke_session(session_id))


@server_command
def login_link(command: ServerCommand) -> None:
    """Print a link that logs a browser in once, with this command's key. It expires after an hour."""
    made = command.client.create_login_link()
    url = f"{command.client.url}{made.path}"
    command.say(escape(url), url=url, expires_at=made.expires_at)
