"""`issuers`: who signs tokens for the users of the tenant."""

import json
from pathlib import Path
from typing import Annotated

import typer

from duetime.cli.groups import group
from duetime.cli.server_commands import ServerCommand, Yes, list_command, server_command
from duetime.errors import InvalidInput

application = group("Issuers: who signs tokens with which users see and control their own jobs.")

Name = Annotated[str, typer.Argument(metavar="NAME")]


@application.command("list")
@list_command
def list_issuers(command: ServerCommand) -> None:
    """List the issuers."""
    command.table(
        command.client.list_issuers().items,
        "name issuer audience role owner_claim tag queue max_lifetime",
        "no issuers. Create one: duetime issuers set NAME --issuer URL --jwks-url URL",
    )


@application.command()
@server_command
def show(command: ServerCommand, name: Name) -> None:
    """Show an issuer, with its keys."""
    command.show(command.client.get_issuer(name))


@application.command("set")
@server_command
def set_issuer(
    command: ServerCommand,
    name: Name,
    issuer: Annotated[str, typer.Option("--issuer", help="The claim `iss` of its tokens: https://app.example.com.")],
    jwks_url: Annotated[str | None, typer.Option("--jwks-url", help="Where its public keys are.")] = None,
    jwks: Annotated[Path | None, typer.Option("--jwks", help="A file with its public keys (JWKS).")] = None,
    public_key: Annotated[Path | None, typer.Option("--public-key", help="A file with its public key (PEM).")] = None,
    audience: Annotated[
        str | None, typer.Option("--audience", help="The claim `aud` of its tokens. Default: duetime:TENANT.")
    ] = None,
    role: Annotated[str | None, typer.Option("--role", help="viewer, submitter or operator. Default: viewer.")] = None,
    owner_claim: Annotated[
        str | None, typer.Option("--owner-claim", help="The claim that names the owner. Default: sub.")
    ] = None,
    algorithm: Annotated[
        list[str] | None, typer.Option("--algorithm", help="An accepted algorithm: ES256. May be repeated.")
    ] = None,
    max_lifetime: Annotated[
        str | None, typer.Option("--max-lifetime", help="The longest lifetime of a token. Default: 1h.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only jobs with this tag.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", help="Only jobs in this queue.")] = None,
) -> None:
    """Create or replace an issuer."""
    try:
        keys = None if jwks is None else json.loads(_read(jwks, "jwks"))
    except ValueError:
        raise InvalidInput("is not JSON", field="jwks", remedy='such as {"keys": […]}') from None
    command.show(
        command.client.put_issuer(
            name,
            issuer=issuer,
            jwks=keys,
            jwks_url=jwks_url,
            public_key=None if public_key is None else _read(public_key, "public-key"),
            audience=audience,
            role=role,
            owner_claim=owner_claim,
            algorithms=None if algorithm is None else tuple(algorithm),
            max_lifetime=max_lifetime,
            tag=tag,
            queue=queue,
        )
    )


@application.command()
@server_command
def delete(command: ServerCommand, name: Name, yes: Yes = False) -> None:
    """Delete an issuer. Its tokens stop."""
    if command.must_confirm(yes=yes):
        command.confirm(f"Delete the issuer {name}? Its users lose access.")
    command.show(command.client.delete_issuer(name))


def _read(file: Path, field: str) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}", field=field) from None
