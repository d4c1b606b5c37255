"""`secrets`: values that headers of targets name, and that only their hosts get to see."""

import sys
from typing import Annotated

import typer

from duetime.cli.groups import group
from duetime.cli.server_commands import Talk, talks

application = group("Secrets that headers of targets name.")

SecretName = Annotated[str, typer.Argument(metavar="NAME")]


@application.command("list")
@talks
def list_secrets(talk: Talk) -> None:
    """List the secrets, with where they may be sent and who may name them. Their values are shown nowhere."""
    columns = {
        "secret": lambda secret: secret.name,
        "hosts": lambda secret: secret.hosts,
        "roles": lambda secret: secret.roles or ("all that submit",),
        "changed": lambda secret: secret.changed_at,
    }
    talk.table(talk.client.list_secrets().items, columns)


@application.command()
@talks
def put(
    talk: Talk,
    name: SecretName,
    host: Annotated[
        list[str],
        typer.Option("--host", help="Where it may be sent: api.example.com, api.example.com:8443, *.example.com."),
    ],
    role: Annotated[
        list[str] | None,
        typer.Option("--role", help="Whose jobs may name it: admin, operator, submitter. Default: all of them."),
    ] = None,
) -> None:
    """Set a secret, new or not. Its value is read from a pipe or asked for: others can see arguments."""
    asked = sys.stdin.isatty()
    value = typer.prompt("Value", hide_input=True, err=True) if asked else sys.stdin.read().rstrip("\r\n")
    talk.show(talk.client.put_secret(name, value, hosts=host, roles=role or ()))


@application.command()
@talks
def delete(talk: Talk, name: SecretName) -> None:
    """Delete a secret: attempts that need it fail from now on."""
    talk.show(talk.client.delete_secret(name))
