"""`sessions` and `login-link`: browsers that act for a key."""

from typing import Annotated

import typer
from rich.markup import escape

from duetime.cli.groups import group
from duetime.cli.server_commands import Talk, Yes, talks
from duetime.errors import InvalidInput

sessions = group("Sessions of browsers: list, revoke.")


@sessions.command("list")
@talks
def list_sessions(
    talk: Talk,
    of: Annotated[str | None, typer.Option("--of", help="key (this one), tenant (all its keys) or all.")] = None,
) -> None:
    """List the sessions that have not ended, newest first."""
    columns = {
        "session id": lambda session: session.session_id,
        "key": lambda session: session.key_name,
        "role": lambda session: session.role,
        "tenant": lambda session: session.tenant,
        "from": lambda session: session.address,
        "last seen": lambda session: session.last_seen_at,
        "expires": lambda session: session.expires_at,
        "browser": lambda session: session.user_agent,
    }
    talk.table(talk.client.sessions(of=of), columns)


@sessions.command()
@talks
def revoke(
    talk: Talk,
    session_ids: Annotated[list[str] | None, typer.Argument(metavar="SESSION…", help="Their ids: ses_…")] = None,
    of: Annotated[
        str | None, typer.Option("--all-of", help="All those of: key (this one), tenant (all its keys) or all.")
    ] = None,
    yes: Yes = False,
) -> None:
    """End sessions: those browsers have to log in again."""
    if bool(session_ids) == bool(of):
        raise InvalidInput("name sessions, or all of them", field="session", remedy="give ids, or --all-of")
    found = session_ids or [session.session_id for session in talk.client.sessions(of=of)]
    if of and talk.asks(yes=yes):
        talk.agree(f"End {len(found)} sessions? Those browsers have to log in again.")
    for session_id in found:
        talk.show(talk.client.revoke_session(session_id))


@talks
def login_link(talk: Talk) -> None:
    """Print a link that logs a browser in once, as the key of this command. It works for an hour."""
    made = talk.client.create_login_link()
    url = f"{talk.client.url}{made.path}"
    talk.say(escape(url), url=url, expires_at=made.expires_at)
