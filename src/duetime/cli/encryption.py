"""`encryption`: the keys that what is stored is encrypted with."""

import typer

from duetime.cli.output import out

application = typer.Typer(help="The keys that what is stored is encrypted with.", no_args_is_help=True)


@application.command("new-key")
def new_key() -> None:
    """Make a key for DUETIME_ENCRYPTION_KEYS, and print it. It is kept nowhere."""
    from duetime.api.data_folder import new_encryption_key

    out.print(new_encryption_key("key"), soft_wrap=True, markup=False)


@application.callback()
def about() -> None:
    pass
