"""`encryption`: the keys that encrypt stored data."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from duetime.cli.output import out
from duetime.cli.server_commands import ServerCommand, server_command

if TYPE_CHECKING:
    from duetime.wire.encryption import EncryptionView

application = typer.Typer(help="The keys that encrypt stored data.", no_args_is_help=True)


@application.command("new-key")
def new_key() -> None:
    """Create a key for DUETIME_ENCRYPTION_KEYS and print it. It is not stored."""
    from duetime.api.data_folder import new_encryption_key

    out.print(new_encryption_key("key"), soft_wrap=True, markup=False)


@application.command()
@server_command
def status(command: ServerCommand) -> None:
    """Show the current key, the progress of the last re-encryption, and which keys can be retired."""
    command.show(command.client.get_encryption())


@application.command("re-encrypt")
@server_command
def re_encrypt(
    command: ServerCommand,
    restart: Annotated[bool, typer.Option("--restart", help="Start over instead of continuing.")] = False,
    fresh_data_key: Annotated[
        bool, typer.Option("--fresh-data-key", help="With a key provider: create a new data key first.")
    ] = False,
) -> None:
    """Re-encrypt everything under older keys with the current key.

    It continues where it was stopped, a few rows at a time while normal work goes on, until nothing is left. Then it
    shows which keys can be retired.
    """
    seen = command.client.re_encrypt(restart=restart, fresh_data_key=fresh_data_key)
    while not seen.done:
        _show(command, seen, f"round {seen.round}, {seen.table}: read {seen.looked_at:,} rows")
        seen = command.client.re_encrypt()
    _show(command, seen, f"done: read {seen.looked_at:,} rows in {seen.round} rounds")
    for name, count in seen.left.items():
        _show(
            command,
            seen,
            f"{count:,} values need the key {name!r}, which the server does not have: add it and run this again",
        )
    for name in seen.known:
        if name in seen.archived:
            text = f"the key {name!r} is needed by {seen.archived[name]:,} files of the archive until they are deleted"
            _show(command, seen, text)
            continue
        can = "can be retired: nothing is encrypted with it" if name in seen.retirable else "is still in use"
        _show(command, seen, f"the key {name!r} {can}")
    if seen.left:
        raise typer.Exit(1)


def _show(command: ServerCommand, seen: "EncryptionView", text: str) -> None:
    facts = {"table": seen.table, "looked_at": seen.looked_at, "resealed": seen.resealed, "done": seen.done}
    command.say(escape(f"{text}; {seen.resealed:,} values re-encrypted" if not seen.done else text), **facts)
