"""`secrets`: values that headers of targets reference, and that only their hosts receive."""

import sys
from typing import Annotated

import typer

from duetime.cli.groups import group
from duetime.cli.server_commands import ServerCommand, list_command, server_command

application = group("Secrets that headers of targets reference.")

SecretName = Annotated[str, typer.Argument(metavar="NAME")]


@application.command("list")
@list_command
def list_secrets(command: ServerCommand) -> None:
    """List the secrets, where they may be sent and which roles may use them. Their values are never shown."""
    command.table(
        command.client.list_secrets().items,
        "secret=name hosts roles changed=changed_at",
        "no secrets. Create one: duetime secrets put NAME --host HOST",
        roles=lambda secret: secret.roles or ("all that submit",),
    )


@application.command()
@server_command
def put(
    command: ServerCommand,
    name: SecretName,
    host: Annotated[
        list[str],
        typer.Option("--host", help="A host it may be sent to: api.example.com, api.example.com:8443, *.example.com."),
    ],
    role: Annotated[
        list[str] | None,
        typer.Option("--role", help="A role whose jobs may use it: admin, operator, submitter. Default: all."),
    ] = None,
) -> None:
    """Create or replace a secret. The value is read from standard input or a prompt, because other users can see
    arguments."""
    asked = sys.stdin.isatty()
    value = typer.prompt("Value", hide_input=True, err=True) if asked else sys.stdin.read().rstrip("\r\n")
    command.show(command.client.put_secret(name, value, hosts=host, roles=role or ()))


@application.command()
@server_command
def delete(command: ServerCommand, name: SecretName) -> None:
    """Delete a secret: attempts that need it fail from now on."""
    command.show(command.client.delete_secret(name))
