"""`encryption`: the keys that what is stored is encrypted with."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from duetime.cli.output import out
from duetime.cli.server_commands import Talk, talks

if TYPE_CHECKING:
    from duetime.wire.encryption import EncryptionView

application = typer.Typer(help="The keys that what is stored is encrypted with.", no_args_is_help=True)


@application.command("new-key")
def new_key() -> None:
    """Make a key for DUETIME_ENCRYPTION_KEYS, and print it. It is kept nowhere."""
    from duetime.api.data_folder import new_encryption_key

    out.print(new_encryption_key("key"), soft_wrap=True, markup=False)


@application.command()
@talks
def status(talk: Talk) -> None:
    """Show which key encrypts, how far the last re-encryption has come, and which keys can be retired."""
    talk.show(talk.client.get_encryption())


@application.command("re-encrypt")
@talks
def re_encrypt(
    talk: Talk,
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew, instead of going on.")] = False,
    fresh_data_key: Annotated[
        bool, typer.Option("--fresh-data-key", help="With a key provider: encrypt with a new data key from now on.")
    ] = False,
) -> None:
    """Encrypt everything that is encrypted with other keys with the current one.

    It goes on where it was stopped, a few rows at a time beside live work, until nothing is left. Then it says which
    keys can be retired.
    """
    seen = talk.client.re_encrypt(restart=restart, fresh_data_key=fresh_data_key)
    while not seen.done:
        _tell(talk, seen, f"round {seen.round}, {seen.table}: looked at {seen.looked_at:,} rows")
        seen = talk.client.re_encrypt()
    _tell(talk, seen, f"done: looked at {seen.looked_at:,} rows in {seen.round} rounds")
    for name, count in seen.left.items():
        _tell(talk, seen, f"{count:,} values need the key {name!r}, which the server does not have: add it and repeat")
    for name in seen.known:
        can = "can be retired: nothing is encrypted with it" if name in seen.retirable else "is still in use"
        _tell(talk, seen, f"the key {name!r} {can}")
    if seen.left:
        raise typer.Exit(1)


def _tell(talk: Talk, seen: "EncryptionView", text: str) -> None:
    facts = {"table": seen.table, "looked_at": seen.looked_at, "resealed": seen.resealed, "done": seen.done}
    talk.say(escape(f"{text}; {seen.resealed:,} values encrypted anew" if not seen.done else text), **facts)
